"""Runs tasks: in this process, in warm processes next to it, on Ray, or as trials of Ray Tune."""
