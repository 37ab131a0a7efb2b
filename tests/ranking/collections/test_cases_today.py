"""Data sets of today: read as they are meant, or refused in one line. All texts are made up."""

import json
import threading
from collections.abc import Callable
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pyrite.ranking.collections.beir import Beir
from pyrite.ranking.collections.candidate_files import read_candidates
from pyrite.ranking.collections.faults import Faults
from pyrite.ranking.collections.format_of import format_of, reader_of
from pyrite.ranking.collections.pair_dialects import grades_of_classes
from pyrite.ranking.collections.pairs import Pairs
from pyrite.ranking.collections.topic_files import topic_rows
from pyrite.ranking.errors import BadInput
from pyrite.ranking.hub import local_path
from tests.ranking.collections.animals import DOCUMENTS, EXPECTED, QUERIES, ROWS, answers, write_beir, write_lines

STRAY = {"query": "where does the stray sleep", "answer": "A stray sleeps anywhere."}


def labelled(path: Path, names: list[str], relevant: int, stated: bool = True) -> Path:
    """Write pairs with a column of classes, as the library datasets saves it."""
    rows = [row | {"label": relevant} for row in ROWS] + [
        row | {"answer": "Nobody", "label": 1 - relevant} for row in ROWS
    ]
    features = {"info": {"features": {"label": {"names": names, "_type": "ClassLabel"}}}}
    table = pa.Table.from_pylist(rows)
    pq.write_table(table.replace_schema_metadata({"huggingface": json.dumps(features)} if stated else {}), path)
    return path


@pytest.mark.parametrize(
    ("names", "relevant"),
    [(["relevant", "irrelevant"], 0), (["not_relevant", "relevant"], 1), (["entailment", "not_entailment"], 0),
     (["duplicate", "not_duplicate"], 0), (["no", "yes"], 1), (["Positive", "Negative"], 0), (["0", "1"], 1),
     (["1", "0"], 0)],
)  # fmt: skip
def test_names_of_classes_say_what_is_relevant(tmp_path, read, names, relevant):
    assert answers(read(Pairs(labelled(tmp_path / "rows.parquet", names, relevant)))) == EXPECTED


def test_classes_of_a_saved_data_set_are_read(tmp_path, read):
    rows = pq.read_table(labelled(tmp_path / "rows.parquet", [], 0, stated=False))
    saved = tmp_path / "saved"
    saved.mkdir()
    with pa.OSFile(str(saved / "data.arrow"), "wb") as file, pa.ipc.new_stream(file, rows.schema) as writer:
        writer.write_table(rows)
    (saved / "state.json").write_text(json.dumps({"_data_files": [{"filename": "data.arrow"}]}))
    features = {"label": {"names": ["relevant", "irrelevant"], "_type": "ClassLabel"}}
    (saved / "dataset_info.json").write_text(json.dumps({"features": features}))
    assert answers(read(Pairs(saved))) == EXPECTED


@pytest.mark.parametrize(
    ("file", "content", "says"),
    [("state.json", [], "holds no JSON object"), ("dataset_info.json", [], "holds no JSON object"),
     ("dataset_dict.json", [], "holds no JSON object"),
     ("dataset_dict.json", {"splits": None}, "has no list of splits"),
     ("state.json", {"_data_files": ["rows"]}, "has no list of _data_files")],
)  # fmt: skip
def test_broken_descriptions_of_a_saved_data_set_are_refused(tmp_path, read, file, content, says):
    write_lines(tmp_path / "rows.jsonl", ROWS)
    (tmp_path / file).write_text(json.dumps(content))
    with pytest.raises(BadInput, match=rf"{file}: {says}; save the dataset again, or move this file elsewhere"):
        read(Pairs(tmp_path))


