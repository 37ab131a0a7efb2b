"""Writes and reads output folders."""
