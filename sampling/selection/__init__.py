"""Holds the selectors: each picks negatives from what a retrieval function offers."""
