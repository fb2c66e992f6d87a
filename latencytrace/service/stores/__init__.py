"""One file per storage engine."""
