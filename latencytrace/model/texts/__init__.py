"""Texts of others as they may be shown: without secrets, and without control characters."""
