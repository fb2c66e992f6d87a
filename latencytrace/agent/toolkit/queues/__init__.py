"""Messages through queues: sending them, and the work that they ask for."""
