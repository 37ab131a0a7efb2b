"""Turns sweeps into runs with names."""
