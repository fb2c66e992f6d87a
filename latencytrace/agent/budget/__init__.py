"""The budget of the agent's own cost: what it costs, and what is left out to keep it."""
