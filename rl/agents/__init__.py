"""Holds the agents that learn a sampling policy: each file has one agent's options and its algorithm."""
