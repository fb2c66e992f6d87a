"""Service level objectives: their file, counts, burn and alerts."""
