"""Alerts on their way out: documents, texts, links and the outbox."""
