"""Defines training objectives, one class each."""
