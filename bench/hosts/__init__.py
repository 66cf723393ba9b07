"""What the control machine takes for fleets of hundreds of hosts, which are simulated."""
