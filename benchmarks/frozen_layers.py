"""Measures a bi-encoder's training step with frozen lower layers beside one that trains all.

    python -m benchmarks.frozen_layers FOLDER [--frozen N] [--checkpoint FOLDER] [--steps N] [--batch N]

FOLDER is a BEIR folder, MedQuAD's here. All sides learn from the same batches and take turns on one core. A frozen step
is measured twice: when its texts are read for the first time, and when what the frozen layers make of them is kept. A
figure is the median over turns of processor time, without the first turn.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

from benchmarks.precision import PRECISIONS, in_turns, trained
from benchmarks.transformers import default_checkpoint
from pyrite.ranking.precision import best_precision

SMALLEST = ["{collection} vectors=random encoding.min_count=1 --checkpoint {small_bert} --frozen 1 --steps 2 --batch 4"]


def main(arguments: list[str] | None = None) -> None:
    """Print milliseconds per step of each side."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("overrides", nargs="*")
    parser.add_argument("--checkpoint", default=None)
    parser.add_argument("--frozen", type=int, default=4)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--batch", type=int, default=16)
    chosen = parser.parse_args(arguments)
    chosen.checkpoint = chosen.checkpoint or default_checkpoint()
    torch.set_num_threads(1)
    print(f"auto is {best_precision(gpu=False)} here")
    for precision in PRECISIONS:
        whole = trained(chosen, precision)[0]
        frozen = trained(chosen, precision, f"ranker.frozen_layers={chosen.frozen}")[0]

        new, kept = (f"{chosen.frozen} layers frozen, texts {state}" for state in ("new", "kept"))
        sides = {"all layers": whole, new: frozen, kept: frozen}  # the second meets the texts of the first
        seconds = in_turns(sides, chosen.steps)
        print(f"{precision}, milliseconds per step of {chosen.batch} pairs")
        for name, each in seconds.items():
            print(f"  {name:32s} {1000 * each:8.1f}   {seconds['all layers'] / each:5.2f} times as fast as all layers")


if __name__ == "__main__":
    main()
