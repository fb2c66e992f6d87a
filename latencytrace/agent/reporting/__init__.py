"""The agent on itself: its status, its own cost."""
