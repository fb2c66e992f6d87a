"""One file per library whose calls are timed."""
