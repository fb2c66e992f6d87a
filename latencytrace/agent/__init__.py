"""The part of latencytrace inside the traced process: small, and never raises into it."""
