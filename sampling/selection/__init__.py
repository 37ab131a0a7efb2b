"""Selectors: each picks negatives from what a retrieval function offers."""
