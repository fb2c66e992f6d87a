"""Profiles that were asked for, and the folder that keeps them."""
