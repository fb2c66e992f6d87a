"""Reports of agents, GPUs and engines, apart from spans."""
