"""`pyrite judge`: from its options and what people bring to a page that is ready, and its export."""

import csv
import gzip
import io
import json
import re
import socket
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import requests
import uvicorn
from rich.console import Console

from pyrite.cluster.commands.judge import import_judgements, judge, listen, write_backup, write_qrels
from pyrite.cluster.commands.judging_inputs import opened as open_it
from pyrite.cluster.output.manifest import write_config
from pyrite.cluster.output.storage import Storage
from pyrite.pooling.judging.access import links_of, secret_of
from pyrite.pooling.judging.session import OF_OTHER_TOPICS
from pyrite.pooling.judging.store import Event, Store, read
from pyrite.ranking.errors import BadInput
from pyrite.ranking.trec_files import read_qrels
from tests.made_up import write_files, write_texts


@pytest.fixture
def files(tmp_path, monkeypatch) -> Path:
    """Runs, a collection that nothing was judged of yet, topics, and old judgements."""
    documents = {f"d{number}": f"text {number}" for number in range(1, 9)}
    ranked = {topic: [f"d{rank}" for rank in range(5)] for topic in "12"}
    Campaign(tmp_path, monkeypatch).write(documents, {"a": ranked, "b": ranked}, {"1": "moles", "2": "bats"})
    qrels = "1 0 d3 1\n1 0 elsewhere 0\n9 0 d3 1\n"
    return write_files(tmp_path, {"topics.tsv": "1\tmoles and tunnels\n", "qrels": qrels})


@pytest.fixture
def start(files, monkeypatch) -> Callable[..., str]:
    """Starts the command with a page that ends at once; returns what it said."""

    def begin(*overrides: str) -> str:
        console = Console(file=io.StringIO(), width=200)
        monkeypatch.setattr("pyrite.cluster.commands.judge.run", lambda app, listening: listening.close())
        judge([f"out={files / 'out'}", "port=0", *overrides], console)
        return console.file.getvalue()

    return begin


def options(files: Path) -> list[str]:
    return [f"runs={files / 'runs'}", "collection=beir", f"collection.path={files / 'corpus'}"]


def judged(files: Path) -> dict[str, Any]:
    """Write a judgement into the folder, and return its settings."""
    settings = read(files / "out").settings
    store = Store(files / "out", settings)
    store.append(Event("sign in", "ada"), Event("hand out", "ada", "1", "d1"), Event("judge", "ada", "1", "d1", 1))
    store.close()
    return settings


def test_a_link_is_printed_with_what_is_worth_knowing(start, files):
    said = start(*options(files), f"topics={files / 'topics.tsv'}", f"qrels={files / 'qrels'}")
    assert "2 topics, 10 documents of 2 runs in the pool" in said
    assert "judgements taken over: 2" in said
    assert "pooled documents that the collection lacks: 1" in said
    assert "topics without a text: 1" in said
    links = re.findall(r"(\w+): http://127\.0\.0\.1:\d+/\?token=(\S+)", said)
    secret = secret_of(files / "out")
    tokens = [link.token for link in links_of(secret, None)]
    assert links == [("owner", tokens[0]), ("assessors", tokens[1])]
    assert "other machines" not in said
    assert read(files / "out").settings["method"].startswith("posterior_fusion ")


@pytest.mark.parametrize(("method", "says"), [("stratified_sampling", True), ("scal", True), ("rank", False)])
def test_a_line_says_that_nothing_is_estimated_from_a_sample(start, files, method, says):
    printed = " ".join(start(*options(files), f"method={method}").split())
    assert ("nothing can be estimated from them" in printed) == says


def test_the_same_line_starts_a_judging_and_goes_on(start, files):
    line = [*options(files), "depth=5", "resume=auto"]
    assert "continuing" not in start(*line)
    judged(files)
    assert "continuing after 1 judgement" in start(*line)
    assert "continuing after 1 judgement" in start(*line)
    with pytest.raises(BadInput, match="the depth was 5, and may only rise"):
        start(*options(files), "depth=4", "resume=auto")


def test_the_second_time_the_folder_is_enough(start, files):
    first = start(*options(files), "method=mm", "grades=[0,1,2]", "seed=3")
    settings = judged(files)
    assert (settings["grades"], settings["seed"]) == ([0, 1, 2], 3)
    assert settings["method"].startswith("mm ")
    second = start()
    assert "continuing after 1 judgement" in second
    assert re.findall(r"token=\S+", first) == re.findall(r"token=\S+", second)
    assert ["reading the documents" in said for said in (first, second)] == [True, False]
    remembered = json.loads((files / "out" / "overrides.json").read_text())["overrides"]
    assert not any(text.startswith(("out=", "port=")) for text in remembered)
    start("budget=3", "double=0.5", "title=Again")  # these may change
    for other in ("method=mtf", "seed=4", "grades=[0,1]", "depth=2", f"qrels={files / 'qrels'}"):
        with pytest.raises(BadInput, match="holds judgements made with other options"):
            start(other)


def test_other_machines_are_let_in_with_a_warning(start, files):
    assert "other machines can reach this page" in start(*options(files), "host=0.0.0.0")
    assert "other machines" not in start()  # and not again unless it is said again


