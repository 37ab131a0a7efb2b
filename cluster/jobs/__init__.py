"""Submits a command to a Ray cluster as a job, and follows it."""
