"""Starts the command line: `pyrite`, and `python -m pyrite`."""

import atexit
import gc
from typing import NoReturn

from pyrite.cluster.commands import cli


def main() -> NoReturn:
    """Run the command of this process."""
    # Python looks through all objects for cycles before it ends, a second's work; registered first, this is done last.
    atexit.register(gc.freeze)
    cli.main()


if __name__ == "__main__":
    main()
