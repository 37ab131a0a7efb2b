"""Reading once, finding it again, and surviving other processes."""

import errno
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pytest
from omegaconf import DictConfig, OmegaConf

from pyrite.ranking.collections import build
from pyrite.ranking.collections.beir import Beir
from pyrite.ranking.collections.cache import open_collection
from pyrite.ranking.collections.faults import Faults
from pyrite.ranking.collections.pairs import Pairs
from pyrite.ranking.collections.reader import DOCUMENTS, frames
from pyrite.ranking.errors import BadInput

WriteBeir = Callable[..., Path]
ROOT = Path(__file__).resolve().parents[3]


@dataclass
class Counted(Beir):
    """A reader that tells how often it was asked."""

    def read_documents(self, faults: Faults) -> Iterator[pl.DataFrame]:
        asked.append("documents")
        return super().read_documents(faults)


@dataclass
class WithOptions(Counted):
    options: Mapping[str, object]


asked: list[str] = []


def test_the_same_files_are_read_once(write_beir, cache, monkeypatch):
    asked.clear()
    folder = write_beir()
    first = open_collection(Counted(folder), cache)
    monkeypatch.chdir(folder.parent)
    second = open_collection(Counted(folder.name), cache)  # the same folder by another name
    assert asked == ["documents"]
    assert second.fingerprint == first.fingerprint
    assert second.documents.equals(first.documents)
    assert second.queries.equals(first.queries)
    assert second.judgements.equals(first.judgements)


def test_changed_files_and_other_readers_are_read_again(write_beir, cache, monkeypatch):
    asked.clear()
    folder = write_beir()
    before = open_collection(Counted(folder), cache)
    with (folder / "corpus.jsonl").open("a") as file:
        file.write('{"_id": "d4", "text": "more"}\n')
    after = open_collection(Counted(folder), cache)
    assert (len(before.documents), len(after.documents)) == (3, 4)
    assert before.fingerprint != after.fingerprint
    os.utime(folder / "corpus.jsonl", ns=(1, 1))
    assert open_collection(Counted(folder), cache).fingerprint == after.fingerprint
    monkeypatch.setattr(Counted, "version", 99)
    open_collection(Counted(folder), cache)
    assert len(asked) == 4


def test_the_fingerprint_is_of_the_content(write_beir, cache, tmp_path):
    here = open_collection(Beir(write_beir()), cache)
    elsewhere = open_collection(Beir(write_beir(where=tmp_path / "elsewhere", packed=True)), cache)
    assert here.fingerprint == elsewhere.fingerprint
    assert len(here.fingerprint) == 16
    other_grade = {"train": [("q1", "d1", 2), ("q1", "d2", 0)]}
    assert open_collection(Beir(write_beir(qrels=other_grade)), cache).fingerprint != here.fingerprint


def test_what_was_skipped_is_not_taken_for_whole(write_beir, cache):
    folder = write_beir()
    with (folder / "corpus.jsonl").open("a") as file:
        file.write("nonsense\n")
    assert open_collection(Beir(folder), cache, strict=False).skipped == {"broken line": 1}
    assert open_collection(Beir(folder), cache, strict=False).skipped == {"broken line": 1}
    with pytest.raises(BadInput, match="broken line"):
        open_collection(Beir(folder), cache)