def test_export(start, files, console):
    start(*options(files), f"qrels={files / 'qrels'}")
    judged(files)
    out, made = f"out={files / 'out'}", files / "made"
    write_qrels([out], str(made / "qrels.txt"), console)
    assert (made / "qrels.txt").read_text().splitlines() == ["1 0 d1 1", "1 0 d3 1", "1 0 elsewhere 0"]
    write_qrels([out], str(made / "all.csv"), console)
    lines = (made / "all.csv").read_text().splitlines()
    assert lines[0] == "topic,document,grade,assessor,time,note,rationale"
    assert lines[1].startswith("1,d1,1,ada,")
    judged_line, table_line = console.file.getvalue().splitlines()
    assert judged_line.startswith("1 document judged, 2 known before: ")
    assert table_line.startswith("1 judgement: ")
    for name, wrong, says in (
        ("qrels.txt", "resolve=mean", "^resolve is 'mean'; choose 'highest', 'first' or 'last'"),
        ("qrels.txt", "method=mm", "method has no effect on an export"),
        ("all.csv", "resolve=last", "resolve: has no effect on a table of all judgements; leave it out"),
    ):
        with pytest.raises(BadInput, match=says):
            write_qrels([out, wrong], str(made / name), console)


def test_an_export_reads_the_grades_of_a_model_as_the_judging_did(start, files, console):
    machine = files / "machine"
    machine.write_bytes("1 0 d1 1\n1 0 d2 1\nbroken\n1 0 é 1\n".encode("latin-1"))
    start(*options(files), f"machine={machine}", "encoding=latin-1", "strict=false")
    judged(files)
    out, qrels = f"out={files / 'out'}", files / "qrels.txt"
    write_qrels([out], str(qrels), console)
    assert (files / "qrels.txt.machine.txt").read_text("utf-8").splitlines() == ["1 0 d2 1", "1 0 é 1"]
    machine.unlink()
    qrels.unlink()
    with pytest.raises(BadInput, match="no such file"):
        write_qrels([out], str(qrels), console)
    assert not qrels.exists()


@pytest.mark.parametrize("as_list", [True, False])
def test_a_folder_of_an_older_version_is_exported_and_continued(start, files, console, as_list):
    """Until version 0.1 the options were a list, and no working folder was recorded."""
    start(*options(files))
    judged(files)
    remembered = files / "out" / "overrides.json"
    saved = json.loads(remembered.read_text())["overrides"]
    remembered.write_text(json.dumps(saved) if as_list else json.dumps({"overrides": saved}))
    write_qrels([f"out={files / 'out'}"], str(files / "q.txt"), console)
    assert (files / "q.txt").read_text() == "1 0 d1 1\n"
    assert "continuing after 1 judgement" in start()
    remembered.write_text("{")
    write_qrels([f"out={files / 'out'}"], str(files / "q.json"), console)
    assert json.loads((files / "q.json").read_text()) == {"1": {"d1": 1}}
    with pytest.raises(BadInput, match=r"is damaged; delete it, and give the options again"):
        start()
    remembered.unlink()
    assert "continuing after 1 judgement" in start(*options(files))


def test_a_backup_is_continued_as_the_line_says(start, files, console):
    start(*options(files))
    judged(files)
    write_backup([f"out={files / 'out'}"], str(files / "copy"), console)
    said = console.file.getvalue()
    assert f"3 events: {files / 'copy'}" in said
    [name, kept] = re.findall(r"copy it into a folder as (\S+), with (\S+)", said.replace("\n", ""))[0]
    again = files / "again"
    again.mkdir()
    (files / "copy").rename(again / name)
    (again / "overrides.json").write_text(Path(kept).read_text())
    assert "continuing after 1 judgement" in start(f"out={again}")
    with pytest.raises(BadInput, match="method has no effect on a backup"):
        write_backup(["method=mm"], str(files / "copy"), console)


