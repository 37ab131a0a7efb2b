"""Measures two sides of a comparison alternately, each in a separate process on one core."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Side = Callable[[argparse.Namespace], dict[str, Any]]
"""What it finds and spends: numbers, lists and arrays by name."""


def peak() -> float:
    """Most memory that this process has held, in MiB; unlike `ru_maxrss`, nothing of who started it."""
    (line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) / 1024


@dataclass(frozen=True)
class TwoSides:
    """Two sides and the script that has them.

    Args:
        script: its module, which calls `conduct` with its arguments: so do the processes of the sides.
        sides: by name.
    """

    script: str
    sides: Mapping[str, Side]

    def parser(self, description: str) -> argparse.ArgumentParser:
        """The arguments that any such script takes."""
        known = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
        known.add_argument("folder", type=Path, help="a BEIR folder, e.g. MedQuAD's")
        known.add_argument("--checkpoint", required=True, help="a folder of sentence-transformers")
        known.add_argument("--turns", type=int, default=1, help="of each side")
        known.add_argument("--here", action="store_true", help="both sides in this process, whose memory they share")
        known.add_argument("--side", choices=self.sides, help=argparse.SUPPRESS)
        known.add_argument("--result", type=Path, help=argparse.SUPPRESS)
        return known

    def conduct(
        self, known: argparse.ArgumentParser, arguments: Sequence[str] | None, report: Callable[[Any], None]
    ) -> None:
        """Compare the sides, or run one of them.

        Args:
            known: the parser from `parser`, with the script's arguments.
            arguments: the command line; None uses this process's.
            report: function that measures with `run` and prints; called with the chosen arguments.
        """
        chosen = known.parse_args(arguments)
        chosen.given = list(sys.argv[1:] if arguments is None else arguments)
        if chosen.side is None:
            report(chosen)
            return
        found = self.sides[chosen.side](chosen)
        chosen.result.write_text(json.dumps(found, default=lambda array: array.tolist()))

    def in_turns(self, chosen: argparse.Namespace, **changed: Any) -> dict[str, list[dict[str, Any]]]:
        """Return the results and costs of each side, turn by turn; see `benchmarks.two_sides.run` for the arguments."""
        found: dict[str, list[dict[str, Any]]] = {side: [] for side in self.sides}
        for _ in range(chosen.turns):
            for side, results in found.items():
                results.append(self.run(chosen, side, **changed))
        return found

    def run(self, chosen: argparse.Namespace, side: str, **changed: Any) -> dict[str, Any]:
        """Return the results and costs of a side, run in a separate process, or with `--here` in this one.

        Args:
            chosen: the script's arguments.
            side: the name of the side.
            changed: arguments of the script that differ in this run.
        """
        if chosen.here:
            return self.sides[side](argparse.Namespace(**vars(chosen) | changed))
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "result.json"
            command = [sys.executable, "-m", self.script, *chosen.given]
            for name, value in (changed | {"side": side, "result": path}).items():
                command += [f"--{name}", str(value)]
            alone = os.environ | {"OMP_NUM_THREADS": "1", "RAYON_NUM_THREADS": "1"}
            done = subprocess.run(command, env=alone, stderr=subprocess.PIPE, text=True)  # progress bars
            if done.returncode:
                sys.exit(done.stderr)
            found: dict[str, Any] = json.loads(path.read_text())
            return found
