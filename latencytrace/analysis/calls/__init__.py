"""Calls of other services: attempts made again, messages, and who waited for whom."""
