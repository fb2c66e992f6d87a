"""Work on GPUs and in shared steps, joined to requests."""
