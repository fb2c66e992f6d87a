"""What sets the slow requests apart."""
