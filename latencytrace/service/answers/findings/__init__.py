"""Findings on a service that runs, read off its metrics: what it lost, and what mends it."""
