"""Writes mined rows as other trainers read them: Tevatron, FlagEmbedding, ms-swift and NeMo AutoModel."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import polars as pl

from pyrite.ranking.errors import refuse

Row = dict[str, Any]


def _passages(ids: list[str], texts: list[str]) -> list[dict[str, str]]:
    return [{"docid": name, "title": "", "text": text} for name, text in zip(ids, texts, strict=True)]


def _message(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


def tevatron(query: str, texts: list[str], ids: Row, scores: bool) -> Row:
    """Return a row with a list of positive and one of negative passages."""
    passages = _passages(ids["document_ids"], texts)
    row = {"query_id": ids["query_id"], "query": query}
    return {**row, "positive_passages": passages[:1], "negative_passages": passages[1:]}


def flagembedding(query: str, texts: list[str], ids: Row, scores: bool) -> Row:
    """Return a row with a list of positive and one of negative texts."""
    row = {"query": query, "pos": texts[:1], "neg": texts[1:]}
    return {**row, "pos_scores": ids["scores"][:1], "neg_scores": ids["scores"][1:]} if scores else row


def swift(query: str, texts: list[str], ids: Row, scores: bool) -> Row:
    """Return a row of messages, for `--task_type embedding` or `reranker`."""
    messages = list(map(_message, texts))
    return {"messages": _message(query), "positive_messages": messages[:1], "negative_messages": messages[1:]}


def nemo(query: str, texts: list[str], ids: Row, scores: bool) -> Row:
    """Return a row of texts with the query."""
    return {"query": query, "pos_doc": texts[0], "neg_doc": texts[1:]}


FORMATS: dict[str, Callable[[str, list[str], Row, bool], Row]] = {
    "tevatron": tevatron, "flagembedding": flagembedding, "swift": swift, "nemo": nemo,
}  # fmt: skip
"""By name of a format, the row of a query, its documents with the positive first, and their ids and scores."""


def check_rows(config: dict[str, Any]) -> None:
    """Refuse rows that a trainer's format has no place for."""
    form = config["format"]
    refuse(
        form in FORMATS and config["rows"] != "tuples",
        f"{form} has one row per pair",
        "rows",
        "leave it at tuples, or choose format=json",
    )
    refuse(
        form in FORMATS and config["with_scores"] and form != "flagembedding",
        f"{form} has no scores",
        "with_scores",
        "leave it out, or choose format=flagembedding or json",
    )


def rows_for(form: str, texts: pl.DataFrame, ids: pl.DataFrame, scores: bool) -> bytes:
    """Return mined tuples as JSON lines of a trainer's format.

    Args:
        texts, ids: the two tables of `pyrite.cluster.mining.writing.rows_of`.
        scores: whether documents get their scores.
    """
    lines = []
    for row, of_row in zip(texts.drop("scores", strict=False).iter_rows(), ids.iter_rows(named=True), strict=True):
        query, *documents = row
        lines.append(json.dumps(FORMATS[form](query, documents, of_row, scores), ensure_ascii=False))
    return "".join(f"{line}\n" for line in lines).encode()
