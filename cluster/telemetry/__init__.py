"""Reports metrics and progress to Ray, Grafana and trackers."""
