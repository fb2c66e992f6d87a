"""The aggregator: receives OTLP, writes ledgers, answers questions."""
