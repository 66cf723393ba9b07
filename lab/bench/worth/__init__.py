"""What the plan is worth by class of work: variants in turn, judged as compare.yml judges them."""
