"""Traits that set the slow requests apart."""
