"""Silences the libraries that read checkpoints, and keeps torch's global generator as it was."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def unseeded() -> Iterator[None]:
    """A context that reads a model quietly and leaves torch's global generator as it was: missing weights are drawn
    twice, by the library and then from a generator of ours."""
    with quiet(), torch.random.fork_rng(devices=[]):
        yield


@contextmanager
def quiet() -> Iterator[None]:
    """Silence the libraries' report of weights that a cut model or a new head leaves over, and its progress bars."""
    from transformers.utils import logging as library

    before, bars = library.get_verbosity(), library.is_progress_bar_enabled()
    sentences = logging.getLogger("sentence_transformers")
    level = sentences.level
    sentences.setLevel(logging.CRITICAL)
    library.set_verbosity(logging.CRITICAL)
    library.disable_progress_bar()
    try:
        yield
    finally:
        library.set_verbosity(before)
        sentences.setLevel(level)
        if bars:
            library.enable_progress_bar()
