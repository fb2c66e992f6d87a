"""Texts as they may be shown: without secrets and control characters, numbers with their units."""
