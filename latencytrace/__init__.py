"""Where did the milliseconds go? Latency observability for machine-learning inference."""
