"""Requests replayed as if one of their stages were faster."""
