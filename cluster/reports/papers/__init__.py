"""Compares a study with the figures of the paper that it repeats."""