def test_what_a_saved_data_set_lacks_is_named(tmp_path):
    splits = {"train": ["train.arrow"], "test": ["test.arrow"]}
    for name, files in splits.items():
        (tmp_path / name).mkdir()
        state = {"_data_files": [{"filename": file} for file in files]}
        (tmp_path / name / "state.json").write_text(json.dumps(state))
    (tmp_path / "dataset_dict.json").write_text(json.dumps({"splits": list(splits)}))
    with pytest.raises(BadInput, match=r"train/train\.arrow: no such file"):
        reader_of(tmp_path).sources()
    with pytest.raises(BadInput, match=r"train/train\.arrow: no such file"):
        reader_of(tmp_path / "train").sources()
    (tmp_path / "test" / "state.json").unlink()
    with pytest.raises(BadInput, match=r"dataset_dict\.json: names the split test, and there is no state\.json in its"):
        reader_of(tmp_path).sources()


def test_classes_may_be_called_by_numbers(tmp_path, read):
    assert answers(read(Pairs(labelled(tmp_path / "rows.parquet", [0, 1], 1)))) == EXPECTED  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("yes", "no"), [("yes", "no"), ("Relevant", "irrelevant"), ("true", "FALSE"), ("exact", "complement")]
)
def test_labels_may_be_words(pairs, yes, no):
    rows = [row | {"label": yes} for row in ROWS] + [row | {"answer": "Nobody", "label": no} for row in ROWS]
    assert answers(pairs(rows)) == EXPECTED
    with pytest.raises(BadInput, match="the label 'E' is not a number; write 1 for relevant and 0 for not"):
        pairs([row | {"label": "E"} for row in ROWS])


def test_chosen_and_rejected_are_a_positive_and_a_negative(pairs):
    rows = [{"anchor": row["query"], "chosen": row["answer"], "rejected": "Nobody"} for row in ROWS]
    assert set(pairs(rows).documents["text"]) == {"Nobody", *(row["answer"] for row in ROWS)}
    assert pairs(rows).source["columns"] == ["anchor", "chosen", "rejected"]


def test_classes_that_say_nothing_are_shown(tmp_path, read):
    path = labelled(tmp_path / "rows.parquet", ["cat", "dog"], 1)
    with pytest.raises(BadInput, match=r"label has classes .*0 is cat, 1 is dog.*collection\.relevant_from=1"):
        read(Pairs(path))
    assert answers(read(Pairs(path, relevant_from=1))) == EXPECTED
    assert grades_of_classes(["irrelevant", "partially relevant", "highly relevant"]) == [0, 1, 2]
    assert grades_of_classes(["entailment", "neutral", "contradiction"]) == [1, 0, 0]


@pytest.mark.parametrize("suffix", ["parquet", "jsonl"])
@pytest.mark.parametrize("first", [0, 1])
def test_a_missing_part_is_named(tmp_path, read, suffix, first):
    for number in (first, first + 2):
        name = f"train-{number:05d}-of-00003.{suffix}"
        if suffix == "parquet":
            pl.DataFrame(ROWS[number * 3 :]).write_parquet(tmp_path / name)
        else:
            write_lines(tmp_path / name, ROWS[number * 3 :])
    missing = f"train-{first + 1:05d}-of-00003.{suffix}"
    for strict in (True, False):
        with pytest.raises(BadInput, match=rf'{missing}: is missing \(2 of 3 parts .*rename them without "-of-00003"'):
            read(Pairs(tmp_path), strict=strict)
    for file in list(tmp_path.iterdir()):
        file.rename(tmp_path / file.name.replace("-of-00003", ""))
    read(Pairs(tmp_path))


def test_titles_beside_a_text_are_joined_or_named(pairs):
    rows = [{"query": row["query"], "title": f"On {n}", "text": row["answer"]} for n, row in enumerate(ROWS)]
    assert answers(pairs(rows)) == {row["query"]: {f"On {n} {row['answer']}"} for n, row in enumerate(ROWS)}
    rows = [row | {"title": "On animals"} for row in ROWS]
    collection = pairs(rows)
    assert answers(collection) == EXPECTED
    assert collection.facts["columns that are not read"].startswith("title")


