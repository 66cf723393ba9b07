"""What the control machine takes to plan and to play for hundreds of hosts, which are simulated."""
