"""What a program calls by itself: stages, requests, tickets and batches."""
