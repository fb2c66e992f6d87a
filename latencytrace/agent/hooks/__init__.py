"""One file per library, with a table of its timed calls."""
