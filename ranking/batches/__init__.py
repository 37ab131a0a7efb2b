"""Defines orders of examples, which decide the queries that share a batch, one class each."""
