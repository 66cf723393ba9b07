"""What differs between runs, or between variants that took turns: by how much, and how surely. No Spark."""
