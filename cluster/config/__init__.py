"""Composes, checks and shows the configuration."""
