"""Builds versions of a negative index in a separate process; `pyrite.torch.builders.BuildBeside` starts it.

Its input is a number of bytes and then these, again and again: first the model and the texts, then the steps to build.
It comes from the trainer that started the process.
"""

from __future__ import annotations

import os
import queue
import sys
import threading
import time
from typing import BinaryIO

import torch
from ray import cloudpickle

from pyrite.ranking.checkpoint import from_bytes
from pyrite.torch.version_files import FAILED

LOOK_S = 0.5


def messages(source: BinaryIO) -> queue.Queue[bytes]:
    """Read messages in a thread. This process ends when there are no more, since its trainer has ended then."""
    received: queue.Queue[bytes] = queue.Queue()

    def read() -> None:
        while size := source.read(8):
            received.put(source.read(int.from_bytes(size, "big")))
        os._exit(0)

    threading.Thread(target=read, daemon=True).start()
    return received


def end_with(parent: int) -> None:
    """End this process when its parent has ended: others may hold its input open."""

    def look() -> None:
        while os.getppid() == parent:
            time.sleep(LOOK_S)
        os._exit(0)

    threading.Thread(target=look, daemon=True).start()


def main() -> None:
    """Build versions until the trainer ends."""
    received = messages(sys.stdin.buffer)
    encoder, texts, folder, device, threads, parent = cloudpickle.loads(received.get())
    end_with(parent)
    torch.set_num_threads(threads)
    encoder.to(device)
    while True:
        step = int(received.get())
        try:
            path = folder.weights_path(step)
            encoder.load_state_dict(from_bytes(path.read_bytes(), str(path)))
            folder.build(encoder, texts, step)
        except Exception as error:  # raised when a batch waits for the version
            folder.write(FAILED, {"error": f"{type(error).__name__}: {error}"})
            raise


if __name__ == "__main__":
    main()
