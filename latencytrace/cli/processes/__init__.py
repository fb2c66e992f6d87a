"""Starting, naming and ending programs."""
