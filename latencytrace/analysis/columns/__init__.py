"""Attribution over columns: whole batches of traces at once; what is odd is left to objects."""
