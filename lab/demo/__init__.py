"""``make demo``: the whole loop on a local fleet, with a load that this machine carries."""
