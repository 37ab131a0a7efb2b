"""Runs many trials on Ray Tune."""
