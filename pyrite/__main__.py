"""Runs the command line as `python -m pyrite`, if the command `pyrite` is not on the path."""

from pyrite.cluster.__main__ import main

if __name__ == "__main__":
    main()
