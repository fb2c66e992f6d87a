"""Latency against load: what a cohort's service keeps up with, and what waits beyond it."""
