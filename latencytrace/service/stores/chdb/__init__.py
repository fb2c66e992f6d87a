"""The embedded store: chDB, and what mends its folder."""
