"""Builds the Grafana dashboards: plain dictionaries, one file each (`make dashboards`)."""
