"""Extension modules in C: how they are built and loaded, and what they share."""
