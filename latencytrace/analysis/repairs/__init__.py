"""One file per repair of malformed traces."""
