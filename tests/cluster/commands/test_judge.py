"""`pyrite judge`: from its options to a page that is ready."""

import io
import json
import re
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from cluster.commands.judge import judge, listen, write_qrels
from cluster.output.manifest import write_config
from cluster.output.storage import Storage
from pooling.judging.access import links_of
from pooling.judging.store import Event, Store, read
from ranking.errors import BadInput


@pytest.fixture
def files(tmp_path) -> Path:
    """Runs, a collection that nothing was judged of yet, topics, and old judgements."""
    (tmp_path / "runs").mkdir()
    for run in "ab":
        lines = [f"{topic} Q0 d{rank} {rank} {9 - rank} {run}\n" for topic in (1, 2) for rank in range(5)]
        (tmp_path / "runs" / run).write_text("".join(lines))
    (tmp_path / "beir").mkdir()
    corpus = [{"_id": f"d{number}", "title": "T", "text": f"text {number}"} for number in range(1, 9)]
    (tmp_path / "beir" / "corpus.jsonl").write_text("".join(json.dumps(line) + "\n" for line in corpus))
    (tmp_path / "beir" / "queries.jsonl").write_text('{"_id": "1", "text": "moles"}\n{"_id": "2", "text": "bats"}\n')
    (tmp_path / "topics.tsv").write_text("1\tmoles and tunnels\n")
    (tmp_path / "qrels").write_text("1 0 d3 1\n1 0 elsewhere 0\n9 0 d3 1\n")
    return tmp_path


@pytest.fixture
def start(files, monkeypatch) -> Callable[..., str]:
    """Starts the command with a page that ends at once; returns what it said."""

    def begin(*overrides: str) -> str:
        console = Console(file=io.StringIO(), width=200)
        with monkeypatch.context() as patched:
            patched.setattr("cluster.commands.judge.run", lambda app, listening: listening.close())
            judge([f"out={files / 'out'}", "port=0", *overrides], console)
        return console.file.getvalue()

    return begin


def options(files: Path) -> list[str]:
    return [f"runs={files / 'runs'}", "collection=beir", f"collection.path={files / 'beir'}"]


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
    secret = (files / "out" / "secret").read_text().strip()
    tokens = [link.token for link in links_of(secret.encode(), None)]
    assert links == [("owner", tokens[0]), ("assessors", tokens[1])]
    assert "other machines" not in said
    assert read(files / "out").settings["method"].startswith("posterior_fusion ")


def test_the_second_time_the_folder_is_enough(start, files):
    first = start(*options(files), "method=mm", "grades=[0,1,2]", "seed=3")
    settings = judged(files)
    assert settings["grades"] == [0, 1, 2]
    assert settings["seed"] == 3
    assert settings["method"].startswith("mm ")
    second = start()
    assert "continuing after 1 judgement" in second
    assert re.findall(r"token=\S+", first) == re.findall(r"token=\S+", second)
    assert "reading the documents" in first
    assert "reading the documents" not in second
    remembered = json.loads((files / "out" / "overrides.json").read_text())["overrides"]
    assert not any(text.startswith(("out=", "port=")) for text in remembered)
    start("budget=3", "double=0.5", "title=Again")  # these may change
    for other in ("method=mtf", "seed=4", "grades=[0,1]", "depth=2", f"qrels={files / 'qrels'}"):
        with pytest.raises(BadInput, match="holds judgements made with other options"):
            start(other)


def test_other_machines_are_let_in_with_a_warning(start, files):
    assert "other machines can reach this page" in start(*options(files), "host=0.0.0.0")
    assert "other machines" not in start()  # and not again unless it is said again


def test_export(start, files):
    start(*options(files), f"qrels={files / 'qrels'}")
    judged(files)
    console = Console(file=io.StringIO(), width=200)
    write_qrels([f"out={files / 'out'}"], str(files / "made" / "qrels.txt"), console)
    assert (files / "made" / "qrels.txt").read_text().splitlines() == ["1 0 d1 1", "1 0 d3 1", "1 0 elsewhere 0"]
    assert "1 document judged, 2 known before" in console.file.getvalue()
    console = Console(file=io.StringIO(), width=200)
    write_qrels([f"out={files / 'out'}"], str(files / "made" / "all.csv"), console)
    lines = (files / "made" / "all.csv").read_text().splitlines()
    assert lines[0] == "topic,document,grade,assessor,time,note"
    assert lines[1].startswith("1,d1,1,ada,")
    assert "1 judgement: " in console.file.getvalue()
    for wrong in ("resolve=mean", "method=mm"):
        with pytest.raises(BadInput):
            write_qrels([f"out={files / 'out'}", wrong], str(files / "qrels.txt"), console)


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
        (["names=[a]"], "1 names for 2 grades"), (["assessors=[]"], "assessors"), (["bugdet=3"], "bugdet"),
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
    said = start(*options(files), f"owners={path}", "assessors=[ada,grace]")
    assert "link for ada" in said
    start("owners=first")
    for content, says in (
        ("1 ada\n", "owners.tsv:1: broken line"), ("1\tada\n1\tgrace\n", "owners.tsv:2: topic 1 is given twice"),
        ("9\tada\n", "no topic '9'"), ("1\tedsger\n", "edsger owns topic 1 and is not among"),
    ):  # fmt: skip
        path.write_text(content)
        with pytest.raises(BadInput, match=says):
            start(f"owners={path}")


def test_a_campaign_is_continued_from_another_folder(start, files, monkeypatch):
    monkeypatch.chdir(files)
    start("runs=[runs/a,runs/b]", "collection=beir", "collection.path=beir", "topics=topics.tsv")
    for folder, more in (("elsewhere", "budget=2"), ("runs", "topics=../topics.tsv")):
        (files / folder).mkdir(exist_ok=True)
        monkeypatch.chdir(files / folder)
        assert "2 topics, 10 documents of 2 runs" in start(more)
        assert "2 topics" in start()
