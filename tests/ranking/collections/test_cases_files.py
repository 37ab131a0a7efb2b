"""Files as users bring them: read as they are meant, or refused in one line. All texts are made up."""

import bz2
import gzip
import json
import lzma
import math
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyrite.ranking.collections import lines as reading
from pyrite.ranking.collections.beir import Beir
from pyrite.ranking.collections.candidate_files import read_candidates
from pyrite.ranking.collections.faults import Faults
from pyrite.ranking.collections.lines import blocks, lines, tables
from pyrite.ranking.collections.msmarco import MsMarco
from pyrite.ranking.collections.pairs import Pairs
from pyrite.ranking.collections.row_files import TextOptions, read_rows
from pyrite.ranking.collections.splits import NO_TRAINING, split_named
from pyrite.ranking.errors import BadInput
from pyrite.ranking.given import given_lists
from tests.ranking.collections.animals import DOCUMENTS, EXPECTED, QUERIES, ROWS, answers, write_beir, write_lines


def table(path: Path, rows: list[dict[str, Any]], separator: str = ",", encoding: str = "utf-8") -> Path:
    path.write_bytes(pl.DataFrame(rows).write_csv(separator=separator).encode(encoding))
    return path


# CSV


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_separators_and_marks_are_seen(tmp_path, read, separator, encoding):
    assert answers(read(Pairs(table(tmp_path / "rows.csv", ROWS, separator, encoding)))) == EXPECTED


@pytest.mark.parametrize("separator", ["\t", "\\t", "tab"])
def test_a_tab_may_be_written_out(tmp_path, read, separator):
    pl.DataFrame(ROWS).write_csv(tmp_path / "rows.csv", separator="\t")
    assert answers(read(Pairs(tmp_path / "rows.csv", separator=separator))) == EXPECTED


@pytest.mark.parametrize(
    ("options", "says"),
    [({"separator": "||"}, r"collection\.separator: '\|\|' is not one character; give one, or tab"),
     ({"separator": "\n"}, r"collection\.separator: '\\n' is not one character"),
     ({"quote": "''"}, r"""collection\.quote: "''" is not one character; give one, or '' for none"""),
     ({"separator": "'", "quote": "'"}, r"collection\.quote: .* is the separator too")],
)  # fmt: skip
def test_a_separator_and_a_quote_are_one_character(tmp_path, read, options, says):
    pl.DataFrame(ROWS).write_csv(tmp_path / "rows.csv")
    with pytest.raises(BadInput, match=says):
        read(Pairs(tmp_path / "rows.csv", **options))


def test_an_encoding_is_named_and_can_be_given(tmp_path, read):
    path = table(tmp_path / "rows.csv", [row | {"query": f"{row['query']} (größe)"} for row in ROWS], encoding="cp1252")
    with pytest.raises(BadInput, match=r"rows\.csv:2: wrong encoding: byte 0xf6 is not utf-8; .*collection\.encoding"):
        read(Pairs(path))
    assert "where does the mole sleep (größe)" in answers(read(Pairs(path, encoding="cp1252")))


@pytest.mark.parametrize("strict", [True, False])
def test_the_encoding_of_a_header_is_named(tmp_path, read, strict):
    rows = "".join(f"{row['query']};{row['answer']};nobody\n" for row in ROWS)
    (tmp_path / "rows.csv").write_bytes(f"query;answer;négative_bad\n{rows}".encode("cp1252"))
    with pytest.raises(
        BadInput, match=r"rows\.csv:1: wrong encoding: byte 0xe9 is not utf-8; .*collection\.encoding=cp1252"
    ):
        read(Pairs(tmp_path / "rows.csv"), strict=strict)
    assert answers(read(Pairs(tmp_path / "rows.csv", encoding="cp1252"))) == EXPECTED


def test_words_for_nothing_are_words_in_a_csv(tmp_path, read):
    words = ["NA", "null", "None", "nan", "N/A", "NULL", "-", "0007", "1e5", "true", "12345678901234567890", "1.50"]
    path = table(tmp_path / "rows.csv", [{"query": f"code {n}", "answer": word} for n, word in enumerate(words)])
    assert sorted(read(Pairs(path)).documents["text"]) == sorted(words)


