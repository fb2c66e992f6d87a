"""Tables and pictures in the terminal."""
