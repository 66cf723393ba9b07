"""The makers' own: the local fleet, the sandbox, sample services, the demo, benches and measurements."""