def test_cells_of_any_size_and_columns_of_no_use(tmp_path, read):
    rows = [row | {"note": str(n) if n < 8 else "a word"} for n, row in enumerate(ROWS)]
    rows[5] = rows[5] | {"answer": 'A "long" one,\nof two lines ' + "x" * 3_000_000}
    collection = read(Pairs(table(tmp_path / "rows.csv", rows)))
    assert len(collection.queries) == len(ROWS)
    assert collection.documents["text"].str.len_chars().max() > 3_000_000


def test_ragged_rows_are_named_or_counted(tmp_path, faulty):
    path = table(tmp_path / "rows.csv", ROWS)
    text = path.read_text().splitlines()
    path.write_text("\n".join([*text[:5], text[5] + ",more", text[6].split(",")[0], *text[7:]]))
    collection = faulty(Pairs(path), "rows.csv:6", "broken line", "3 cells, and 2 in the first row", 2)
    assert len(collection.queries) == len(ROWS) - 2


def test_a_quote_that_is_never_closed_is_named(tmp_path, read):
    path = tmp_path / "rows.csv"
    path.write_text('query,answer\nwho,"an owl\nwhat,a bat\n')
    with pytest.raises(BadInput, match=r"rows\.csv:2: broken line: a quote that begins here is never closed"):
        read(Pairs(path))
    assert '"an owl' in set(read(Pairs(path, quote="", test=0)).documents["text"])


@pytest.mark.parametrize("columns", [2, 3, 4])
def test_tsv_without_a_header_has_query_positive_and_negatives(tmp_path, read, columns):
    path = tmp_path / "triples.train.small.tsv"
    rows = [[row["query"], row["answer"], f'A "{n} other', f"Another {n}"][:columns] for n, row in enumerate(ROWS)]
    path.write_text("".join("\t".join(row) + "\n" for row in rows))
    collection = read(Pairs(path))
    assert answers(collection) == EXPECTED
    assert len(collection.given) == len(ROWS) * (columns - 1)


@pytest.mark.parametrize("ending", ["gz", "bz2", "xz", "zst"])
def test_packed_files_are_opened(tmp_path, read, ending):
    content = "".join(f"{json.dumps(row)}\n" for row in ROWS).encode()
    pack = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress}.get(ending)
    packed = pack(content) if pack else pa.compress(content, "zstd", asbytes=True)
    (tmp_path / f"rows.jsonl.{ending}").write_bytes(packed)
    assert answers(read(Pairs(tmp_path / f"rows.jsonl.{ending}"))) == EXPECTED


@pytest.mark.parametrize("head", ["sep=;\n", "\n\r\n"])
def test_lines_before_the_header_are_left_out(tmp_path, read, head):
    rows = table(tmp_path / "rows.csv", ROWS, ";").read_text().split("\n", 1)[1]
    (tmp_path / "rows.csv").write_bytes(f"{head}Query;Positive\n{rows}".encode())
    assert answers(read(Pairs(tmp_path / "rows.csv"))) == EXPECTED


def test_nothing_left_says_what_was_left_out(tmp_path, read):
    path = table(tmp_path / "rows.csv", [row | {"query": f"{row['query']} é"} for row in ROWS], encoding="latin-1")
    with pytest.raises(BadInput, match=r"not one query is left: 12 × wrong encoding; strict=true names"):
        read(Pairs(path), strict=False)


# JSON


@pytest.mark.parametrize("whole", [False, True])
def test_rows_may_be_lists(tmp_path, read, whole):
    rows = [[row["query"], row["answer"], "Nobody sleeps here"] for row in ROWS]
    text = json.dumps(rows) if whole else "".join(f"{json.dumps(row)}\n" for row in rows)
    (tmp_path / "rows.jsonl").write_text(text)
    collection = read(Pairs(tmp_path / "rows.jsonl"))
    assert answers(collection) == EXPECTED
    assert len(collection.given) == 2 * len(ROWS)


