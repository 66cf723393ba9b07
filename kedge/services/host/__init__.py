"""The machine: kernel settings, memory for all that runs on it, its Java, its ports."""
