"""One file per destination of alerts."""
