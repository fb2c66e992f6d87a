"""The data folder and its private files."""
