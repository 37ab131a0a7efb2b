"""Adds negatives to rows of a data set as they are read, for trainers without a collator that could."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyrite.ranking.collections.row_values import documents, query_text
from pyrite.ranking.errors import BadInput, refuse

if TYPE_CHECKING:
    from pyrite.torch.trainer_batches import BatchNegatives

_OPEN: dict[int, BatchNegatives] = {}
"""The negatives of this process by number: a transform that is pickled, as data sets do to it, holds a number alone."""


@dataclass(frozen=True)
class RowLayout:
    """The columns of rows of one trainer.

    Args:
        positive: the column of positives.
        negative: the column of negatives.
        negatives_of: returns texts as the trainer reads negatives.
    """

    positive: str
    negative: str
    negatives_of: Callable[[list[str]], Any]


def _passages(texts: list[str]) -> list[dict[str, str]]:
    return [{"docid": f"negative-{number}", "title": "", "text": text} for number, text in enumerate(texts)]


ROW_FORMS = (
    RowLayout("positive_passages", "negative_passages", _passages),  # Tevatron
    RowLayout("pos", "neg", list),  # FlagEmbedding
    RowLayout("pos_doc", "neg_doc", list),  # NeMo AutoModel
    RowLayout("positive", "negative", list),
)


def _text(positive: Any, column: str) -> str:
    """Return the text of a row's first positive, as it is read from a file."""
    return next((each.text for each in documents(positive, column) if each.text.strip()), "")


class NegativesTransform:
    """A transform of `datasets`: rows get negatives of the newest version, in the columns that their trainer reads."""

    def __init__(self, negatives: BatchNegatives) -> None:
        self.number = id(negatives)
        _OPEN[self.number] = negatives

    def __call__(self, columns: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
        what = "the negatives are in another process"
        refuse(self.number not in _OPEN, what, "transform", "let loader workers be forked, or mine to a file")
        form = next((form for form in ROW_FORMS if form.positive in columns and "query" in columns), None)
        if form is None:
            named = ", ".join(each.positive for each in ROW_FORMS)
            raise BadInput(f"has the columns {', '.join(columns)}", "train_dataset", f"give query and one of {named}")
        pairs = [
            (query_text(query), _text(positive, form.positive))
            for query, positive in zip(columns["query"], columns[form.positive], strict=True)
        ]
        texts = _OPEN[self.number].texts(pairs, None)
        return {**columns, form.negative: [form.negatives_of(row) for row in texts]}
