"""Mends values and texts that cannot be read, and keeps account of them."""
