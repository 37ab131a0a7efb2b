"""Pools of runs: making runs where there are none, and judging what was pooled."""
