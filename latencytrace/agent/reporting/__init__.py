"""What the agent says of itself: its status, its own cost."""
