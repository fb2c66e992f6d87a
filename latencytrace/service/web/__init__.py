"""The web: addresses of the API, and pages."""
