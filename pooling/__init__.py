"""Pools runs and judges the pools: which documents to judge, in which order, and what the judgements show. Ray is not
used.
"""
