"""Loads of many kinds, made from a seed: a service must not care whose data it gets."""