def test_the_columns_come_from_all_rows(pairs):
    rows: list[dict[str, Any]] = [{"query": row["query"], "pos": row["answer"]} for row in ROWS]
    for n in range(1, len(rows)):
        rows[n] |= {"neg": [rows[n - 1]["pos"]], "pos": [rows[n]["pos"]]} if n % 2 else {"neg": None if n % 4 else []}
    collection = pairs(rows)
    assert answers(collection) == EXPECTED
    assert len(collection.given) == len(ROWS) + len(ROWS) // 2


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("nested", [False, True])
def test_arrays_and_data_of_squad(tmp_path, read, indent, nested):
    content: Any = ROWS
    if nested:
        paragraphs = [{"context": row["answer"], "qas": [{"id": f"i{n}", "question": row["query"], "answers": []}]}
                      for n, row in enumerate(ROWS)]  # fmt: skip
        content = {"version": "1", "data": [{"title": "animals", "paragraphs": paragraphs}]}
    (tmp_path / "rows.json").write_text(json.dumps(content, indent=indent))
    assert answers(read(Pairs(tmp_path / "rows.json"))) == EXPECTED
    (tmp_path / "rows.json").write_text(json.dumps(content, indent=indent)[:-40])
    with pytest.raises(BadInput, match=r"rows\.json"):
        read(Pairs(tmp_path / "rows.json"))


def passages(row: dict[str, str], form: str) -> dict[str, Any]:
    other = "Nobody sleeps here"
    if form == "tevatron":
        return {"query_id": row["query"][-9:-6], "query": row["query"],
                "positive_passages": [{"docid": "0" + row["query"], "title": "", "text": row["answer"]}],
                "negative_passages": [{"docid": "n1", "title": "", "text": other}]}  # fmt: skip
    if form == "dpr":
        return {"question": row["query"], "answers": ["trees"], "positive_ctxs": [{"title": "", "text": row["answer"]}],
                "negative_ctxs": [], "hard_negative_ctxs": [{"title": "", "text": other, "psg_id": "7"}]}  # fmt: skip
    message = {"role": "user", "content": row["query"]}
    return {"messages": [message], "positive_messages": [[{"role": "user", "content": row["answer"]}]],
            "negative_messages": [[{"role": "user", "content": [{"type": "text", "text": other}]}]]}  # fmt: skip


@pytest.mark.parametrize("form", ["tevatron", "dpr", "chat"])
def test_nested_passages_are_documents(pairs, form):
    collection = pairs([passages(row, form) for row in ROWS])
    assert answers(collection) == EXPECTED
    assert len(collection.given) == 2 * len(ROWS)
    assert "Nobody sleeps here" in set(collection.documents["text"])
    if form == "tevatron":
        assert "0where does the bat sleep" in set(collection.documents["id"])


@pytest.mark.parametrize("content", ["{}", ["{}"], {"type": "text", "text": "{}"}, [{"type": "text", "text": "{}"}]])
def test_messages_of_a_chat_may_be_in_parts(pairs, content):
    def chat(text: str) -> list[dict[str, Any]]:
        return [{"role": "user", "content": json.loads(json.dumps(content).replace("{}", text))}]

    rows = [{"messages": chat(row["query"]), "positive_messages": chat(row["answer"])} for row in ROWS]
    assert answers(pairs(rows)) == EXPECTED
    with pytest.raises(BadInput, match=r":1: .*the query has a message whose content is no text \(bool\)"):
        pairs([{"messages": [{"role": "user", "content": True}], "positive_messages": chat("yes")}])


@pytest.mark.parametrize("row", [{"query": ""}, {"query": None}, {"answer": None}, {"answer": "  "}, {"answer": [""]}])
def test_an_empty_text_is_named_or_counted(tmp_path, faulty, row):
    path = write_lines(tmp_path / "rows.jsonl", [*ROWS[:3], ROWS[3] | row, *ROWS[4:]])
    assert len(faulty(Pairs(path), "rows.jsonl:4", "empty text").queries) == len(ROWS) - 1


def test_ids_are_texts_and_numbers_with_a_point_are_none(pairs):
    ids = ["0007", 1234567890123456789012, "1e5", "true", *range(8)]
    rows = [row | {"query_id": name} for row, name in zip(ROWS, ids, strict=True)]
    assert set(pairs(rows).queries["id"]) == set(map(str, ids))
    with pytest.raises(BadInput, match=r"rows\.jsonl:1: broken line: the id 1\.0 is no text"):
        pairs([ROWS[0] | {"query_id": 1.0}])