def test_labels_that_are_all_above_zero_are_counted(pairs):
    rows = [row | {"label": n % 5 + 1} for n, row in enumerate(ROWS)]
    [fact] = [value for name, value in pairs(rows).facts.items() if "above 0" in name]
    assert fact.startswith(f"1 to 5, none is 0: all {len(ROWS)} pairs are relevant (collection.relevant_from=")
    for facts in (pairs(rows, relevant_from=3).facts, pairs([row | {"label": 1} for row in ROWS]).facts):
        assert not [name for name in facts if "above 0" in name]


@pytest.mark.parametrize("name", ["bad_1", "wrong_answers", "distractor", "neg_passage"])
def test_columns_that_look_like_negatives_are_named(pairs, name):
    facts = pairs([row | {name: "Nobody"} for row in ROWS]).facts
    assert facts["columns that are not read"] == f"{name} (collection.negatives= chooses it)"
    assert answers(pairs([row | {name: "Nobody"} for row in ROWS], negatives=name)) == EXPECTED


def test_an_empty_negative_is_left_out_alone(tmp_path, faulty):
    rows = [row | {"negatives": ["Nobody", "" if n == 2 else "Somebody"]} for n, row in enumerate(ROWS)]
    path = write_lines(tmp_path / "rows.jsonl", rows)
    collection = faulty(Pairs(path), "rows.jsonl:3", "empty text", "a document is empty")
    assert answers(collection) == EXPECTED
    assert len(collection.given) == 3 * len(ROWS) - 1


def test_columns_that_look_like_labels_are_named(pairs):
    facts = pairs([row | {"stars": n % 5 + 1} for n, row in enumerate(ROWS)]).facts
    assert facts["columns that are not read"] == "stars (collection.label= chooses it)"
    assert len(pairs([row | {"stars": n % 5 + 1} for n, row in enumerate(ROWS)], label="stars").judgements) == len(ROWS)


# BEIR as it is at the hub


def parquet(folder: Path, **tables: list[dict[str, Any]]) -> Path:
    """Write tables as files, with two underscores for the slash of a path and one for a dash."""
    for name, rows in tables.items():
        path = folder / f"{name.replace('__', '/').replace('_', '-')}-00000-of-00001.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pl.DataFrame(rows).write_parquet(path)
    return folder


PAIRS_OF_IDS = [{"query-id": f"q{n}", "corpus-id": f"d{n}"} for n in range(len(ROWS))]


@pytest.mark.parametrize("form", ["parquet", "tsv"])
def test_judgements_without_a_grade_are_relevant(tmp_path, read, form):
    folder = write_beir(tmp_path / "beir", {"test.tsv": "query-id\tcorpus-id\nq1\td1\nq2\td2\n"})
    if form == "parquet":
        (folder / "qrels" / "test.tsv").unlink()
        parquet(folder, qrels__train=PAIRS_OF_IDS[1:3])
    collection = read(Beir(folder))
    assert collection.judgements.rows() == [("q1", "d1", 1), ("q2", "d2", 1)]
    assert collection.facts["judgements without a grade, each of which is relevant"] == "2"


def test_judgements_in_data_or_in_one_file(tmp_path, read):
    """As MTEB's default configuration, and as three files."""
    parquet(tmp_path / "mteb", corpus__test=DOCUMENTS, queries__test=QUERIES, data__test=PAIRS_OF_IDS)
    assert answers(read(Beir(tmp_path / "mteb"))) == EXPECTED
    (tmp_path / "plain").mkdir()
    for name, rows in (("corpus", DOCUMENTS), ("queries", QUERIES), ("qrels", PAIRS_OF_IDS)):
        pq.write_table(pa.Table.from_pylist(rows), tmp_path / "plain" / f"{name}.parquet")
    assert format_of(tmp_path / "plain") == "beir"
    assert answers(read(Beir(tmp_path / "plain"))) == EXPECTED


