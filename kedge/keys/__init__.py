"""The keys that each component and version reads, and what each key takes."""