LABEL_STUDIO = json.dumps([
    {"id": 1, "data": {"topic": "1", "doc_id": "d2", "text": "text 2"}, "annotations": [
        {"completed_by": {"id": 4, "email": "bo@example.org"}, "created_at": "2026-03-01T10:00:00.5Z", "result": [
            {"type": "choices", "value": {"choices": ["Relevant"]}},
            {"type": "textarea", "value": {"text": ["seen twice"]}},
            {"type": "labels", "value": {"start": 0, "end": 4, "text": "text", "labels": ["why"]}},
        ]},
        {"completed_by": 7, "was_cancelled": True, "result": []},
    ]},
    {"id": 2, "data": {"topic": "2", "doc_id": "d4"}, "annotations": [
        {"completed_by": 7, "result": [{"type": "rating", "value": {"rating": 0}}]},
    ]},
])  # fmt: skip
DOCCANO = "".join(json.dumps(row) + "\n" for row in (
    {"id": 1, "text": "text 2", "label": ["relevant"], "topic": "1", "docno": "d2", "Comments": ["sure"]},
    {"id": 2, "text": "text 4", "label": ["0"], "meta": {"qid": 2, "docno": "d4"}, "Comments": []},
))  # fmt: skip
MADE = {
    "made.csv": (
        "topic,document,grade,assessor,time,note,rationale\n"
        "1,d2,1,bo@example.org,2026-03-01T10:00:00.500Z,seen twice,text\n2,d4,0,7,,,\n",
        [("1", "d2", 1, "bo@example.org", "seen twice", "text"), ("2", "d4", 0, "7", None, None)],
    ),
    "made.json": (
        LABEL_STUDIO,
        [("1", "d2", 1, "bo@example.org", "seen twice", "text"), ("2", "d4", 0, "7", None, None)],
    ),
    "bo.jsonl": (DOCCANO, [("1", "d2", 1, "bo", "sure", None), ("2", "d4", 0, "bo", None, None)]),
    "bo.csv.gz": (
        "topic;docno;relevance;annotator;comment;updated_at\n1;d2;1.0;bo;sure;\n2;d4;Not Relevant;bo;;\n",
        [("1", "d2", 1, "bo", "sure", None), ("2", "d4", 0, "bo", None, None)],
    ),
    "made.tsv": (
        "topic\tdocument\tgrade\tassessor\ttime\tnote\n1\td2\t1\tbo\t\tsure\n2\td4\t0\tbo\t\t\n",
        [("1", "d2", 1, "bo", "sure", None), ("2", "d4", 0, "bo", None, None)],
    ),
    "min.json": (
        json.dumps([
            {"topic": 1, "document": "the text", "doc_id": "d2", "grade": "Relevant", "user": 7, "comment": "sure"},
            {"topic": 2, "doc_id": "d4", "grade": {"choices": ["Not relevant"]}, "annotator": 7},
            {"topic": 2, "doc_id": "d3", "labels": [], "annotator": 7},
        ]),
        [("1", "d2", 1, "7", "sure", None), ("2", "d4", 0, "7", None, None)],
    ),
    "two.json": (
        json.dumps([{"data": {"qid": "1", "query": "q 1", "document": "text 2", "docid": "d2"}, "annotations": [
            {"completed_by": 7, "result": [
                {"from_name": "fluency", "value": {"rating": 5}},
                {"from_name": "Relevance", "value": {"choices": ["1"]}}]},
            {"completed_by": 8, "result": []}]},
            {"data": {"qid": "2", "docid": "d4"}, "annotations": [
                {"completed_by": 7, "result": [{"value": None}, {"value": {"number": 0}}]}]}]),
        [("1", "d2", 1, "7", None, None), ("2", "d4", 0, "7", None, None)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MADE)
def test_judgements_made_elsewhere_are_imported_once(start, files, console, name):
    content, expected = MADE[name]
    (files / name).write_bytes(gzip.compress(content.encode()) if name.endswith(".gz") else content.encode())
    start(*options(files))
    judged(files)
    for _ in range(2):
        import_judgements([f"out={files / 'out'}"], str(files / name), console)
    said = console.file.getvalue()
    assert "judgements imported: 2" in said
    assert "judgements of documents that the same assessor judged before, which are not imported: 2" in said
    made = read(files / "out").judgements
    columns = ["topic", "document", "grade", "assessor", "note", "rationale"]
    assert made.select(columns).rows()[1:] == expected
    assert ("annotations without a grade" in said) == (name in ("made.json", "min.json", "two.json"))
    if name in ("made.csv", "made.json"):
        assert made["at"][1] == pytest.approx(1772359200.5)
    write_qrels([f"out={files / 'out'}"], str(files / "qrels.txt"), console)
    assert (files / "qrels.txt").read_text() == "1 0 d1 1\n1 0 d2 1\n2 0 d4 0\n"
    assert "continuing after 3 judgements" in start()


@pytest.mark.parametrize(
    ("given", "grades", "words"),
    [
        (["labels=[not,partly,fully]"], [0, 1, 2], ["not", "partly", "fully"]),
        (["grades=[0,1,3]", "labels=[not,partly,fully]"], [0, 1, 3], ["not", "partly", "fully"]),
        (["labels={3:fully,0:not at all,1:partly}"], [0, 1, 3], ["not at all", "partly", "fully"]),
        (["names=[no,yes]"], [0, 1], ["no", "yes"]),
    ],
)
def test_assessors_see_words_and_exports_have_numbers(start, files, console, monkeypatch, given, grades, words):
    opened = []

    def recorded(*args):
        opened.append(open_it(*args))
        return opened[-1]

    monkeypatch.setattr("pyrite.cluster.commands.judge.opened", recorded)
    start(*options(files), *given)
    assert read(files / "out").settings["grades"] == grades
    of_words, of_numbers = dict(zip(words, grades, strict=True)), {str(grade): grade for grade in grades}
    assert opened[0].words == of_words | of_numbers
    assert list(opened[0].session.options.names) == words
    write_files(files, {"made.csv": f"topic,document,grade,assessor\n1,d1,{words[-1].upper()},bo\n"})
    import_judgements([f"out={files / 'out'}"], str(files / "made.csv"), console)
    write_qrels([f"out={files / 'out'}"], str(files / "qrels.txt"), console)
    assert (files / "qrels.txt").read_text() == f"1 0 d1 {grades[-1]}\n"


def test_an_exported_table_is_imported_into_another_folder(start, files, console):
    start(*options(files), "labels=[no,'=yes']")
    judged(files)
    write_qrels([f"out={files / 'out'}"], str(files / "all.csv"), console)
    again = [f"out={files / 'again'}", *options(files)]
    import_judgements(again, str(files / "all.csv"), console)
    first, second = (read(files / name).judgements.drop("id") for name in ("out", "again"))
    times = ("at", "graded_at")
    assert second.drop(times).equals(first.drop(times))
    assert second["at"].to_list() == pytest.approx(first["at"].to_list(), abs=1e-3)
    assert "continuing after 1 judgement" in start(again[0])


def test_what_is_not_imported_is_counted(start, files, console):
    rows = "1,d3,1,bo,,\n9,d1,1,bo,,\n1,nowhere,1,bo,,\n1,d2,can't judge,bo,,\n1,d5,1,bo,,\n"
    write_files(files, {"made.csv": f"topic,document,grade,assessor,time,note\n{rows}"})
    start(*options(files), f"qrels={files / 'qrels'}")
    import_judgements([f"out={files / 'out'}"], str(files / "made.csv"), console)
    lines = [line.split(": ") for line in console.file.getvalue().splitlines() if "import" in line]
    assert dict(lines) == {
        "judgements of documents that were judged before (qrels or gold), which are not imported": "1",
        f"judgements {OF_OTHER_TOPICS}, which are not imported": "1",
        "judgements of documents that neither the runs nor the collection have, which are not imported": "1",
        "judgements imported": "2",
    }
    assert read(files / "out").judgements.select("document", "grade").rows() == [("d2", None), ("d5", 1)]


@pytest.mark.parametrize(("name", "content", "says"), [
    ("a.csv", "topic,document,grade,assessor\n1,d1,perhaps,bo\n", "a.csv:2: grade 'perhaps' is none of this pool's"),
    ("a.csv", "topic,document,grade,assessor\n1,d1,-7,bo\n",
     "is none of this pool's (not relevant, relevant, 0, 1); correct it in the file, or leave the row out"),
    ("a.csv", "topic,document,grade\n1,d1,1\n", "a.csv:2: a judgement without assessor; name it by one of assessor, "),
    ("a.csv", "topic,document,grade,assessor,time\n1,d1,1,bo,noon\n", "a.csv:2: 'noon' is no time; write it as"),
    ("a.csv", "topic,document,grade,assessor\n", "a.csv: no judgements in it"),
    ("a.csv", "topic,document,assessor\n1,d1,bo\n", "a.csv:2: a judgement without grade; name it by one of grade, "),
    ("a.json", "{}", "a.json:1: a judgement without grade"),
    ("a.jsonl", "{,}\n", "a.jsonl:1: broken line: not JSON"),
    ("a.json", '[{"data": {"topic": "1", "document": "d1"}, "annotations": [{"completed_by": {}, "result": []}]}]',
     "a.json: no judgements in it"),
    ("a.json", '[{"data": {"topic": "1", "document": "d1"}, "annotations": [{"result": [{"value": {"rating": 1}}]}]}]',
     "a.json:1: a judgement without assessor"),
    ("a.json", '[{"annotations": 3}]', "a.json:1: `annotations` is no list of objects; export tasks"),
    ("a.json", '[{"annotations": [{"result": [{"from_name": "a", "value": {"rating": 1}}, '
     '{"from_name": "b", "value": {"choices": ["x"]}}]}]}]', "a.json:1: an annotation has 2 controls that may be"),
    ("bo.jsonl", '{"topic": 1, "docno": "d1", "label": [[0, 4, "1"]]}\n', "bo.jsonl:1: its label marks passages"),
    ("bo.jsonl", '{"topic": 1, "docno": "d1", "label": ["0", "1"]}\n', "bo.jsonl:1: a judgement with 2 grades (0, 1)"),
    ("a.csv.gz", None, "a.csv.gz: no such file"),
    ("a.xlsx", "", "a.xlsx: is no table by its name; save it as CSV in UTF-8"),
    ("a.txt", "1 0 d1 1\n", "a.txt: is no table of judgements with assessors by its name (.csv, .tsv, .json, .jsonl, "
     ".parquet); give TREC's judgements to `pyrite judge` by qrels="),
    ("a.csv", "topic,document,grade,assessor\n1,d1,1,owner\n", "a.csv: Owner|a.csv: owner can't be an assessor's name"),
])  # fmt: skip
def test_broken_imports_change_nothing(start, files, console, name, content, says):
    write_files(files, {} if content is None else {name: content})
    start(*options(files))
    judged(files)
    with pytest.raises(BadInput, match=re.escape(says).replace(r"\|", "|")):
        import_judgements([f"out={files / 'out'}"], str(files / name), console)
    assert len(read(files / "out").judgements) == 1


def test_some_topics_are_judged_and_each_has_its_budget(start, files):
    assert "1 topic, 5 documents of 2 runs in the pool" in start(*options(files), "topics=[2]")
    write_files(files, {"budgets": "1\t3\n", "twice": "1\t3\n1\t4\n", "words": "1\tmany\n", "other": "7\t3\n"})
    with pytest.raises(BadInput, match=re.escape("topics: '7' is none of the 2 topics (1, 2); give names of topics")):
        start(*options(files), "topics=[1,7]", f"out={files / 'more'}")
    start(*options(files), f"budget={files / 'budgets'}", f"out={files / 'more'}")
    write_files(files, {"commas": "1,3\n\n2 4\n"})
    start(f"budget={files / 'commas'}", f"out={files / 'more'}")
    for name, says in (
        ("twice", "topic 1 is given twice"),
        ("words", "'many' is no number of documents for topic 1"),
        ("other", "there is no topic '7' in the pool"),
    ):
        with pytest.raises(BadInput, match=says):
            start(f"budget={files / name}", f"out={files / 'more'}")
    with pytest.raises(BadInput, match="can't have budgets of their own where the method chooses them"):
        start(*options(files), f"budget={files / 'budgets'}", "method=shared", f"out={files / 'shared'}")


def test_judgements_of_topics_that_are_left_out_are_counted_as_such(start, files, console):
    old = write_files(files, {"old": "1 0 d1 1\n1 0 d2 0\n2 0 d1 1\n9 0 d1 1\n"}) / "old"
    said = start(*options(files), "topics=[2]", f"qrels={old}")
    assert "judgements taken over: 1" in said
    assert f"judgements {OF_OTHER_TOPICS}, which are neither taken over nor exported: 3" in said
    write_qrels([f"out={files / 'out'}"], str(files / "new"), console)
    assert (files / "new").read_text().split() == ["2", "0", "d1", "1"]


def test_a_refused_start_binds_nothing(start, files):
    """Its options may be corrected in the same folder, and no texts of its pool stay there."""
    with pytest.raises(BadInput, match="some grades must be relevant"):
        start(*options(files), "relevant_from=2", f"qrels={files / 'qrels'}")
    assert not list((files / "out").glob("documents-*"))
    assert "3 judgements taken over" not in start(*options(files), "relevant_from=2", "grades=[0,1,2]")
    with pytest.raises(BadInput, match="no stemmer for 'klingon'"):
        start("stemming=klingon", "depth=3")
    assert len(list((files / "out").glob("documents-*"))) == 1
    judged(files)
    with pytest.raises(BadInput, match="made with other options"):
        start("grades=[0,1,2,3]")


@pytest.mark.by_day(7)
@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["collection.path=nowhere"], "nowhere: no such folder"), (["runs=nowhere"], "nowhere"),
        (["topics=nowhere"], "nowhere: no such file"), (["qrels=nowhere"], "nowhere: no such file"),
        (["grades=[1,2]"], "some grades must be relevant"), (["double=1.5"], "double"), (["double=-1"], "double"),
        (["stemming=klingon"], "no stemmer for 'klingon'"), (["port=70000"], "port"), (["port=x"], "port is 'x'"),
        (["host=256.1.1.1"], "can't listen"), (["method=all"], "method"), (["method=[mm,mtf]"], "method"),
        (["recall=1.5"], "recall is 1.5"), (["confidence=0.1"], "confidence"), (["url=judging.example"], "no address"),
        (["names=[a]"], "labels: 1 of them; write labels=[not,"), (["labels={no:0}"], "labels.no is 'no'; give words"),
        (["labels={0:no,1:yes}", "grades=[0,2]"], "labels: they are of [0, 1]"),
        (["assessors=[]"], "assessors"), (["bugdet=3"], "bugdet"),
        (["assessors=[ada,ada]"], "assessors: ada is named twice"),
        (["serve=true"], "there is no option serve any more: "),
    ],
)  # fmt: skip
def test_bad_options_are_one_line(start, files, more, says):
    given = [text for text in options(files) if text.split("=")[0] != more[0].split("=")[0]]
    with pytest.raises(BadInput) as caught:
        start(*given, *more)
    assert says in str(caught.value)


