"""Training objectives, one class each."""
