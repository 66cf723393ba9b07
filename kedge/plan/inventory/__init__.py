"""The inventory: read with Ansible's own reader, checked, its secrets kept apart."""
