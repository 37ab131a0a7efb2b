"""What a ranker is shown: policies, retrieval functions and selectors. Knows nothing of Ray."""
