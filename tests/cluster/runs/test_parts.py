"""Parts of runs, also of a collection in pieces, and those that Ray tasks make."""

import json
import os
import signal
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import ray

from pyrite.cluster.config.compose import compose
from pyrite.cluster.executors.object_store import bytes_of
from pyrite.cluster.output.lock import file_lock
from pyrite.cluster.runs import remote_artifacts, shared_parts
from pyrite.cluster.runs.artifacts import Artifacts
from pyrite.cluster.runs.remote_artifacts import RemoteArtifacts
from pyrite.cluster.runs.shared_part import SHARED, declared
from pyrite.ranking.collections import cache as collections_cache
from pyrite.ranking.collections import pieces
from pyrite.ranking.collections.reader import Reader
from pyrite.ranking.errors import BadInput
from pyrite.ranking.pieced_array import PiecedArray
from tests.made_up import seventh_of, write_beir


def content(value: Any) -> Any:
    """Return all that a part says, arrays by their bytes."""
    if isinstance(value, np.ndarray | PiecedArray):
        value = np.asarray(value)
        return value.dtype.str, value.shape, value.tobytes()
    if hasattr(value, "__dataclass_fields__"):
        return {name: content(getattr(value, name)) for name in value.__dataclass_fields__}
    if isinstance(value, Mapping):
        return {name: content(each) for name, each in value.items()}
    return [content(each) for each in value] if isinstance(value, list) else value


@pytest.mark.parametrize("several", [False, True])
def test_parts_are_made_once_and_are_the_same_in_pieces(several, tmp_path, monkeypatch):
    monkeypatch.setattr("pyrite.cluster.executors.pieces.connected", lambda: False)  # a test run's Ray has another home
    monkeypatch.setattr("pyrite.cluster.executors.pieces.LEAST_PIECES", 100)
    folder = write_beir(tmp_path / "made_up", documents=200)
    size = seventh_of(folder)

    def config(cache: Path | str) -> dict[str, Any]:
        return compose([
            "collection=beir", f"collection.path={folder}", "vectors=random", "encoding.min_count=1", "scale=full",
            "function=[bm25,random]", "policy=random", "origin=[bm25,random]", f"cache={cache}",
        ])  # fmt: skip

    plain, other = config(tmp_path / "plain"), config(tmp_path / "other")
    keys, expected = Artifacts().keys(plain), Artifacts().parts(plain)
    assert {"base", "origin:bm25", "function:bm25", "validation"} <= expected.keys()
    if several:
        monkeypatch.setattr(pieces, "PIECE", size)
    told = list[str]()
    made = Artifacts(told.append)
    first = made.parts(other)
    assert "encoding texts" in told
    assert made.keys(other) == keys  # results in one piece are results in seven
    assert len(made.collection(other).pieces) == (7 if several else 0)
    sizes, told = made.bytes_of(other), list[str]()
    used = Artifacts(told.append)
    assert used.bytes_of(other) == sizes
    second = used.parts(other)
    assert told == ["reading beir"]  # and nothing is made
    assert first.keys() == second.keys() == expected.keys()
    for name, part in expected.items():
        assert content(part) == content(first[name]) == content(second[name]), name
    documents = second["base"].encoded.documents
    assert isinstance(documents.tokens, PiecedArray) == several
    assert (bytes_of(documents) < 3000 < bytes_of(expected["base"].encoded.documents)) == several
    assert not list(tmp_path.rglob("*.part"))
    # A part that is cut short is made again.
    (part_file,) = (tmp_path / "other" / "parts").glob(f"{used.keys(other)['validation']}.*")
    whole = part_file.read_bytes()
    part_file.write_bytes(whole[:-7])
    told = list[str]()
    assert content(Artifacts(told.append).part(other, "validation")) == content(expected["validation"])
    assert "ranking for validation" in told
    assert part_file.stat().st_size == len(whole)


BOTH = ["function=[bm25,random]", "seed=0"]


def files(cache: Path) -> dict[str, tuple[Any, bytes]]:
    """Header (whose entries safetensors writes in any order) and bytes of each part."""
    found = {}
    for file in (cache / "parts").iterdir():
        content = file.read_bytes()
        end = 8 + int.from_bytes(content[:8], "little")
        found[file.name] = (json.loads(content[8:end]), content[end:])
    return found