def test_one_of_several_collections_is_chosen(tmp_path, read):
    parquet(
        tmp_path / "nano", corpus__NanoA=DOCUMENTS, queries__NanoA=QUERIES, qrels__NanoA=PAIRS_OF_IDS,
        corpus__NanoB=DOCUMENTS[:3], queries__NanoB=QUERIES[:3], qrels__NanoB=PAIRS_OF_IDS[:3],
    )  # fmt: skip
    assert format_of(tmp_path / "nano") == "beir"
    with pytest.raises(BadInput, match=r"by name \(NanoA, NanoB; 2 in all\); choose one: collection\.subset=NanoA"):
        read(Beir(tmp_path / "nano"))
    collection = read(Beir(tmp_path / "nano", subset="NanoB"))
    assert (collection.name, collection.size, len(collection.queries)) == ("NanoB", 3, 3)
    assert answers(read(Beir(tmp_path / "nano", subset="NanoA"))) == EXPECTED


DISTILLED = [{"query_id": "q1", "document_ids": ["d1", "d2"], "scores": [0.9, 0.5]}]


@pytest.mark.parametrize("name", ["kd.jsonl", "kd.parquet"])
def test_distillation_data_by_id(tmp_path, read, name, monkeypatch):
    folder = write_beir(tmp_path / "beir", {"test.tsv": "q1\td1\t1\nq2\td2\t1\n"})
    frame = pl.DataFrame(DISTILLED)
    (frame.write_ndjson if name.endswith("jsonl") else frame.write_parquet)(folder / name)
    given = read_candidates(folder / name, Faults())
    assert given["document"].to_list() == ["d1", "d2"]
    assert given["score"].to_list() == pytest.approx([0.9, 0.5])
    with pytest.raises(BadInput, match=r"holds ids, not texts \(document_ids\); .*collection\.given=FILE"):
        read(Pairs(folder / name))
    assert read(Beir(folder, given=name)).given["document"].to_list() == ["d1", "d2"]
    (folder / name).rename(tmp_path / name)
    monkeypatch.chdir(tmp_path)  # next to the folder
    assert read(Beir(folder, given=name)).given["document"].to_list() == ["d1", "d2"]
    (tmp_path / name).rename(folder / name)
    pl.DataFrame([DISTILLED[0] | {"scores": [0.9]}]).write_ndjson(folder / "short.jsonl")
    with pytest.raises(BadInput, match=r"short\.jsonl:1: .*not as many scores as documents \(1 for 2\)"):
        read_candidates(folder / "short.jsonl", Faults())


# Remote paths


def test_remote_paths_are_fetched_or_refused_in_one_line(tmp_path, read, monkeypatch):
    import fsspec

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    store = fsspec.filesystem("memory")
    store.pipe("/lab/pairs.csv", pl.DataFrame(ROWS).write_csv().encode())
    assert answers(read(Pairs("memory://lab/pairs.csv"))) == EXPECTED
    assert format_of("memory://lab/pairs.csv") == "pairs"
    copied = local_path("memory://lab")
    assert [file.name for file in copied.iterdir()] == ["pairs.csv"]
    for uri in ("memory://lab/none.csv", "memory:/lab/none.csv"):
        with pytest.raises(BadInput, match=r"memory://lab/none.csv: no such file there, .*copy it to this machine"):
            format_of(uri)
    with pytest.raises(BadInput, match=r"nosuch://a/b.csv: can't be fetched .*copy it to this machine"):
        local_path("nosuch://a/b.csv")


def test_a_web_address_may_go_on_after_the_file(tmp_path, read, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "site").mkdir()
    write_lines(tmp_path / "site" / "rows.jsonl", ROWS)
    handler = partial(SimpleHTTPRequestHandler, directory=str(tmp_path / "site"))
    monkeypatch.setattr(SimpleHTTPRequestHandler, "log_message", lambda *_: None)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        site = f"http://127.0.0.1:{server.server_port}"
        assert answers(read(Pairs(f"{site}/rows.jsonl?download=true"))) == EXPECTED
        with pytest.raises(BadInput, match=r":\d+/: names no file that ends in its format, .*copy it to this machine"):
            local_path(f"{site}/")
        server.shutdown()


