"""Who decides: the environment, what agents see and get, their networks and algorithms, the frozen policy."""
