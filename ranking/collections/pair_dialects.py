"""Declares how tools call the columns of pairs, which rows hold lists instead, and which files are none."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from pyrite.ranking.collections.faults import RowFault
from pyrite.ranking.collections.names import TITLE, first

PROMPT = ("prompt", "instruction", "query_instruction", "query_prompt")
"""Columns of the text before a row's query, next to a column of the query."""
QUERY = (
    "query", "anchor", "question", "sentence1", "messages", "question1", "sentence_0", "query_text", "prompt",
)  # fmt: skip
POSITIVE = (
    "positive", "pos", "positives", "positive_passages", "positive_ctxs", "positive_messages", "answer", "document",
    "documents", "docs", "passage", "passages", "response", "sentence2", "context", "question2", "sentence_1",
    "passage_text", "completion", "chosen", "pos_doc", "text",
)  # fmt: skip
LABEL = ("label", "labels", "relevance", "relevant", "is_relevant", "rel", "grade", "is_duplicate")
NEGATIVES = re.compile(r"^(hard_)?(negative|negatives|neg|rejected)(_passages|_ctxs|_messages|_docs?)?(_?\d+)?$", re.I)
SEPARATE = ("pos_scores", "neg_scores")
BESIDE = "scores beside"
"""The column of the scores in the tables `ids` that `pyrite mine` writes."""
OF_IDS = {"query_id": "query_id", "document_ids": "document_ids", BESIDE: "scores"}
"""The columns of the tables in `ids`, by what they are called beside the columns of `data`."""
POSITIVE_SCORES, COMPARABLE = "positive_scores", "comparable"
"""Columns of these tables: the positive's scores by the functions of the documents, and whether a score is on the scale
of the positive's. Tables of earlier versions lack them."""
BY_RANKER = "\n- scores: ranker\n"
"""The line of a mined set's card if one ranker has given all scores."""
IN_IDS = ("prompt",)
"""Columns that these tables have if queries have prompts of their own."""
SCORES = (
    ("scores",), ("score",), SEPARATE, ("similarity",), ("similarity_score",), ("relevance_score",), ("ce_score",),
    ("teacher_score",), ("rating",), (BESIDE,),
)  # fmt: skip
"""Names of the columns in other tools, in the order in which they are preferred."""
TITLES = (TITLE, "passage_title", "document_title", "doc_title", "context_title")
TITLED = dict.fromkeys(("document", "passage", "context", "passage_text", "text"), TITLES)
"""Columns of a positive whose title is in a column of its own, as in a corpus, and the names of that column."""
LIKE_NEGATIVES = re.compile(r"neg|bad|wrong|incorrect|reject|distract|irrelevant|hard", re.I)
LIKE_LABELS = re.compile(r"label|stars?|relev|grade|judge?ment|class", re.I)
"""Names that look like negatives or labels, and are none of the usual ones."""
NAME_BESIDE = "name it beside the texts: collection=msmarco (or beir) collection.path=… collection.given=FILE"
"""What to do with a file of ids."""
PAIRED_IDS = re.compile(r"^(pos|positive|neg|negative|document|doc|passage)s?(_document)?_p?ids$")
"""Columns of ids in place of texts, as Tevatron, PyLate and the hard negatives of MS MARCO have them."""
BESIDE_TEXTS = (("split",), ("query_id", "qid"), ("document_ids",))
"""Columns of a row's split, the id of its query and the ids of its documents."""
LISTED: Mapping[str, Callable[[Sequence[Any]], dict[str, Any]]] = {
    **dict.fromkeys(("texts", "pair", "triplet"), lambda texts: dict(zip(unnamed(len(texts)), texts, strict=True))),
    "set": lambda texts: {"query": texts[0], "positive": list(texts[1:])},
}
"""Columns of a query, a positive and negatives in one list; of a `set`, all after the first are positive."""
OTHERS = (
    "text", "query_text", "passage_text", "qid", "query_id", "pid", "docid", "doc_id", "document_ids", "id", "split",
)  # fmt: skip
"""Further names by which a header is recognised."""
ROLES = ("teacher", "margin")
"""Values of `scores` that say what scores are, instead of naming their column."""
RELEVANT = re.compile(
    r"(highly|partially|very|somewhat|perfectly?)?[ _-]*(relevant|related|rel|positive|pos|true|yes|match(ed|ing)?|"
    r"similar|duplicated?|paraphrase|entail(s|ment|ed)?|correct|good|accept(ed|able)?|supports?(ed)?|equivalent|answers?|exact|"
    r"substitute|perfect|excellent|fair)",
    re.I,
)  # fmt: skip
NOT_RELEVANT = re.compile(
    r"(not|non|no|un|ir|in|dis)[ _-]*\w*(relevant|related|match\w*|similar|duplicated?|paraphrase|entail\w*|correct|"
    r"accept\w*|support\w*|equivalent|answer\w*)|neg(ative)?|false|no|none|different|neutral|contradict(ion|s)?|"
    r"refutes?|bad|wrong|distinct|reject(ed)?|complement|mismatch",
    re.I,
)  # fmt: skip
"""Names of the classes of a label."""


