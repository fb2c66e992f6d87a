"""Reports of agents, GPUs and engines beside spans."""