# Scores and labels


def mined(form: str, scored: bool) -> list[dict[str, Any]]:
    """Rows as sentence-transformers' mine_hard_negatives has them."""
    rows: list[dict[str, Any]] = []
    for n, row in enumerate(ROWS):
        negatives = [ROWS[n - 1]["answer"], ROWS[n - 2]["answer"]]
        scores = {"scores": [0.9, 0.5, 0.4]} if scored else {}
        if form == "triplet":
            rows += [row | {"negative": text} | ({"scores": [0.9, 0.5]} if scored else {}) for text in negatives]
        elif form == "n-tuple":
            rows.append(row | {"negative_1": negatives[0], "negative_2": negatives[1]} | scores)
        elif form == "labeled-pair":
            for text, label, score in zip((row["answer"], *negatives), (1, 0, 0), (0.9, 0.5, 0.4), strict=True):
                rows.append(
                    {"query": row["query"], "answer": text} | ({"score": score} if scored else {"label": label})
                )
        else:
            labels = scores if scored else {"labels": [1, 0, 0]}
            rows.append({"query": row["query"], "answer": [row["answer"], *negatives]} | labels)
    return rows


@pytest.mark.parametrize("scored", [False, True])
@pytest.mark.parametrize("form", ["triplet", "n-tuple", "labeled-pair", "labeled-list"])
def test_a_score_is_no_label(pairs, form, scored):
    rows = mined(form, scored)
    if not scored or form in ("triplet", "n-tuple"):
        collection = pairs(rows)
        assert answers(collection) == EXPECTED
        assert collection.given["score"].is_not_null().all() == scored
        return
    for strict in (True, False):
        with pytest.raises(BadInput, match=r"rows\.jsonl:1: has scores \(scores?\) and no labels; a score is no label"):
            pairs(rows, strict)
    assert answers(pairs(rows, relevant_from=0.8)) == EXPECTED
    assert {len(texts) for texts in answers(pairs(rows, scores="teacher")).values()} == {3}


@pytest.mark.parametrize("name", ["similarity", "relevance_score", "Score", "rating"])
def test_scores_by_other_names_are_no_labels(pairs, name):
    with pytest.raises(BadInput, match=rf"has scores \({name}\) and no labels"):
        pairs([row | {name: 0.5} for row in ROWS])


@pytest.mark.parametrize("name", ["Label", "relevance", "is_relevant", "grade"])
def test_labels_by_other_names_are_labels(pairs, name):
    rows = [row | {name: 1} for row in ROWS] + [row | {"answer": "Nobody", name: 0} for row in ROWS]
    assert answers(pairs(rows)) == EXPECTED


@pytest.mark.parametrize("place", [0, 5])
def test_a_row_without_the_label_that_others_have_is_named(pairs, place):
    with pytest.raises(BadInput, match=rf"rows\.jsonl:{max(place, 1) + 1}: broken line: has no label, or those before"):
        pairs([row if n == place else row | {"label": 1} for n, row in enumerate(ROWS)])


def test_a_margin_is_a_margin(pairs):
    rows = [row | {"negative": "Nobody", "score": 2.5} for row in ROWS]
    with pytest.raises(BadInput, match=r"one score \(score\) for a .* negative; .*collection\.scores=margin"):
        pairs(rows)
    scores = given_lists(pairs(rows, scores="margin")).scores
    assert (scores[:, 0] - scores[:, 1] == 2.5).all()
    negatives = given_lists(pairs(rows, scores="score"))
    assert (negatives.scores[:, 0] == 2.5).all()
    assert negatives.scores[:, 1].astype(str).tolist() == ["nan"] * len(ROWS)


@pytest.mark.parametrize("other", ["a stone", "a pebble"])
def test_margins_to_several_positives_of_a_query_are_not_on_one_scale(pairs, other):
    """MS MARCO has such queries: the margin between one positive and the other's negative is in no row."""
    first = ROWS[0] | {"negative": "a stone", "score": 2.5}
    rows = [first, first | {"answer": "another answer", "negative": other, "score": 0.5}]
    read = pairs(rows, scores="margin")
    known = dict(read.given.drop_nulls("score").select("document", "score").iter_rows())
    texts = dict(read.documents.select("id", "text").iter_rows())
    assert {texts[name]: score for name, score in known.items()} == {first["answer"]: 0.0, "a stone": -2.5}
    assert len(read.judgements) == 2
    assert read.facts["rows with margins to another positive than the first of their query"] == "1, which are not read"
    listed = [ROWS[0] | {"answer": ["one", "two"], "negative": ["a stone"], "score": [2.5]}]
    with pytest.raises(BadInput, match=r"has 2 positives and one margin per negative: .*write one row per positive"):
        pairs(listed, scores="margin")


