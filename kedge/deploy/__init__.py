"""The playbooks' work on the control machine: render files, fetch jars, query clusters, find differences."""
