"""Holds the retrieval functions, which rank documents for a query."""
