"""Hands a training function its data: pairs, moving negatives, an evaluator, a folder for what it needs meanwhile."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from pyrite.cluster.mining.trainer_rows import FORMATS
from pyrite.ranking.collections.collection import Collection
from pyrite.torch.batch_versions import LoaderCounts
from pyrite.torch.negatives import Negatives

if TYPE_CHECKING:
    from datasets import Dataset


@dataclass
class TrainingData:
    """The data of one run of a study, for `train(data, seed, folder)`.

    Args:
        config, parts: the configuration of the run, and the parts that it is built from.
        collection: the texts.
        fold: the number of the split.
        scratch: a folder that is deleted once the run is measured.

    Attributes:
        steps: optimizer steps, which a custom loop may set; of a trainer with `negatives` attached they are known.
        examples: the pairs that were read in these steps.
    """

    config: dict[str, Any]
    parts: dict[str, Any]
    collection: Collection
    fold: int
    scratch: Path
    steps: int = 0
    examples: int = 0

    @functools.cached_property
    def negatives(self) -> Negatives:
        """The negatives of the run's method: attach them to a trainer, or iterate over them."""
        return Negatives.of_run(self.config, self.collection, self.parts, self.fold)

    @property
    def dataset(self) -> Dataset:
        """The training pairs, with the columns `query` and `positive`."""
        return self.negatives.dataset

    @property
    def checkpoint(self) -> str | None:
        """The checkpoint that training starts from, as `ranker.checkpoint` names it; None if it names none."""
        named = self.config["ranker"].get("checkpoint")
        return None if named is None else str(named)

    def evaluator(self, **options: Any) -> Any:
        """Return an evaluator of the validation queries; see `pyrite.torch.Negatives.evaluator`."""
        return self.negatives.evaluator(**options)

    def write_rows(self, form: str) -> Path:
        """Write the pairs with fixed negatives, for a command.

        Args:
            form: a format of `pyrite mine`.
        """
        moving = self.negatives._batch_negatives(self.scratch / "index", LoaderCounts(1))
        rows, texts = self.dataset, []
        for row in rows:
            texts.append(moving.texts([(row["query"], row["positive"])], None)[0])
        path = self.scratch / f"train{ENDINGS.get(form, '.jsonl')}"
        WRITERS.get(form, functools.partial(_write_form, form))(
            path, list(rows["query"]), list(rows["positive"]), texts
        )
        return path


def _columns(queries: Sequence[str], positives: Sequence[str], negatives: Sequence[Sequence[str]]) -> dict[str, Any]:
    count = len(negatives[0]) if negatives else 0
    named = {f"negative_{number + 1}": [row[number] for row in negatives] for number in range(count)}
    return {"query": queries, "positive": positives, **named}


def _write_parquet(path: Path, *texts: Any) -> None:
    pl.DataFrame(_columns(*texts)).write_parquet(path)


def _write_json(path: Path, *texts: Any) -> None:
    pl.DataFrame(_columns(*texts)).write_ndjson(path)


def _write_csv(path: Path, *texts: Any) -> None:
    pl.DataFrame(_columns(*texts)).write_csv(path)


def _write_form(form: str, path: Path, queries: list[str], positives: list[str], negatives: list[list[str]]) -> None:
    with path.open("w", encoding="utf-8") as file:
        for number, (query, positive, others) in enumerate(zip(queries, positives, negatives, strict=True)):
            names = [f"{number}-{place}" for place in range(1 + len(others))]
            ids = {"query_id": str(number), "document_ids": names}
            file.write(json.dumps(FORMATS[form](query, [positive, *others], ids, False), ensure_ascii=False) + "\n")


ENDINGS = {"parquet": ".parquet", "csv": ".csv"}
WRITERS: dict[str, Callable[..., None]] = {"parquet": _write_parquet, "json": _write_json, "csv": _write_csv}
"""Formats that are tables."""
