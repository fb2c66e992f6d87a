"""The web pages, drawn by the service: one file a page, what they share beside them."""
