"""Turns each command line verb into one call."""
