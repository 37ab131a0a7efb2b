"""Opens pools, builds systems where there are no runs, and simulates one method over one pool."""
