"""REINFORCE with a learned baseline (Williams 1992; Cohen et al. 2019, equation 8)."""
