"""Mines negatives for the queries of a collection, by shards, here or on the nodes of a Ray cluster."""
