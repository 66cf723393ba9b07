"""Where untrusted data enters: what hosts, proxies and topics send, held against shape, size and names."""
