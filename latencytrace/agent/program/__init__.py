"""Another tracer provider's spans, where the program brings its own."""
