"""What is trained: collections, rankers, objectives, training and evaluation. Knows nothing of Ray."""
