"""Comparison of two cohorts: shifts of quantiles, proven or not, at equal work and load."""
