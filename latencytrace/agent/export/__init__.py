"""From ended spans to the receiver: queue, batches, encoding, transports."""
