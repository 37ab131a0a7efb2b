"""Tests what the runs of a study show; draws nothing and starts nothing."""
