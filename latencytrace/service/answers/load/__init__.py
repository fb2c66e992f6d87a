"""Latency against load, and what requests that are served together cost each other."""
