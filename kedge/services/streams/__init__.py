"""Streams applications: variables and rules."""
