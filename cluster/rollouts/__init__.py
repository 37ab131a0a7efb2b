"""Trains an agent: environments, ranker hosts and the loop over them."""
