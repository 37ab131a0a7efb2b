"""Defines neural rankers, one a file, behind one base."""
