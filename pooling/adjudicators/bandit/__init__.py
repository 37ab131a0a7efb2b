"""Chooses runs as the arms of a bandit. `bandit` has the options, `index` rates an arm, `play` holds the loops."""
