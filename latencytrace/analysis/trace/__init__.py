"""The meaning of a span: its engine, its stage, whether it is a request."""
