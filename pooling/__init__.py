"""Pools runs and judges the pools: which documents to judge, in which order, and what the judgements show. Ray is not
used.
"""

if __name__ == "pooling":  # imported from the folder of a checkout, as a second copy of it
    raise ImportError("pooling is pyrite.pooling since version 0.3", name="pooling")
