"""Chooses the runs of a study while it goes on: Optuna, seeds until a comparison is decided, and schedulers."""
