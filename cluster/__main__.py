"""Starts the command line: `pyrite`, and `python -m cluster`."""

from cluster.commands.cli import main

if __name__ == "__main__":
    main()
