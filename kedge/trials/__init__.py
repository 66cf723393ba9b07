"""The statistics of capacity and comparison: differences with their certainty, the search. No Spark."""
