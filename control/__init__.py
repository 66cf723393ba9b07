"""What the playbooks do on the control machine: render files, fetch jars, ask clusters, tell drift."""
