"""Listening: connections, hosts, time limits, problem documents."""
