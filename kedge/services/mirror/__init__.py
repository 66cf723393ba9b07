"""Mirrors between clusters, classic MirrorMaker and MirrorMaker 2: variables and rules."""
