"""Ranks a collection with many retrieval systems, for a pool where nobody has runs."""
