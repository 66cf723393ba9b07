"""The canary: a small load that never ends, its topics and its login; variables and rules."""
