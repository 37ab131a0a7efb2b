"""Reads the results in output folders for their reports, and writes the reports there; imports no Ray."""
