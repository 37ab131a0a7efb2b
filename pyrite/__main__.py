"""Runs the command line: `python -m pyrite` does what `pyrite` does, where that command is not on the path."""

from cluster.__main__ import main

if __name__ == "__main__":
    main()
