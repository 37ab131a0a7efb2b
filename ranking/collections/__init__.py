"""Readers: every format becomes one `Collection`."""
