"""Defines learning-rate schedules, one class each."""