def made_here(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Have the parts that this process makes listed."""
    made, make = list[str](), Artifacts._make

    def counted(self: Artifacts, config: dict[str, Any], name: str) -> Any:
        made.append(name)
        return make(self, config, name)

    monkeypatch.setattr(Artifacts, "_make", counted)
    return made


def test_tasks_make_the_same_files_and_say_the_same(ray_session, base, beir_folder, tmp_path, monkeypatch):
    made: dict[str, tuple[Any, ...]] = {}
    for kind in (Artifacts, RemoteArtifacts):
        cache, notes = tmp_path / kind.__name__, list[str]()
        overrides = [*base, *BOTH, f"cache={cache}", f"evaluate=[{beir_folder}]", "teacher=bm25"]
        configs = [compose([*overrides, f"limits.train={limit}"]) for limit in (4, 8)]
        artifacts = kind(notes.append)
        with monkeypatch.context() as patch:
            if kind is RemoteArtifacts:
                patch.setattr(Artifacts, "_make", lambda *_: pytest.fail("made in this process"))
            artifacts.make(configs)
            sizes = [artifacts.bytes_of(config) for config in configs]
        made[kind.__name__] = ([artifacts.keys(config) for config in configs], sizes, files(cache), set(notes))
        assert len(files(cache)) == sum(len({*one} - {*other}) for one, other in ((sizes[0], {}), (sizes[1], sizes[0])))
    assert made["Artifacts"] == made["RemoteArtifacts"]
    assert "encoding texts" in made["RemoteArtifacts"][3]


def test_trials_get_parts_that_this_process_never_opens(ray_session, base, tmp_path, monkeypatch):
    config = compose([*base, *BOTH, f"cache={tmp_path}"])
    expected = Artifacts().parts(config)
    artifacts = RemoteArtifacts()
    keys, tasks, open_all = artifacts.keys(config), tmp_path / "tasks", remote_artifacts._open

    def noted(places: Any) -> Any:
        tasks.write_text(tasks.read_text() + "." if tasks.exists() else ".")
        yield from open_all(places)

    with monkeypatch.context() as patch:
        patch.setattr(Artifacts, "part", lambda *_: pytest.fail("opened in this process"))
        patch.setattr(remote_artifacts, "_open", noted)
        shared = artifacts.share([config])
    assert len(keys) > 1
    assert tasks.read_text() == "."  # one task on one machine
    assert sorted(shared) == sorted(keys.values())
    got = ray.get(shared[keys["base"]]).encoded.documents.tokens
    np.testing.assert_array_equal(got, expected["base"].encoded.documents.tokens)
    (tmp_path / "parts" / f"{keys['base']}.safetensors").write_bytes(b"cut")  # such a one is made again
    again = ray.get(RemoteArtifacts().share([config])[keys["base"]])
    np.testing.assert_array_equal(again.encoded.documents.tokens, got)


@pytest.mark.nightly
def test_keys_are_told_and_options_checked_by_a_task_once_for_all_seeds(ray_session, base, tmp_path, monkeypatch):
    config, here = compose([*base, *BOTH, f"cache={tmp_path}"]), Artifacts()
    expected = (here.keys(config), here.provenance(config))
    wrong = compose([*base, "function=random", "selector=window", "selector.last=far", f"cache={tmp_path}"])
    artifacts = RemoteArtifacts()
    with pytest.raises(BadInput, match="selector"):
        artifacts.check([config, wrong])
    for name in ("part_keys.keys_of", "part_keys.provenance", "artifacts.check_run"):
        monkeypatch.setattr(f"pyrite.cluster.runs.{name}", lambda *_: pytest.fail("done in this process"))
    artifacts.check([config])
    assert (artifacts.keys(config), artifacts.provenance(config)) == expected
    unlearned = compose([*base, *BOTH, "policy=learned", f"policy.checkpoint={tmp_path / 'none'}", f"cache={tmp_path}"])
    monkeypatch.setattr(RemoteArtifacts, "_ask", lambda *_: pytest.fail("asked again"))
    assert artifacts.keys(config | {"seed": 5}) == expected[0]
    monkeypatch.undo()
    assert artifacts.provenance(unlearned) == {}
    with pytest.raises(BadInput, match=r"there is no agent\.safetensors"):
        artifacts.keys(unlearned)


def test_what_another_command_makes_is_waited_for(ray_session, base, tmp_path, monkeypatch):
    made, notes = made_here(monkeypatch), list[str]()
    config = compose([*base, "function=random", "seed=0", f"cache={tmp_path}"])
    artifacts = RemoteArtifacts(notes.append)
    place = tmp_path / "parts" / f"{artifacts.keys(config)['base']}.safetensors"
    with file_lock(place):
        waiting = threading.Thread(target=artifacts.make, args=([config],))
        waiting.start()
        while "another command is encoding texts" not in notes:
            assert waiting.is_alive()
            time.sleep(0.05)
        assert not place.exists()
    waiting.join()
    assert place.exists()
    assert not list(tmp_path.rglob("*.lock"))
    assert made == []


def test_machines_that_do_not_share_the_cache_leave_it_to_this_process(ray_session, base, tmp_path, monkeypatch):
    config, made = compose([*base, "function=random", "seed=0", f"cache={tmp_path}"]), made_here(monkeypatch)
    monkeypatch.setattr(RemoteArtifacts, "_sees", lambda *_: False)
    artifacts = RemoteArtifacts()
    artifacts.make([config])
    artifacts.bytes_of(config)
    assert "base" in made


def test_an_interrupt_ends_the_tasks(ray_session, base, tmp_path, monkeypatch):
    config = compose([*base, "function=random", "seed=0", f"cache={tmp_path}"])
    began = tmp_path / "began"

    def endless(config: dict[str, Any], name: str | None) -> list[str] | None:
        began.write_text(str(os.getpid()))
        time.sleep(600)
        return []

    def interrupt() -> None:
        while not (began.exists() and began.read_text()):
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(remote_artifacts, "_make", endless)
    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        RemoteArtifacts().make([config])
    deadline, maker = time.monotonic() + 60, int(began.read_text())
    while psutil.pid_exists(maker):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_what_a_part_needs_follows_from_the_parameters_of_its_function():
    config = {"function": {"bm25": {}, "tfidf": {}}, "ranker": {}}

    def needed(full_name: str, config: dict[str, Any] = config) -> list[str]:
        part, name = declared(full_name)
        return part.needs(config, name)

    assert needed("base") == needed("tokens") == []
    assert needed("similarity:bm25") == ["function:bm25", "base"]
    assert needed("teacher") == ["base", "function:bm25", "function:tfidf"]
    assert needed("candidates", {"function": {"tfidf": {}}}) == ["function:tfidf", "base"]
    assert needed("origin:bm25") == needed("validation") == ["base"]
    assert needed("evaluate:other") == ["base"]
    assert needed("evaluate:other", config | {"ranker": {"categories": True}}) == ["base", "labels"]


def test_each_kind_is_declared_once_with_a_message_and_a_class():
    assert list(SHARED) == [kind for kind, part in SHARED.items() if getattr(shared_parts, kind) is part.make]
    assert {SHARED[kind].message.format(name="bm25") for kind in ("origin", "function")} == {"ranking: bm25"}
    assert SHARED["base"].result.__name__ == "Base"


def test_a_key_follows_from_the_options_and_the_parts_that_are_needed(base, tmp_path):
    config = compose([*base, "function=bm25", "teacher=bm25", f"cache={tmp_path}"])
    keys = Artifacts().keys(config)
    deeper = Artifacts().keys(
        compose([*base, "function=bm25", "function.bm25.depth=7", "teacher=bm25", f"cache={tmp_path}"])
    )
    assert {name for name in keys if keys[name] != deeper[name]} == {"function:bm25", "teacher"}
    fewer = Artifacts().keys(compose([*base, "function=bm25", "limits.train=4", "teacher=bm25", f"cache={tmp_path}"]))
    assert {name for name in keys if keys[name] == fewer[name]} == set()  # all are made from the texts
    assert Artifacts().keys(config | {"seed": 9}) == keys


def test_those_who_ask_at_once_make_a_collection_and_its_parts_once(base, tmp_path, monkeypatch):
    config, made = compose([*base, "seed=0", "function=bm25", f"cache={tmp_path}"]), made_here(monkeypatch)
    read, build = list[str](), collections_cache.build

    def read_counted(reader: Reader, *rest: Any) -> None:
        read.append(reader.name)
        build(reader, *rest)

    monkeypatch.setattr(collections_cache, "build", read_counted)
    with ThreadPoolExecutor(3) as threads:
        found = list(threads.map(lambda number: Artifacts().parts(config), range(3)))
    assert read == ["made_up"]
    assert sorted(made) == sorted(found[0])
    assert not list(tmp_path.rglob("*.lock"))
