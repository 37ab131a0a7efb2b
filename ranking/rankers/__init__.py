"""Defines neural rankers, one per file, behind one base."""
