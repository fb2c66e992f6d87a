"""The budget of the agent's own cost: what it costs, what is left out to keep it, for whom."""
