"""Requests of a cohort, and what is said of them together."""
