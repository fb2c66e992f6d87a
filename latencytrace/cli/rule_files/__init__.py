"""Writing rules for Prometheus and Grafana."""
