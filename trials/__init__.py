"""Trials: what hosts carry, and whether one configuration is better than another, measured on them."""
