"""Retrieval functions: each ranks documents for a query."""
