"""Tokens, first tokens, and the gaps between them."""
