"""Does the work on pieces of a large collection in Ray Data tasks."""
