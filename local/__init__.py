"""The local fleet: systemd nodes in containers, the sandbox REST proxy, set-up of this machine."""
