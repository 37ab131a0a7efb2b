"""Holds the sampling policies: each chooses, per batch, the retrieval function."""