def test_a_folder_with_results_of_another_verb_is_left_alone(start, files):
    write_config(Storage(str(files / "out")), {"study": {}})
    with pytest.raises(BadInput, match="holds results of `pyrite study`; choose another out="):
        start(*options(files))
    assert [path.name for path in (files / "out").iterdir()] == ["config.yaml"]


@pytest.mark.parametrize("lacking", ["runs", "collection"])
def test_what_has_no_default_is_asked_for(start, files, lacking):
    with pytest.raises(BadInput, match=lacking):
        start(*(text for text in options(files) if not text.startswith(lacking)))


def test_a_taken_port_and_a_folder_elsewhere_are_one_line(files):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(BadInput, match=rf"^can't listen on port {port} of 127.0.0.1 \(Address already in use\)"):
            listen("127.0.0.1", port)
    with pytest.raises(BadInput, match="not a folder on this machine"):
        judge([*options(files), "out=s3://bucket/folder"], Console(quiet=True))


def test_each_assessor_gets_a_link(start, files):
    said = start(*options(files), "assessors=[Ada Lovelace,grace]", "url=https://judging.example.org/")
    links = re.findall(r"^(.+): https://judging\.example\.org/\?token=(\S+)$", said, re.MULTILINE)
    assert [whose for whose, _ in links] == ["your link, as the owner", "link for Ada Lovelace", "link for grace"]
    assert len({token for _, token in links}) == 3
    again = start("assessors=[grace]")
    assert links[2][1] in again
    assert links[1][1] not in again


