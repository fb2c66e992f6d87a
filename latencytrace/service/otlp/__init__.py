"""OTLP's bytes: checked, bounded, and freed of content."""
