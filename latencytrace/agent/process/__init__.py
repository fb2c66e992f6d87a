"""The traced process: its name, resource, background threads, forks and end."""
