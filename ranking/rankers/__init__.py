"""Neural rankers, one a file, behind one base."""
