"""Chooses runs as the arms of a bandit: `bandit` has its options, `index` how good an arm looks, `play` the loops."""
