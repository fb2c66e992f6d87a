"""Time on a GPU, beside the host's: events, timers, and spans that wait for them."""
