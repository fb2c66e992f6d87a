"""The span, and OpenTelemetry's tracer and provider over it."""
