"""Copies of a store: backups, what is made of them, and the move to a server."""
