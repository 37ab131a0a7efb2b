"""Trains an agent: environments, workers and the loop over them."""
