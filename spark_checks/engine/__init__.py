"""Folds over evidence and what they rest on."""
