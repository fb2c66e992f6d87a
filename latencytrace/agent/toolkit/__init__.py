"""Parts that hooks of one family share: HTTP clients, streams, batchers, models, other processes."""