def test_topics_have_owners(start, files):
    path = files / "owners.tsv"
    path.write_text("1\tada\n")
    assert "link for ada" in start(*options(files), f"owners={path}", "assessors=[ada,grace]")
    start("owners=first")
    for content, says in (
        ("ada\n", "owners.tsv:1: broken line"), ("1\tada\n1\tgrace\n", "owners.tsv:2: topic 1 is given twice"),
        ("9\tada\n", "no topic '9'"), ("1\tedsger\n", "edsger owns topic 1 and is not among"),
    ):  # fmt: skip
        path.write_text(content)
        with pytest.raises(BadInput, match=says):
            start(f"owners={path}")


def test_a_campaign_is_continued_from_another_folder(start, files, monkeypatch):
    monkeypatch.chdir(files)
    start("runs=[runs/a,runs/b]", "collection=beir", "collection.path=corpus", "topics=topics.tsv")
    for folder, more in (("elsewhere", "budget=2"), ("runs", "topics=../topics.tsv")):
        (files / folder).mkdir(exist_ok=True)
        monkeypatch.chdir(files / folder)
        assert "2 topics, 10 documents of 2 runs" in start(more)
        assert "2 topics" in start()


TRAIL = "/".join(["https://example.org"] * 300)
IDS = [
    '=HYPERLINK("http://evil.example","x")', "+1", "@SUM(A1)", "-2", 'a"b', "it's", "a,b;c", "a/../b", "%2e%2e%00",
    "http://x/y?z=1&w=2#f", "<img/src=x>", "0007", "1e5", "true", "\\n", "\u00fc\u4e2d\U0001f600", "e\u0301", TRAIL,
]  # fmt: skip
Texts = Mapping[str, str]


