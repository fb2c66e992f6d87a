"""Metrics that `/metrics` shows, and the sender of the same over OTLP."""
