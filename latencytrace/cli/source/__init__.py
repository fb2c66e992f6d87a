"""Sources of answers: a service, or its folder."""
