"""Answers to questions, as the documents that the API and the terminal show."""
