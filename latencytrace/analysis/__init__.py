"""The maths: pure functions from model to model; no clock, I/O, threads or logs."""
