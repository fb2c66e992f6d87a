"""Latency against load: the answer, its document, and what it says in a sentence."""
