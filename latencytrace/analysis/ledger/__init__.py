"""The critical path and what becomes of it: ledgers and requests."""
