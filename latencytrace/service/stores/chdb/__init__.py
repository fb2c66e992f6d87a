"""The embedded store: chDB, its repair, and copies under way."""
