"""What agents, GPUs and engines report beside spans."""
