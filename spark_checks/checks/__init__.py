"""The checks that are one file each."""
