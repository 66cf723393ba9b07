"""What writers and judges of evidence agree on: records, tables, run.json, load.json, levels."""
