"""The calls that a program makes itself: stages, requests, tickets and batches."""
