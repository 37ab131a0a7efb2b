"""Chooses the documents that a ranker learns from as negatives. Knows nothing of Ray."""

if __name__ == "sampling":  # imported from the folder of a checkout, as a second copy of it
    raise ImportError("sampling is pyrite.sampling since version 0.3", name="sampling")
