"""What a span is: its engine, its stage, whether it is a request."""
