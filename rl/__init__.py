"""Learns who decides which negatives a ranker sees: environment, states, rewards, agents and the frozen policy."""
