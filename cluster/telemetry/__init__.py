"""Tells Ray, Grafana and trackers how far a command is."""