@pytest.mark.parametrize("slashes", ["///", "//localhost/", "/"])
def test_a_path_as_a_uri_is_the_path(tmp_path, read, slashes):
    path = write_lines(tmp_path / "rows.jsonl", ROWS)
    assert answers(read(Pairs(f"file:{slashes}{str(path).lstrip('/')}"))) == EXPECTED


# Topics


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"topic_id": "301", "topic": "stone bridges"}', [("301", "stone bridges")]),
        ("topic_id,topic\n301,stone bridges\n", [("301", "stone bridges")]),
        ('{"topic": "301", "title": "stone bridges"}', [("301", "stone bridges")]),
        (
            '[{"number": 31, "turn": [{"number": 1, "utterance": "Bridges?"}, {"number": 2, "utterance": "Old?"}]}]',
            [("31_1", "Bridges?"), ("31_2", "Old?")],
        ),
    ],
)
def test_topics_by_other_names(tmp_path, text, expected):
    (tmp_path / "topics").write_text(text)
    rows = topic_rows(tmp_path / "topics", Faults(), "utf-8")
    assert [(number, next(iter(texts.values()))) for _, number, texts in rows] == expected


Follow = Callable[[Path], dict[str, Any]]
REMEDIES: dict[str, tuple[str, dict[str, str], str, Follow]] = {
    # the file's name, its options, what is printed, and the options that follow it
    "columns": ("a.csv", {"ask": "query", "say": "answer"}, r"collection\.query=COLUMN collection\.positive=COLUMN",
                lambda path: {"query": "ask", "positive": "say"}),
    "scores": ("a.csv", {"query": "query", "answer": "answer", "score": "score"}, r"collection\.relevant_from=0\.8",
               lambda path: {"relevant_from": 0.8}),
    "all relevant": ("a.csv", {"query": "query", "answer": "answer", "score": "score"}, r"collection\.scores=teacher",
                     lambda path: {"scores": "teacher"}),
    "margins": ("a.csv", {"query": "query", "answer": "answer", "negative": "other", "score": "score"},
                r"collection\.scores=margin", lambda path: {"scores": "margin"}),
    "scores of negatives": ("a.csv", {"query": "query", "answer": "answer", "negative": "other", "score": "score"},
                            r"collection\.scores=score", lambda path: {"scores": "score"}),
    "labels": ("a.csv", {"query": "query", "answer": "answer", "label": "score"}, r"collection\.relevant_from",
               lambda path: {"relevant_from": 0.8}),
    "labels that are scores": ("a.csv", {"query": "query", "answer": "answer", "label": "score"}, r"collection\.scores",
                               lambda path: {"scores": "label", "relevant_from": 0.8}),
    "grades of positives": ("a.csv", {"query": "query", "answer": "answer", "negative": "other", "label": "score"},
                            r"collection\.label=label", lambda path: {"label": "label", "relevant_from": 0.8}),
}  # fmt: skip


@pytest.mark.parametrize("case", REMEDIES)
def test_remedies_of_pairs_work(tmp_path, read, case):
    name, columns, printed, follow = REMEDIES[case]
    rows = [row | {"other": f"Nobody {n}", "score": "0.9"} for n, row in enumerate(ROWS)]
    frame = pl.DataFrame([{theirs: row[ours] for theirs, ours in columns.items()} for row in rows])
    frame.write_csv(tmp_path / name)
    with pytest.raises(BadInput, match=printed):
        read(Pairs(tmp_path / name))
    assert answers(read(Pairs(tmp_path / name, **follow(tmp_path)))) == EXPECTED
