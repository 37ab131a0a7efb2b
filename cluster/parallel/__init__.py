"""One ranker trained by several workers, which make the same step of the optimizer together."""
