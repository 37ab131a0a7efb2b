"""Trains one ranker on several workers of Ray Train."""
