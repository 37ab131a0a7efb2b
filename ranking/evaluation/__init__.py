"""Measures, candidate origins and tests of significance."""
