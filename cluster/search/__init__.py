"""Chooses the runs of a study while it runs: Optuna, seeds until a comparison is decided, and schedulers."""