class Page:
    """A browser that is signed in."""

    def __init__(self, address: str, token: str, name: str = "ada") -> None:
        self._address, self._session = address, requests.Session()
        self._session.get(f"{address}/?token={token}", timeout=120).raise_for_status()
        self.state = self.post("sign-in", name=name)

    def post(self, path: str, **content: Any) -> dict[str, Any]:
        url, headers = f"{self._address}/{path}", {"Origin": self._address}
        answer = self._session.post(url, json=content, headers=headers, timeout=120)
        self.read = answer.content
        return answer.json() if answer.ok else answer.json() | {"status": answer.status_code}

    def act(self, path: str, **content: Any) -> dict[str, Any]:
        """Do something with the document on the screen, and return the next."""
        place = {"topic": self.state["topic"]["name"], "document": self.state["document"]["name"]}
        self.state = self.post(path, **place, request=uuid.uuid4().hex, **content)
        return self.state


class Campaign:
    """Files of a campaign, and the command that judges them."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self._patch, self.printed = folder, monkeypatch, ""
        self.given = [f"runs={folder / 'runs'}", "collection=beir", f"collection.path={folder / 'corpus'}"]

    def write(self, documents: Texts, runs: Mapping[str, Mapping[str, list[str]]], topics: Texts) -> None:
        entries = [[{"_id": name, "text": text} for name, text in texts.items()] for texts in (documents, topics)]
        write_texts(self.folder / "corpus", *entries, {})
        (self.folder / "runs").mkdir(exist_ok=True)
        for run, lists in runs.items():
            rows = [
                f"{topic} Q0 {document} {rank} {1000 - rank} {run}\n"
                for topic, documents in lists.items()
                for rank, document in enumerate(documents, 1)
            ]
            (self.folder / "runs" / run).write_text("".join(rows), encoding="utf-8")

    @contextmanager
    def page(self, *more: str, resume: bool = False) -> Iterator[Page]:
        """Run the command while its page is used."""
        console, out = Console(file=io.StringIO(), width=500), self.folder / "out"
        ready = threading.Event()
        served: list[Any] = []

        def run(app: Any, listening: Any) -> None:
            server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off", ws="none"))
            served.append(server)
            ready.set()
            server.run(sockets=[listening])

        def command() -> None:
            try:
                given = list(more) if resume else [f"out={out}", "method=rank", *self.given, *more]
                judge([*given, "port=0"], console, str(out) if resume else None)
            except BaseException as error:
                served.append(error)
                ready.set()

        with self._patch.context() as patched:
            patched.setattr("pyrite.cluster.commands.judge.run", run)
            thread = threading.Thread(target=command)
            thread.start()
            ready.wait(120)
            [server] = served
            if isinstance(server, BaseException):
                thread.join()
                raise server
            self.printed = console.file.getvalue()
            link = re.search(r"link for assessors: (\S+)/\?token=(\S+)", self.printed)
            try:
                yield Page(link[1], link[2])
            finally:
                server.should_exit = True
                thread.join()

    def exported(self) -> list[tuple[str, str, int]]:
        """Return the exported judgements, as our reader and trec_eval's read them."""
        path = self.folder / "qrels.txt"
        for made in (path, path.with_suffix(".csv")):
            write_qrels([f"out={self.folder / 'out'}"], str(made), Console(quiet=True))
        rows = read_qrels(path).rows()
        pytrec_eval = pytest.importorskip("pytrec_eval")
        with path.open(encoding="utf-8") as file:
            known = pytrec_eval.parse_qrel(file)
        assert known == {topic: {d: grade for t, d, grade in rows if t == topic} for topic, _, _ in rows}
        return [(str(topic), str(document), int(grade)) for topic, document, grade in rows]


@pytest.fixture
def campaign(tmp_path, monkeypatch) -> Campaign:
    made, documents = Campaign(tmp_path, monkeypatch), {f"D{n}": f"wind text {n}" for n in range(4)}
    made.write(documents, {"a": {"301": [*documents]}}, {"301": "wind"})
    return made


def test_every_id_is_judged_skipped_and_exported(campaign):
    campaign.write({each: f"wind {number}" for number, each in enumerate(IDS)}, {"a": {"301": IDS}}, {"301": "wind"})
    with campaign.page() as page:
        assert page.act("skip")["document"]["name"] == IDS[1]
        for number in range(len(IDS)):
            assert page.state["document"]["pieces"][0] == ["wind", True]
            page.act("judge", grade=number % 2, note="=1+1")
        assert page.state["document"] is None
    rows = campaign.exported()
    assert {row[:2] for row in rows} == {("301", document) for document in IDS}
    with (campaign.folder / "qrels.csv").open(newline="") as file:
        cells = [cell for row in list(csv.reader(file))[1:] for cell in row]
    assert not any(cell.startswith(("=", "+", "-", "@")) for cell in cells)


def test_a_grade_below_zero_is_given_and_read(campaign):
    with campaign.page("grades=[-2,0,1,2]") as page:
        for grade in (-2, 0, 1, 2):
            page.act("judge", grade=grade)
    assert campaign.exported() == [("301", f"D{n}", grade) for n, grade in enumerate((-2, 0, 1, 2))]


def test_documents_of_minus_one_are_asked_for(campaign):
    (campaign.folder / "old").write_text("301 0 D1 -1\n301 0 D2 1\n301 0 D2 0\n")
    asked = []
    with campaign.page(f"qrels={campaign.folder / 'old'}") as page:
        while page.state["document"] is not None:
            asked.append(page.state["document"]["name"])
            page.act("judge", grade=0)
    assert asked == ["D0", "D1", "D3"]
    assert "judgements of -1 (pooled, not judged), which are not taken over: 1" in campaign.printed
    assert campaign.exported() == [("301", "D0", 0), ("301", "D1", 0), ("301", "D2", 1), ("301", "D3", 0)]


