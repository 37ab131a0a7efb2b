"""Lists the names of columns and keys in other tools, each kind in the order in which they are preferred."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

TEXT = ("text", "contents", "content", "passage", "document", "body", "context")
"""The text of a document, in an object with a title or an id."""
TITLE = "title"
IDS = ("docid", "doc_id", "docno", "passage_id", "psg_id", "pid", "_id", "id")
"""The id of a document, in an object."""
QUERY_IDS = (
    "qid", "query_id", "query-id", "queryid", "q_id", "topic_id", "topic-id", "topicid", "topic_no",
    "topic", "query", "q",
)  # fmt: skip
"""The id of a query in runs and judgements. `query` comes late: PyTerrier and TIRA write the text under it."""
DOCUMENT_IDS = (
    "docno", "doc_id", "doc-id", "corpus-id", "corpus_id", "corpusid", "docid", "document_id", "document-id", "pid",
    "passage_id", "passage-id", "psg_id", "product_id", "doc", "document",
)  # fmt: skip
"""The id of a document in runs and judgements. `docid` comes late: PyTerrier writes a number of its own under it."""
GRADES = (
    "grade", "rel", "relevance", "label", "judgment", "judgement", "rating", "qrel", "relevant", "is_relevant",
    "relevance_grade", "relevance_label", "relevancy", "esci_label",
)  # fmt: skip


def first(names: Sequence[str], present: Collection[str]) -> str | None:
    """Return the first of some names that is present."""
    return next((name for name in names if name in present), None)


def first_value(names: Sequence[str], row: Mapping[str, Any]) -> Any:
    """Return the value of the first name that has one; None if all are null."""
    return next((row[name] for name in names if row.get(name) is not None), None)


def repeated(names: Iterable[str]) -> list[str]:
    """Return the names that are there more than once."""
    return [name for name, count in Counter(names).items() if count > 1]
