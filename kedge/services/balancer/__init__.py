"""The balancer in front of the REST proxies: variables and rules."""
