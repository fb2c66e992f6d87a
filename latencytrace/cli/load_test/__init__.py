"""Sending load at a chosen rate, and telling what came back."""
