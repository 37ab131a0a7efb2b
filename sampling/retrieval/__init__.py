"""Holds the retrieval functions: each ranks documents for a query."""
