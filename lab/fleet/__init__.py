"""The local fleet: systemd nodes in containers, their image, keys and links."""
