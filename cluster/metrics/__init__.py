"""What is measured while it runs, and told to Ray, whose agents Prometheus reads."""
