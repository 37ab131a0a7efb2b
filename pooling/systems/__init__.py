"""Ranks a collection with many retrieval systems, for a pool when no runs exist."""
