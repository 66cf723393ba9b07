"""Rows: settings and findings with their reasons; the inventory; differences and texts of a plan."""
