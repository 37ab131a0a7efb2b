"""One-step actor-critic (Cohen et al. 2019, equations 9–11)."""
