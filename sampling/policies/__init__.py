"""Sampling policies: each chooses, per batch, the retrieval function."""