@pytest.mark.parametrize("margins", [2.5, -1.0, 7, 0, [2.5], [7, -1]])
@pytest.mark.parametrize("name", ["label", "labels"])
def test_a_margin_that_is_called_label_is_no_grade(pairs, name, margins):
    """As sentence-transformers has it for MarginMSELoss: one margin, or one for each negative."""
    count = len(margins) if isinstance(margins, list) else 1
    negatives = {f"negative_{n}": f"Nobody {n}" for n in range(1, count + 1)}
    rows = [row | negatives | {name: margins} for row in ROWS]
    for options in ({}, {"relevant_from": 0.8}):
        with pytest.raises(BadInput, match=rf"labels \({name}\) beside negatives, .*collection\.scores=margin"):
            pairs(rows, **options)
    read = pairs(rows, scores="margin")
    assert answers(read) == EXPECTED  # all positives, and no negative is judged
    assert np.allclose(np.sort(given_lists(read).scores), np.sort([0, *-np.atleast_1d(margins)]))


def test_columns_of_ids_beside_mined_rows_are_none_of_the_rows(tmp_path, read):
    for folder, row in (
        ("data", {"query": "who sings?", "good": "a bird", "negative": "a stone"}),
        ("ids", {"query_id": "1", "document_ids": ["2", "3"], "scores": [1.0, 0.5]}),
    ):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "train.jsonl").write_text(json.dumps(row) + "\n")
    with pytest.raises(BadInput, match=r"no column of the positive by .*; it has query, good, negative; name it by"):
        read(Pairs(tmp_path))
    assert len(read(Pairs(tmp_path, positive="good")).documents) == 2


def test_labels_of_all_documents_may_be_scores(pairs):
    rows = [row | {"negative": "Nobody", "label": [0.9, 0.1]} for row in ROWS]
    with pytest.raises(BadInput, match=r"a label is no whole number \(0\.9\).*collection\.scores"):
        pairs(rows)
    read = pairs(rows, scores="label")
    assert answers(read) == EXPECTED
    assert np.allclose(given_lists(read).scores, [0.9, 0.1])


@pytest.mark.parametrize(
    "scores", [{"pos_scores": [1.0], "neg_scores": [0.5]}, {"scores": [1.0]}, {"scores": [1, 2, 3, 4]}]
)
def test_scores_that_do_not_fit_are_named_or_left_out(tmp_path, faulty, scores):
    whole = {"pos_scores": [1.0], "neg_scores": [0.5, 0.4]} if "pos_scores" in scores else {"scores": [1.0, 0.5, 0.4]}
    rows = [row | {"neg": ["a", "b"]} | (scores if n == 5 else whole) for n, row in enumerate(ROWS)]
    path = write_lines(tmp_path / "rows.jsonl", rows)
    said = "" if "pos_scores" in scores else "not as many scores as documents"
    collection = faulty(Pairs(path), "rows.jsonl:6", "broken line", said)
    assert len(collection.queries) == len(ROWS) - 1
    assert collection.given["score"].is_not_null().all()


@pytest.mark.parametrize("first", [0, 1])
def test_labels_that_contradict_each_other_are_named(tmp_path, faulty, first):
    rows = [row | {"label": first} for row in ROWS] + [ROWS[2] | {"label": 1 - first}]
    path = write_lines(tmp_path / "rows.jsonl", rows)
    collection = faulty(Pairs(path), "rows.jsonl:13", "contradicting labels", "another label in line 3")
    assert answers(collection)[ROWS[2]["query"]] == {ROWS[2]["answer"]}


# Splits


