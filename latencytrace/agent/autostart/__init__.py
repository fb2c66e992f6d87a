"""The folder that `latencytrace run` puts on a program's PYTHONPATH."""
