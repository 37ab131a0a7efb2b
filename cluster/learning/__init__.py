"""Learning sampling policies: agents over copies of the environment, from the command line to what is kept of them."""