@pytest.mark.parametrize("test", ["eval", "evaluation", "testing", "holdout", "test-00000-of-00001"])
@pytest.mark.parametrize("train", ["train", "training", "nq-train"])
def test_files_named_for_a_test_do_not_train(tmp_path, read, train, test):
    write_lines(tmp_path / f"{train}.jsonl", ROWS[:8])
    write_lines(tmp_path / f"{test}.jsonl", ROWS[8:])
    tested = set(read(Pairs(tmp_path)).queries.filter(pl.col("split") == "test")["text"])
    assert tested == {row["query"] for row in ROWS[8:]}


def test_files_without_a_split_train_and_are_named(tmp_path, read):
    write_lines(tmp_path / "more.jsonl", ROWS[:8])
    write_lines(tmp_path / "test.jsonl", ROWS[8:])
    collection = read(Pairs(tmp_path))
    assert collection.facts["files without a split in their name"] == "more.jsonl read as train"
    assert collection.queries["split"].value_counts().sort("split").rows() == [("dev", 1), ("test", 4), ("train", 7)]


# BEIR, MS MARCO and TREC


@pytest.mark.parametrize(("repeated", "grade"), [("max", 2), ("mean", 1), ("stop", None)])
def test_judgements_given_again(tmp_path, read, repeated, grade):
    """As for the subtopics of the diversity tracks."""
    folder = write_beir(tmp_path, {"test.tsv": "q1 1 d1 0\nq1 2 d1 2\nq1 3 d1 0\nq2 1 d2 1\n"})
    if grade is None:
        with pytest.raises(BadInput, match=r"test\.tsv:2: document 'd1' is judged again for query 'q1' \(2 such lines"):
            read(Beir(folder, qrels_repeated=repeated))
        return
    collection = read(Beir(folder, qrels_repeated=repeated))
    assert collection.judgements.rows() == [("q1", "d1", grade), ("q2", "d2", 1)]
    assert collection.facts["judgements given again"].startswith("2 (the ")


def test_a_collection_without_training_queries_trains_on_dev(tmp_path, read):
    rows = {name: "".join(f"q{n}\t0\td{n}\t1\n" for n in numbers) for name, numbers in
            (("dev.tsv", range(4)), ("test.tsv", range(4, 12)))}  # fmt: skip
    collection = read(Beir(write_beir(tmp_path, rows)))
    assert collection.facts[NO_TRAINING] == "4"
    assert set(collection.queries.filter(pl.col("split") == "test")["id"]) == {f"q{n}" for n in range(4, 12)}


def test_a_folder_of_parquet_files(tmp_path, read):
    qrels = {"query-id": ["q1", "q2"], "corpus-id": ["d1", "d2"], "score": [1, 1]}
    for name, rows in (("corpus/corpus", DOCUMENTS), ("queries/queries", QUERIES), ("qrels/test", qrels)):
        (tmp_path / name).parent.mkdir()
        pl.DataFrame(rows).write_parquet(tmp_path / f"{name}-00000-of-00001.parquet")
    assert answers(read(Beir(tmp_path))) == {ROWS[n]["query"]: {ROWS[n]["answer"]} for n in (1, 2)}


CANDIDATES = {
    "json": '{"qid": "q1", "pos": ["d1"], "neg": {"bm25": ["d4", "d5"], "dense": ["d6"]}}\n',
    "run": "q1 Q0 d1 1 4.5 mine\nq1 Q0 d4 2 3.5 mine\nq1 Q0 d5 3 2 mine\nq1 Q0 d6 4 1 mine and more\n",
}


@pytest.mark.parametrize("form", CANDIDATES)
def test_candidates_by_id_beside_a_collection(tmp_path, read, form):
    text = CANDIDATES[form]
    folder = write_beir(tmp_path, {"test.tsv": "q1\td1\t1\nq2\td2\t0\n", "train.tsv": "q3\t0\td3\t1\n"})
    (folder / "candidates").write_text(text + text.replace("d6", "d99").replace("d5", "d99").replace("d4", "d99"))
    collection = read(Beir(folder, given="candidates"))
    assert set(collection.given["document"]) == {"d1", "d4", "d5", "d6"}
    assert collection.facts["candidates of queries or documents that are not there"] == "1 left out"
    assert collection.given["score"].is_not_null().all() == (form == "run")


