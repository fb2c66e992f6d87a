"""Plugins as others would write them: a sink and a store."""
