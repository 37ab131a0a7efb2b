"""Defines who stands together in a batch, one class each."""