class Foreign(NamedTuple):
    """A file that is no table of pairs.

    Args:
        needs: names that all are there.
        only: names of which there are no others; empty if there may be.
        what: what it is.
        remedy: what to do with it.
    """

    needs: frozenset[str]
    only: frozenset[str]
    what: str
    remedy: str

    def fits(self, names: Sequence[str]) -> bool:
        """Return whether a file with some names is one."""
        return self.needs <= set(names) <= (self.only or set(names))


FOREIGN = (
    Foreign(frozenset({"qid", "pos", "neg"}), frozenset(), "holds ids, not texts (qid, pos, neg)", NAME_BESIDE),
    Foreign(
        frozenset({"data", "annotations"}), frozenset(),
        "is an export of Label Studio, which has the texts within `data`", "export it as JSON-MIN or CSV",
    ),
    Foreign(
        frozenset({"_id", "text"}), frozenset({"_id", "text", "title", "metadata"}),
        "holds texts by their ids, not pairs", "if it is in a BEIR folder, set collection=beir collection.path=FOLDER",
    ),
)  # fmt: skip


def of_one_scorer(functions: Iterable[str], card: str) -> bool:
    """Return whether one ranker or function has given all scores of a mined set whose tables don't specify it.

    Args:
        functions: the function of each score.
    """
    return BY_RANKER in card or len(set(functions)) < 2


def unnamed(count: int) -> list[str]:
    """Return names for the columns of rows without names: a query, a positive and negatives."""
    names = ["query", "positive", "negative", *(f"negative_{number}" for number in range(2, count))]
    return names[:count]


def without_columns(names: Sequence[str], named: Mapping[str, str | None]) -> RowFault:
    """Return the fault of a row without the column of its query or its positive.

    Args:
        names: the columns that it has.
        named: the column of the query and of the positive, by the options or a usual name; None if there is none.
    """
    if BESIDE in names:
        names = [name for name in names if name not in OF_IDS]
    there = f"it has {', '.join(names)}" if names else "it is empty"
    absent = {kind: name for kind, name in named.items() if name not in names}
    remedy = f"{there}; name it by {' '.join(map('collection.{}=COLUMN'.format, absent))}{_unlabelled(names)}"
    given = next(iter(absent.values()))
    if given is not None:
        return RowFault(f"has no column {given!r}", remedy)
    usual = f"has no column of the {' or the '.join(absent)} by a usual name"
    ids = ", ".join(filter(PAIRED_IDS.match, names))
    if ids:
        return RowFault(f"holds ids, not texts ({ids})", NAME_BESIDE, always=True)
    known = ((one.what, one.remedy) for one in FOREIGN if one.fits(names))
    return RowFault(*next(known, (usual, remedy)), always=True)


def _unlabelled(names: Sequence[str]) -> str:
    """Return what else is asked of a table with scores and neither labels nor negatives; empty for others."""
    scores = next((several for several in SCORES if {*several} <= {*names}), ())
    if not scores or {*LABEL} & {*names} or any(map(NEGATIVES.match, names)):
        return ""
    which = f"of its scores ({', '.join(scores)})"
    return (
        f", and say {which} which are relevant: collection.relevant_from=SCORE, or collection.scores=teacher if all are"
    )


def listed_column(written: Collection[str]) -> str | None:
    """Return the column of a list of a query, a positive and negatives, if no other column has these."""
    return None if set(written) & {*QUERY, *POSITIVE} else first(tuple(LISTED), written)


def grades_of_classes(names: Sequence[str]) -> list[int] | None:
    """Return the grade of each class of a label, by its name; None if a name does not show whether it is relevant.

    Classes of which those that are not relevant come first are grades already: 0, 1, 2.
    """
    if all(re.fullmatch(r"-?\d+", name) for name in names):
        return list(map(int, names))
    relevant = [bool(RELEVANT.fullmatch(name.strip())) for name in names]
    known = [RELEVANT.fullmatch(name.strip()) or NOT_RELEVANT.fullmatch(name.strip()) for name in names]
    if not all(known) or not any(relevant):
        return None
    ordered = relevant == sorted(relevant) and not relevant[0]
    return list(range(len(names)) if ordered else map(int, relevant))
