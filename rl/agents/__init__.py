"""Agents: each one class that says which algorithm learns and with which options."""
