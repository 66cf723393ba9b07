"""One folder a service: variables, rules, record; beside them what concerns all services."""
