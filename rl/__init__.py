"""Learns who decides which negatives a ranker sees: environment, states, rewards, agents and the frozen policy."""

if __name__ == "rl":  # imported from the folder of a checkout, as a second copy of it
    raise ImportError("rl is pyrite.rl since version 0.3", name="rl")
