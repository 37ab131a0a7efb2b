"""Studies: many runs spread with Ray Tune, their analysis and their report."""