def test_a_header_of_ms_marco_is_seen(tmp_path, read):
    files = {
        "collection.tsv": ("pid\tpassage\n", [f"{n}\t{row['answer']}\n" for n, row in enumerate(ROWS)]),
        "queries.train.tsv": ("qid\tquery\n", [f"{n}\t{row['query']}\n" for n, row in enumerate(ROWS)]),
        "qrels.train.tsv": ("qid 0 pid rel\n", [f"{n}\t0\t{n}\t1\n" for n in range(len(ROWS))]),
    }
    for name, (head, body) in files.items():
        (tmp_path / name).write_text("".join([head, *body]))
    collection = read(MsMarco(tmp_path))
    assert (collection.size, len(collection.queries)) == (len(ROWS), len(ROWS))
    assert answers(collection) == EXPECTED


def scored(*scores: Any) -> list[dict[str, Any]]:
    return [row | {"negative": "a stone", "scores": score} for row, score in zip(ROWS, scores, strict=False)]


@pytest.mark.parametrize("score", ["inf", "-inf", "1e300", "nan", math.nan])
def test_scores_that_are_not_finite_are_named(tmp_path, pairs, score):
    with pytest.raises(BadInput, match=r"rows\.jsonl:1: broken line: the score is (out of range|not a number)"):
        pairs(scored([2, score]))
    negative = {"qid": "q1", "neg": [{"id": "d1", "score": score}]}
    lines = {"a.jsonl": f'["q1", ["d1", "{score}"]]\n', "b.jsonl": json.dumps(negative), "c": f"q1 Q0 d1 1 {score} a\n"}
    for name, line in lines.items():
        (tmp_path / name).write_text(line)
        with pytest.raises(BadInput, match=r"/[abc](\.jsonl)?:.*(score|not a number)"):
            read_candidates(tmp_path / name, Faults())


def test_missing_and_differing_scores_are_counted(pairs):
    assert pairs(scored([2, 1], None, None)).facts["candidates without a score, where others have one"] == "4 of 6"
    rows = [ROWS[0] | {"negative": "a stone", "score": margin} for margin in (1, 2)]
    assert pairs(rows, scores="margin").facts["candidates with several scores (the first counts)"] == "1"
    with pytest.raises(BadInput, match=r"rows\.jsonl: no row has a score; leave collection\.scores out"):
        pairs(scored(None, None, None), scores="margin")


def test_documents_that_are_numbers_may_be_ids(pairs):
    rows = [{"query": row["query"], "positive": n} for n, row in enumerate(ROWS)]
    facts = pairs(rows).facts
    assert facts["documents that are numbers, read as texts"].startswith("12 of 12 (such as 11); if they are ids")
    assert "documents that are numbers, read as texts" not in pairs(ROWS).facts


@pytest.mark.parametrize(("train", "test"), [("trainset", "tests"), ("Train_data", "Test set"), ("train ", "test-1")])
def test_names_of_splits_are_seen(pairs, train, test):
    assert (split_named(train), split_named(test), split_named("a set")) == ("train", "test", None)
    rows = [row | {"split": train if n < 6 else test if n < 10 else "gold"} for n, row in enumerate(ROWS)]
    collection = pairs(rows)
    assert (collection.queries["split"] == "test").sum() == 4
    assert collection.facts["rows whose split is unknown"] == "2 (gold), read as if without one"


def test_a_link_to_no_file_is_not_left_out(tmp_path, read):
    write_lines(tmp_path / "a.jsonl", ROWS)
    (tmp_path / "b.jsonl").symlink_to(tmp_path / "nowhere")
    with pytest.raises(BadInput, match=r"b\.jsonl: no such file"):
        read(Pairs(tmp_path))


NO_BREAK = st.text(st.characters(blacklist_characters="\n\ufeff", blacklist_categories=["Cs"]), max_size=20)


