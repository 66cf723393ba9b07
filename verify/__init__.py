"""Produces the evidence that the audit reads: state tests, load, watchers and collection."""
