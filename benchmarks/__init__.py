"""Measurements of speed and memory, one command each: python -m benchmarks.NAME."""