@given(texts=st.lists(NO_BREAK), packed=st.booleans(), block=st.integers(1, 40))
def test_every_line_comes_with_its_number(tmp_path_factory, texts, packed, block):
    path = tmp_path_factory.getbasetemp() / "any_lines"
    raw = "\n".join(texts).encode()
    path.write_bytes(gzip.compress(raw) if packed else raw)
    if b"\n" not in raw:  # line breaks of an old Mac, in the whole file
        raw = raw.replace(b"\r", b"\n")
        texts = raw.decode().split("\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "BLOCK", block)
        read = list(lines(path, Faults()))
        assert "".join(text for _, text in blocks(path, Faults())) == raw.decode()
    assert read == [(n, text) for n, text in enumerate(texts, 1) if text.strip()]


@pytest.mark.nightly
@given(rows=st.lists(st.tuples(st.text("ab é", max_size=5), st.integers(-9, 9))), block=st.integers(1, 40))
def test_tables_keep_empty_fields_and_lines(tmp_path_factory, rows, block):
    path = tmp_path_factory.getbasetemp() / "any_table"
    path.write_text("\n".join(f"{text}\t{number}" for text, number in rows), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "BLOCK", block)
        read = list(tables(path, {"text": pl.String(), "number": pl.Int32()}, Faults(), separator="\t"))
    assert [row for frame in read for row in frame.rows()] == [(*row, n) for n, row in enumerate(rows, 1)]


def test_a_header_is_passed_over(tmp_path):
    columns = {"query": pl.String(), "grade": pl.Int32()}
    path = tmp_path / "table.tsv"
    for text, header in (("query\tgrade\na\t1\n", True), ("a\t1\n", False)):
        path.write_text(text)
        [rows] = tables(path, columns, Faults(), separator="\t", header=header)
        assert rows.rows() == [("a", 1, 1 + header)]
    path.write_text("query\tgrade\na\tb\n")
    with pytest.raises(BadInput, match=r"table\.tsv:2: broken line: grade 'b'"):
        list(tables(path, columns, Faults(), separator="\t", header=True))


def test_other_encodings_windows_lines_and_byte_order_marks(tmp_path):
    path = tmp_path / "text"
    path.write_bytes("caf\xe9\r\nth\xe9".encode("latin-1"))
    assert [line.rstrip() for _, line in lines(path, Faults(), "latin-1")] == ["café", "thé"]
    with pytest.raises(BadInput, match="line by line"):
        list(lines(path, Faults(), "utf-16"))
    path.write_bytes(b"\xef\xbb\xbffirst")
    assert list(lines(path, Faults())) == [(1, "first")]


def test_lines_in_another_encoding_are_counted(tmp_path):
    path = tmp_path / "text"
    path.write_bytes(b"good\ncaf\xe9\ngood\n\xff\n")
    with pytest.raises(BadInput, match=r"text:2: wrong encoding: byte 0xe9 is not utf-8; .*latin-1"):
        list(lines(path, Faults()))
    faults = Faults(strict=False)
    assert list(lines(path, faults)) == [(1, "good"), (3, "good")]
    assert faults.skipped == {"wrong encoding": 2}


@pytest.mark.parametrize("name", ["rows.csv", "rows.tsv", "rows.jsonl", "rows.json"])
@pytest.mark.parametrize("encoding", ["utf9", "hex", "idna", "undefined"])
def test_an_unknown_encoding_is_refused_for_every_form_of_rows(tmp_path, name, encoding):
    (tmp_path / name).write_text('[{"query": "a", "positive": "b"}]')
    with pytest.raises(BadInput, match=rf"{name}: unknown encoding '{encoding}'; utf-8 and cp1252"):
        next(read_rows(tmp_path / name, Faults(), TextOptions(encoding=encoding)))


def test_a_torn_utf_16_is_refused(tmp_path):
    (tmp_path / "rows.csv").write_bytes("query,positive\nwho digs?,Moles dig\n".encode("utf-16")[:-1])
    with pytest.raises(BadInput, match=r"rows\.csv: is not utf-16, or cut short .*; convert it to UTF-8 with iconv"):
        list(read_rows(tmp_path / "rows.csv", Faults()))


def test_a_damaged_gzip_is_an_error_even_when_not_strict(tmp_path):
    packed = bytearray(gzip.compress(b"a line of text\n" * 1000))
    packed[-6] ^= 0xFF  # the check sum
    (tmp_path / "damaged.gz").write_bytes(packed)
    with pytest.raises(BadInput, match=r"damaged\.gz:\d+: truncated or damaged"):
        list(lines(tmp_path / "damaged.gz", Faults(strict=False)))
