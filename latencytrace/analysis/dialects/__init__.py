"""The contract of an engine's dialect."""
