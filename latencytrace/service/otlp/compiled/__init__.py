"""OTLP and columns of spans by compiled code, and when it is ready."""
