"""Builds versions of a negative index in a separate process; `pyrite.torch.builders.BuildBeside` starts it.

Its input is a number of bytes and then these, again and again: first the model and the texts, then the steps to build.
It comes from the trainer that started the process.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import partial
from typing import BinaryIO

import torch
from ray import cloudpickle

from pyrite.cluster.executors.process_end import end_with
from pyrite.torch.version_files import FAILED


def message(source: BinaryIO) -> bytes:
    """Read a message; nothing if there are no more, since the trainer has ended then."""
    return source.read(int.from_bytes(source.read(8), "big"))


def build_versions(source: BinaryIO, follow: Callable[[int], None]) -> None:
    """Build versions until the trainer ends.

    Args:
        source: the input of this process.
        follow: is called with the trainer's process id before anything is built, to end this process with it.
    """
    encoder, texts, folder, device, threads, parent = cloudpickle.loads(message(source))
    follow(parent)
    torch.set_num_threads(threads)
    encoder.to(device)
    while content := message(source):
        step = int(content)
        try:
            weights = folder.weights(step)
            if weights is not None:
                encoder.load_state_dict(weights)
                folder.build(encoder, texts, step)
        except Exception as error:  # raised when a batch waits for the version
            if not folder.path.exists():  # the trainer has deleted it, and stops this process
                return
            folder.write(FAILED, {"error": f"{type(error).__name__}: {error}"})
            raise


if __name__ == "__main__":
    build_versions(sys.stdin.buffer, lambda parent: end_with(parent, partial(os._exit, 0)))
