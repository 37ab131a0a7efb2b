"""Records which negatives were shown by function and version, in files that all processes of a training write."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

if TYPE_CHECKING:
    from pyrite.ranking.batch import Batch
    from pyrite.torch.served_dense import ServedVersion


class ShownFiles:
    """The lines of a training's processes in a folder, one per batch.

    A line has the number of the `batch`, its `pairs` and distinct `documents`, its `version`, the seconds that it
    `waited` for it, what the guard `dropped`, negatives that were `filled` at random since there were too few, and by
    function `shown`, `scored` and `above`: the negatives that were shown, those that the version scores, and those of
    them that score as high as the positive.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._guarded = 0

    def append(self, name: str, line: Mapping[str, Any]) -> None:
        """Add a line to the file of a process."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / f"{name}.jsonl").open("a") as file:
            file.write(json.dumps(line) + "\n")

    def count(
        self,
        service: ServedVersion | None,
        process: str,
        number: int,
        waited: float,
        batch: Batch,
        negatives: NDArray[np.int32],
        assigned: NDArray[np.int64],
        guarded: Mapping[str, int],
    ) -> None:
        """Add the line of a batch.

        Args:
            service: the version that it was served from.
            process: the name of the process: its rank and its worker.
            number: the number of the batch; −1 for rows that have none.
            assigned: int64 [b, n], the index of the function of each negative, −1 if it was filled.
            guarded: by function, how many documents the guard has dropped so far.
        """
        above = scored = np.zeros(negatives.shape, bool)
        if service is not None and negatives.size:
            scores = service.scores(batch.queries, np.concatenate([batch.positives[:, None], negatives], axis=1))
            scored = np.isfinite(scores[:, 1:]) & np.isfinite(scores[:, :1])
            above = scored & (scores[:, 1:] >= scores[:, :1])
        masks = {"shown": negatives >= 0, "scored": scored, "above": above}
        functions = {
            name: {kind: int((mask & (assigned == index)).sum()) for kind, mask in masks.items()}
            for index, name in enumerate(guarded)
        }
        dropped, self._guarded = sum(guarded.values()) - self._guarded, sum(guarded.values())
        self.append(
            process,
            {
                "batch": number,
                "pairs": len(batch),
                "documents": len(np.unique(np.concatenate([batch.positives, negatives[negatives >= 0]]))),
                "version": -1 if service is None else service.step,
                "waited": waited,
                "dropped": dropped,
                "filled": int(((assigned < 0) & (negatives >= 0)).sum()),
                "functions": functions,
            },
        )

    def drop_from(self, batch: int) -> None:
        """Drop the lines of the batches from one on, which a resumed training fetches again; from 0 on all lines, of
        batches without a number too."""
        for file in self.folder.glob("*.jsonl"):
            kept = [line for line in _whole(file, 0) if json.loads(line)["batch"] < batch] if batch else []
            file.write_bytes(b"".join(kept))

    def lines(self, read: dict[str, int] | None = None) -> list[dict[str, Any]]:
        """Return the lines of all processes, each with its `rank`.

        Args:
            read: the bytes of each file that were read before, which are left out and then updated; None reads all.
        """
        read = {} if read is None else read
        lines = []
        for file in sorted(self.folder.glob("*.jsonl")):
            new = _whole(file, read.get(file.name, 0))
            read[file.name] = read.get(file.name, 0) + sum(map(len, new))
            lines += [{"rank": file.stem.partition("-")[0], **json.loads(line)} for line in new]
        return lines


def _whole(file: Path, start: int) -> list[bytes]:
    """Return the lines of a file from a byte on, without a last one that is still written, or was never finished."""
    with file.open("rb") as source:
        source.seek(start)
        return [line for line in source if line.endswith(b"\n")]


SHOWN = {"function": pl.String, **dict.fromkeys(("version", "shown", "scored", "above"), pl.Int64)}
"""What a line has of each function."""
SUMMED = ("pairs", "documents", "waited", "dropped", "filled")


def totals(lines: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """Return the sums of what batches have in common, and the largest version."""
    rows = list(lines)
    sums = {name: sum(line.get(name, 0) for line in rows) for name in SUMMED}
    return {"version": max((line["version"] for line in rows), default=-1), **sums}


@dataclass(frozen=True)
class NegativesReport:
    """The negatives that were shown in a training.

    Args:
        table: one row per function and version: `batches`, `negatives`, and `may_be_relevant`, the share of those with
            a score that the version scores as high as their positive (null if it scores none).
        waited: seconds in which batches waited for a version.
        dropped: documents that the guard dropped from refreshed lists.
        filled: negatives that were drawn at random, since a query had too few.
        mode: how the index was refreshed; None without an index.
        remarks: sentences about the training.
        data: lines about what was read, with the pairs that were skipped and those of each split.
    """

    table: pl.DataFrame
    waited: float
    dropped: int
    filled: int
    mode: str | None
    remarks: tuple[str, ...] = ()
    data: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, lines: list[dict[str, Any]], mode: str | None, remarks: Iterable[str] = (), data: Iterable[str] = ()
    ) -> NegativesReport:
        """Add up the lines of a training's batches."""
        shown = [
            {"function": function, "version": line["version"], **counts}
            for line in lines
            for function, counts in line["functions"].items()
        ]
        counted = pl.DataFrame(shown, SHOWN).group_by("function", "version")
        table = counted.agg(
            pl.len().cast(pl.Int64).alias("batches"),
            pl.col("shown").sum().alias("negatives"),
            may_be_relevant=pl.when(pl.col("scored").sum() > 0).then(pl.col("above").sum() / pl.col("scored").sum()),
        ).sort("function", "version")
        sums = totals(lines)
        said = list(remarks)
        if mode not in (None, "never") and len(table) and sums["version"] <= 0:
            said.insert(0, "only the first version was served: nothing was refreshed before the training ended")
        if lines and table.is_empty():
            said.append(f"{len(lines):,} batches have the negatives of the batch alone")
        return cls(table, sums["waited"], int(sums["dropped"]), int(sums["filled"]), mode, tuple(said), tuple(data))

    @property
    def refreshes(self) -> int:
        """The number of versions after the first one that batches were served."""
        return self.table.filter(pl.col("version") > 0)["version"].n_unique()

    def __str__(self) -> str:
        lines = [*self.remarks]
        for row in self.table.iter_rows(named=True):
            share = row["may_be_relevant"]
            version = "" if row["version"] < 0 else f", version of step {row['version']}"
            known = "" if share is None else f"; {share:.1%} score as high as their positive and may be relevant"
            lines.append(
                f"{row['function']}{version}: {row['negatives']:,} negatives in {row['batches']:,} batches{known}"
            )
        if self.mode is not None:
            lines.append(
                f"batches waited {self.waited:.1f} s for versions; the guard dropped {self.dropped:,} documents"
            )
        if self.filled:
            lines.append(f"{self.filled:,} of the negatives were drawn at random, since their query had too few")
        lines = lines or ["no batch has been served: attach the trainer before it trains"]
        return "\n".join([*lines, *self.data])
