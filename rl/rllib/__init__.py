"""Runs our agents on RLlib: the module it trains, the runners that step copies, the order of sampling and updates."""
