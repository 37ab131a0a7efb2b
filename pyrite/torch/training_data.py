"""Hands a training function its data: pairs, moving negatives, an evaluator, a folder for what it needs meanwhile."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from pyrite.cluster.mining.trainer_rows import rows_for
from pyrite.cluster.runs.outcome import Outcome
from pyrite.ranking.collections.collection import Collection
from pyrite.torch.batch_versions import LoaderCounts
from pyrite.torch.negatives import Negatives
from pyrite.torch.report import totals

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
        steps: optimizer steps. They are known of a trainer with `negatives` attached and of a loop over `negatives`;
            other trainings may set them, and what follows.
        examples: the pairs that were read in these steps.
        scored_step: the step whose weights are left, if it is not the last one.
    """

    config: dict[str, Any]
    parts: dict[str, Any]
    collection: Collection
    fold: int
    scratch: Path
    steps: int = 0
    examples: int = 0
    scored_step: int | None = None

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

    def spend(self, outcome: Outcome) -> None:
        """Add the budget of the training to the outcome of its run; what is unknown stays so."""
        negatives = vars(self).get("negatives")  # they are made when they are first used
        (steps, scored), sums, refreshes = (0, 0), totals([]), None
        if negatives is not None:
            (steps, scored), sums = negatives.trained, totals(negatives.lines())
            refreshes = negatives.report().refreshes if sums["pairs"] else None
        outcome.steps += self.steps or steps
        outcome.documents_read += int(sums["documents"])
        outcome.examples = _added(outcome.examples, self.examples or int(sums["pairs"]) or None)
        outcome.scored_step = _added(outcome.scored_step, self.scored_step or scored or self.steps or None)
        outcome.refreshes = _added(outcome.refreshes, refreshes)

    def evaluator(self, **options: Any) -> Any:
        """Return an evaluator of the validation queries; see `pyrite.torch.Negatives.evaluator`."""
        return self.negatives.evaluator(**options)

    def write_rows(self, form: str) -> Path:
        """Write the pairs with fixed negatives, for a command.

        Args:
            form: a format of `pyrite mine`.
        """
        moving, rows = self.negatives._batch_negatives(self.scratch / "index", LoaderCounts(1)), self.dataset
        pairs = list(zip(rows["query"], rows["positive"], strict=True))
        negatives = zip(*(moving.texts([pair], None)[0] for pair in pairs), strict=True)
        texts = pl.DataFrame(dict(zip(self.negatives.columns, [*zip(*pairs, strict=True), *negatives], strict=True)))
        path = self.scratch / f"train.{form if form in ('parquet', 'csv') else 'jsonl'}"
        if form in TABLES:
            TABLES[form](texts, path)
            return path
        numbers = range(len(pairs))
        names = [[f"{number}-{place}" for place in range(texts.width - 1)] for number in numbers]
        ids = pl.DataFrame({"query_id": list(map(str, numbers)), "document_ids": names})
        path.write_bytes(rows_for(form, texts, ids, scores=False))
        return path


def _added(before: int | None, count: int | None) -> int | None:
    """Return the sum of a count of several trainings; what is unknown of one adds nothing."""
    return before if count is None else (before or 0) + count


TABLES: dict[str, Callable[..., None]] = {
    "parquet": pl.DataFrame.write_parquet, "json": pl.DataFrame.write_ndjson, "csv": pl.DataFrame.write_csv,
}  # fmt: skip
"""Formats that are tables, and what writes them."""
