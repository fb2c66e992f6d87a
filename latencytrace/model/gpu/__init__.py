"""Readings of GPUs, and the steps that many requests share on them."""
