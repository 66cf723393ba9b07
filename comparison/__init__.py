"""What differs between runs, or between arms that took turns: by how much, and how sure that is. No Spark."""