def test_topics_without_a_run_or_a_text_are_named(campaign):
    runs = {"a": {"301": ["D0", "D1"], "302": ["D1"]}}
    campaign.write({"D0": "wind", "D1": "\u2028"}, runs, {"301": "wind"})
    (campaign.folder / "topics").write_text("301\twind\n303\twater\n304\tair\n301\tice\nbroken\n")
    (campaign.folder / "old").write_text("301 0 D1 1\n305 0 D1 1\n")
    given = [f"topics={campaign.folder / 'topics'}", f"qrels={campaign.folder / 'old'}"]
    with pytest.raises(BadInput, match=r"topics:4: duplicate id"), campaign.page(*given):
        pass
    with campaign.page(*given, "strict=false") as page:
        assert [topic["name"] for topic in page.state["topics"]] == ["301", "302"]
    assert "topics without a text: 1" in campaign.printed
    assert "topics that no run has: 2 (303, 304)" in campaign.printed
    assert "duplicate id: 1\nbroken line: 1" in campaign.printed
    assert f"judgements {OF_OTHER_TOPICS}, which are neither taken over nor exported: 1" in campaign.printed


def test_ids_with_blanks_are_refused_where_they_can_be_chosen(campaign):
    documents = {"two words": "zebra wind", "D0": "wind", "more": "zebra"}
    campaign.write(documents, {"a": {"301": ["D0"]}}, {"301": "wind"})
    with campaign.page() as page:
        assert {line["document"] for line in page.post("search", query="zebra")["found"]} == {"two words", "more"}
        for document, says in (("two words", "has a blank in it"), ("D9", "no such document")):
            assert says in page.post("take", topic="301", document=document)["message"]
        page.state = page.post("take", topic="301", document="more")
        page.act("judge", grade=1)
    assert campaign.exported() == [("301", "more", 1)]


def test_a_document_of_ten_megabytes_comes_in_parts(campaign):
    long = "wind <script>alert(1)</script> " * 330_000
    campaign.write({"D0": long, "D1": "x"}, {"a": {"301": ["D0", "D1"]}}, {"301": "wind"})
    with campaign.page() as page:
        assert len(page.read) < 1_000_000
        document = page.state["document"]
        assert document["more"] > 10_000_000
        part = page.post("rest", topic="301", document="D0", start=len(long) - 9)
        assert "".join(text for text, _ in part["pieces"]) == long[-9:]
        assert part["more"] == 0
        assert page.act("judge", grade=1)["document"]["name"] == "D1"


@pytest.mark.parametrize("escaped", [r"\ud800", r"\udc00 wind", r"\ud83d", r"\u0000", r"\ufeff"])
def test_texts_that_no_file_could_hold_are_cleaned_or_refused(campaign, escaped):
    corpus = campaign.folder / "corpus" / "corpus.jsonl"
    corpus.write_text(f'{{"_id": "D0", "title": "", "text": "wind {escaped} end"}}\n')
    refused = None
    try:
        with campaign.page() as page:
            shown = "".join(text for text, _ in page.state["document"]["pieces"])
            assert (shown.startswith("wind"), shown.endswith("end")) == (True, True)
            assert page.act("judge", grade=1, note="a \ud800 note").get("status") is None
    except BadInput as error:
        refused = str(error)
    assert "corpus.jsonl:1" in refused if refused else campaign.exported() == [("301", "D0", 1)]


def test_an_answer_does_not_grow_with_the_topics(campaign):
    names = [str(number) for number in range(600)]
    campaign.write({"D0": "wind"}, {"a": {name: ["D0"] for name in names}}, dict.fromkeys(names, "wind" * 9))
    with campaign.page("method=docid") as page:
        page.act("judge", grade=1)
        assert len(page.read) < 40_000
        assert page.state["topic_count"] == 600


def test_a_campaign_grows_and_keeps_all(campaign):
    with campaign.page("depth=2", "budget=20") as page:
        page.act("judge", grade=1, note="kept")
        page.act("skip")
    with pytest.raises(BadInput, match=r"the depth was 2, and may only rise"), campaign.page("depth=1", resume=True):
        pass
    campaign.write(
        {f"D{n}": f"wind text {n}" for n in range(6)}, {"b": {"301": ["D4", "D1"], "302": ["D5"]}},
        {"301": "wind", "302": "air"},
    )  # fmt: skip
    with campaign.page("depth=3", f"runs={campaign.folder / 'runs' / 'b'}", resume=True) as page:
        assert "continuing after 1 judgement" in campaign.printed
        assert [topic["name"] for topic in page.state["topics"]] == ["301", "302"]
        [kept] = page.post("judged")["judgements"]
        assert (kept["document"], kept["grade"], kept["note"]) == ("D0", 1, "kept")
        asked = []
        while page.state["topic"]["name"] == "301" and page.state["document"] is not None:
            asked.append(page.state["document"]["name"])
            page.act("judge", grade=0)
        assert asked == ["D1", "D4", "D2"]  # D1 was on the screen again
    assert campaign.exported() == [("301", f"D{n}", int(n == 0)) for n in (0, 1, 2, 4)]


