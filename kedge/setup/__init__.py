"""Set-up: makes this machine and this folder ready."""
