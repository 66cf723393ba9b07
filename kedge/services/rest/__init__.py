"""REST proxies: variables, rules and checks; what each distribution does in its own way."""
