"""Chooses the documents that a ranker learns from as negatives. Knows nothing of Ray."""
