"""Timing a library's calls: the contract of a hook, patching, wrapping, and the recorder."""
