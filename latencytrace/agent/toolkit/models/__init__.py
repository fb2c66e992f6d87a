"""Parts that calls of models have in common, whatever the library."""
