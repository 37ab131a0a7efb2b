"""Serves and refreshes the negative index from Ray actors."""
