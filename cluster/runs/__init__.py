"""Executes one run."""
