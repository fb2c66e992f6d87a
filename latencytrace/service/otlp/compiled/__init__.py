"""OTLP's bytes into columns of spans, and what else is done with each span's bytes, in C."""
