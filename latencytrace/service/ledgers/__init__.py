"""Open traces, their attribution, and the ledgers that come of it."""
