"""Parts that HTTP clients and servers have in common, whatever the library."""
