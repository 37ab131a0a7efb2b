"""Opens pools, trains the rankers among their systems, and simulates one method over one pool."""
