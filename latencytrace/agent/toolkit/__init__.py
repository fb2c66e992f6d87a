"""Parts that hooks of a family share: HTTP clients, streams, batchers, other processes."""
