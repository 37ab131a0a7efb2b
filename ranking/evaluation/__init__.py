"""Measures rankers, finds their candidates and tests differences for significance."""
