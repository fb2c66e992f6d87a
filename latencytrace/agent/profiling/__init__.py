"""Profiles of single steps, taken when the service asks."""
