"""What every rule is written with: settings and findings, the plan, variables, names of places, placement."""
