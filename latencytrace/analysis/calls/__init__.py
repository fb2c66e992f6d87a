"""Calls of other services: attempts made again, messages, and which span waited for which."""
