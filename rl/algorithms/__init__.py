"""What learns: RLlib's new API stack, stepped in lockstep so that a seed gives one result."""