@pytest.mark.by_day(2)
@pytest.mark.parametrize("part", ["documents.arrow", "queries.arrow", "judgements.arrow", "collection.json"])
@pytest.mark.parametrize("damage", ["missing", "cut", "empty"])
def test_a_damaged_entry_is_made_again(write_beir, cache, part, damage):
    folder = write_beir()
    whole = open_collection(Beir(folder), cache)
    (entry,) = cache.iterdir()
    content = (entry / part).read_bytes()
    (entry / part).unlink()
    if damage != "missing":
        (entry / part).write_bytes(content[: len(content) // 2] if damage == "cut" else b"")
    again = open_collection(Beir(folder), cache)
    assert again.fingerprint == whole.fingerprint
    assert again.documents.equals(whole.documents)
    assert list(cache.iterdir()) == [entry]


def test_unfinished_folders_are_swept_a_day_later(write_beir, cache):
    old, young = cache / ".unfinished-old", cache / ".unfinished-young"
    for folder in (old, young):
        folder.mkdir(parents=True)
    os.utime(old, (time.time() - 90_000,) * 2)
    open_collection(Beir(write_beir()), cache)
    assert (old.exists(), young.exists()) == (False, True)


def test_a_cache_that_cannot_be_written(write_beir, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match="cannot be written"):
        open_collection(Beir(write_beir()), tmp_path / "file" / "cache")


@pytest.mark.parametrize(
    ("error", "raised", "says"),
    [
        (OSError(errno.ENOSPC, "no room"), BadInput, "the disk is full"),
        (OSError(errno.EFBIG, "no room"), BadInput, "a file is larger"),
        (KeyboardInterrupt(), KeyboardInterrupt, None),
    ],
)
def test_without_room_or_after_a_crash_nothing_is_left(write_beir, cache, monkeypatch, error, raised, says):
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(build, "_fingerprint", fail)
    with pytest.raises(raised, match=says):
        open_collection(Beir(write_beir()), cache)
    assert list(cache.iterdir()) == []


READ_AND_TELL = """
import sys
from pyrite.ranking.collections.beir import Beir
from pyrite.ranking.collections.cache import open_collection
print("ready", flush=True)
sys.stdin.readline()
collection = open_collection(Beir(sys.argv[1]), sys.argv[2])
print(collection.fingerprint, collection.documents["text"].str.join(" ").item() == sys.argv[3])
"""


def test_processes_that_read_at_once_do_not_harm_each_other(write_beir, cache):
    many = [{"_id": f"d{i}", "text": f"text{i}"} for i in range(5_000)]
    folder = write_beir(corpus=many)
    command = [sys.executable, "-c", READ_AND_TELL, folder, cache, " ".join(str(entry["text"]) for entry in many)]
    processes = [
        subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    (entry,) = {process.communicate(timeout=60)[0] for process in processes}
    fingerprint, same = entry.split()
    assert same == "True"
    (folder,) = cache.iterdir()
    assert json.loads((folder / "collection.json").read_text())["fingerprint"] == fingerprint


def test_duplicates_are_found_across_chunks(write_beir, cache, monkeypatch):
    def small_frames(rows: Iterator[tuple[object, ...]], schema: object = DOCUMENTS) -> Iterator[pl.DataFrame]:
        return frames(rows, DOCUMENTS, most_rows=3)

    monkeypatch.setattr("pyrite.ranking.collections.beir.frames", small_frames)
    ids = ["d1", "d2", "d3", "a", "b", "d1", "c", "b", "b"]
    folder = write_beir(corpus=[{"_id": i, "text": f"text {n}"} for n, i in enumerate(ids)])
    with pytest.raises(BadInput, match=r"corpus\.jsonl:6: duplicate id: another document is called 'd1'"):
        open_collection(Beir(folder), cache)
    collection = open_collection(Beir(folder), cache, strict=False)
    assert collection.skipped == {"duplicate id": 3}
    assert collection.documents["text"].to_list() == ["text 0", "text 1", "text 2", "text 3", "text 4", "text 6"]


def test_frames_are_bounded_by_rows_and_by_text():
    rows = [(str(i), "x" * 10, None, None, "f", i) for i in range(10)]
    assert [len(frame) for frame in frames(iter(rows), most_rows=4)] == [4, 4, 2]
    assert [len(frame) for frame in frames(iter(rows), most_characters=25)] == [3, 3, 3, 1]
    assert list(frames(iter([]))) == []


def test_options_may_come_from_hydra(write_beir, cache):
    asked.clear()
    folder = str(write_beir())
    listed = {"split": ["a", {"b": 1}]}
    open_collection(WithOptions(folder, listed), cache)
    configured = WithOptions(folder, OmegaConf.create(listed))  # as hydra.utils.instantiate passes them
    assert isinstance(configured.options, DictConfig)
    open_collection(configured, cache)
    assert asked == ["documents"]
    open_collection(WithOptions(folder, {"split": ["b"]}), cache)
    assert asked == ["documents", "documents"]


def test_links_that_are_swapped_are_read_again(cache, tmp_path):
    folder = tmp_path / "linked"
    folder.mkdir()
    for name in ("one", "two"):
        rows = [{"query": f"{name} question {n}", "positive": f"{name} answer {n}"} for n in range(4)]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for train, test in (("one", "two"), ("two", "one"), ("one", "one")):
        for split, name in (("train", train), ("test", test)):
            (folder / f"{split}.jsonl").unlink(missing_ok=True)
            (folder / f"{split}.jsonl").symlink_to(tmp_path / f"{name}.jsonl")
        if train != test:
            tested = open_collection(Pairs(folder), cache).queries.filter(split="test")
            assert tested["text"].to_list() == [f"{test} question {n}" for n in range(4)]
    assert len(Pairs(folder).sources()) == 2  # two links to one file are two sources
