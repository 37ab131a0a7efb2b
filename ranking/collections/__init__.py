"""Reads every supported format into one `Collection`."""