@pytest.mark.parametrize("key", ["qrels", "gold"])
def test_judgements_of_a_topic_that_comes_later_are_taken_over_then(campaign, key):
    given = campaign.folder / "old"
    given.write_text("301 0 D3 1\n302 0 D5 1\n302 0 D3 0\n")
    with campaign.page(f"{key}={given}", "burn_in=0") as page:
        assert page.act("judge", grade=1)["total"]["limit"] == 3
    texts = {f"D{n}": f"wind text {n}" for n in range(6)}
    campaign.write(texts, {"b": {"301": ["D4"], "302": ["D5", "D1"]}}, {"301": "wind", "302": "air"})
    more = f"runs={campaign.folder / 'runs' / 'b'}"
    given.write_text(given.read_text().replace("D3 1", "D3 0"))
    with pytest.raises(BadInput, match=rf"other options \({key}\)"), campaign.page(more, resume=True):
        pass
    given.write_text(given.read_text().replace("301 0 D3 0", "301 0 D3 1"))
    with campaign.page(more, resume=True) as page:
        asked = []
        for topic in ("301", "302"):
            page.state = page.post("turn", topic=topic)
            while page.state["document"] is not None and page.state["topic"]["name"] == topic:
                asked.append((topic, page.state["document"]["name"]))
                page.act("judge", grade=0)
    assert asked == [("301", "D1"), ("301", "D4"), ("301", "D2"), ("302", "D1")]
    known = [("301", "D3", 1), ("302", "D3", 0), ("302", "D5", 1)] if key == "qrels" else []
    assert campaign.exported() == sorted([("301", "D0", 1), *((*place, 0) for place in asked), *known])


SAME = {"D0": "The wind", "D1": "other", "D2": "the  wind ", "D3": "", "D4": " ", "D5": "THE WIND", "D6": "last"}
"""Texts, of which three are the same and two have nothing to read in them."""


@pytest.fixture
def same(campaign) -> Campaign:
    campaign.write(SAME, {"a": {"301": ["D2", "D1", "D0", "D3", "D4", "D5"]}, "b": {"301": ["D5", "D6"]}}, {"301": "w"})
    return campaign


def test_documents_with_the_same_text_are_judged_once(same, console):
    with same.page("depth=6", "search=true") as page:
        shown = page.act("sign-in", name="ada")
        assert "which are judged with it: 2" in same.printed
        order = []
        while (document := shown["document"]) is not None:
            order.append((document["name"], document["fields"]))
            shown = page.act("judge", grade=int(document["name"] == "D0"))
        assert shown["total"] == {"judged": 5, "limit": 5}
    assert order[0] == ("D0", {"same text": "D2, D5"})
    assert sorted(name for name, _ in order) == ["D0", "D1", "D3", "D4", "D6"]
    assert same.exported() == [("301", name, int(name in ("D0", "D2", "D5"))) for name in SAME]
    first, *others = csv.DictReader((same.folder / "qrels.csv").read_text().splitlines())
    assert (first["document"], first["same_text"]) == ("D0", "D2 D5")
    assert {row["same_text"] for row in others} == {""}
    write_qrels([f"out={same.folder / 'out'}"], str(same.folder / "q"), console)
    assert "documents with the text of a judged one, which have its grade: 2" in console.file.getvalue()
    write_files(same.folder, {"made.csv": "topic,document,grade,assessor\n301,D5,0,ada\n301,D5,0,bo\n"})
    import_judgements([f"out={same.folder / 'out'}"], str(same.folder / "made.csv"), console)
    assert "judgements imported: 1" in console.file.getvalue()
    assert set(read(same.folder / "out").judgements.filter(assessor="bo")["document"]) == {"D0"}


def test_near_copies_have_the_same_grades_with_and_without_a_restart(campaign):
    words, ends = [f"word{n}" for n in range(100)], [f"end{n}" for n in range(5)]
    lists = {"first": [*words[:-5], *ends], "other": [*ends, *words[5:]], "between": words}
    ranked = {"301": ["other", "between", "first"]}
    campaign.write({name: " ".join(text) for name, text in lists.items()}, {"a": ranked}, {"301": "w"})
    for judged in ("other", "first"):
        with campaign.page("duplicates=near") as page:
            assert page.state["document"]["name"] == judged
            page.act("judge", grade=int(judged == "first"))
    assert campaign.exported() == [("301", "between", 1), ("301", "first", 1), ("301", "other", 0)]


def test_a_method_that_reads_texts_judges_each_text_once(same):
    with same.page("depth=6", "method=autotar") as page:
        shown = page.act("sign-in", name="ada")
        order = []
        while (document := shown["document"]) is not None:
            order.append(document["name"])
            shown = page.act("judge", grade=int(document["name"] == "D0"))
    assert sorted(order) == ["D0", "D1", "D3", "D4", "D6"]


def test_documents_with_the_same_text_are_kept_if_wanted_and_in_older_folders(same):
    with same.page("depth=6", "duplicates=keep") as page:
        assert page.act("sign-in", name="ada")["total"]["limit"] == 7
        assert "judged with it" not in same.printed
        page.act("judge", grade=1)
    remembered = same.folder / "out" / "overrides.json"
    saved = json.loads(remembered.read_text())
    saved["overrides"].remove("duplicates=keep")
    remembered.write_text(json.dumps(saved))
    with same.page("depth=6", "duplicates=keep") as page:
        assert page.act("sign-in", name="ada")["total"] == {"judged": 1, "limit": 7}
    with pytest.raises(BadInput, match=r"other options \(duplicates\)"), same.page("depth=6", "duplicates=merge"):
        pass


def test_a_document_that_was_judged_is_shown_for_those_that_come_later(same):
    same.write(SAME, {"a": {"301": ["D2", "D1"]}}, {"301": "w"})
    with same.page() as page:
        assert page.act("sign-in", name="ada")["document"]["name"] == "D2"
        page.act("judge", grade=1)
    same.write(SAME, {"a": {"301": ["D2", "D1"]}, "b": {"301": ["D0", "D5"]}}, {"301": "w"})
    with same.page(resume=True) as page:
        assert page.act("sign-in", name="ada")["total"] == {"judged": 1, "limit": 2}
    assert [row for row in same.exported() if row[2]] == [("301", name, 1) for name in ("D0", "D2", "D5")]
