"""Reading spans of other tools from files."""
