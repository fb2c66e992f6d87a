"""Time on a GPU, apart from the host's: events, timers, and spans that wait for them."""
