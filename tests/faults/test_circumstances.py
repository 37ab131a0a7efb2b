"""Full disks, folders that are not free, damaged files, clocks that jump, too little memory: one line, nothing lost."""

import json
import os
import pickle
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from pyrite.cluster.executors.object_store import bytes_of, check_store, largest_and_all, wanted_store
from pyrite.cluster.output.lock import output_lock
from pyrite.cluster.output.manifest import CONFIG, read_config, write_config
from pyrite.cluster.output.result_store import ResultStore
from pyrite.cluster.output.storage import Storage, Unwritable, new_place
from pyrite.cluster.pools.trial import trial_store
from pyrite.cluster.rollouts import checkpoints
from pyrite.ranking.checkpoint import from_bytes, to_bytes
from pyrite.ranking.collections import cache
from pyrite.ranking.errors import BadInput
from tests.cluster.command_line import command, summary_of
from tests.cluster.conftest import write_runs

VERBS = ("study", "learn", "pool", "train")
KINDS: dict[str, dict[str, Any]] = {
    "study": {"study": {}, "overrides": []},
    "learn": {"learn": [], "facts": {}},
    "pool": {"pools": {}, "overrides": []},
    "train": {"run": "another", "overrides": []},
}
ONE_METHOD = ["policy=fixed", "function=bm25", "selector=uniform,top", "seeds=2"]


def one_line(capsys: pytest.CaptureFixture[str]) -> str:
    """What a refused command has said."""
    error = capsys.readouterr().err.strip()
    assert error.startswith("pyrite: ")
    assert len(error.splitlines()) == 1
    return error


def damages(content: bytes) -> dict[str, bytes]:
    """What a power cut or a bad disk makes of a file."""
    middle = len(content) // 2
    flipped = content[:middle] + bytes([content[middle] ^ 0x10]) + content[middle + 1 :]
    return {"nothing": b"", "half": content[:middle], "all but a byte": content[:-1], "another byte": flipped}


def damage(files: list[Path]) -> None:
    """Each of the files in one of the ways, in turn."""
    for number, file in enumerate(sorted(files)):
        file.write_bytes(list(damages(file.read_bytes()).values())[number % 4])


@pytest.fixture
def disk(kills: int, tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """Gives a disk of its own a size, as `60k`."""
    place = tmp_path / "disk"
    place.mkdir()

    def resize(size: str) -> Path:
        mounted = ["-o", f"remount,size={size}"] if os.path.ismount(place) else ["-t", "tmpfs", "-o", f"size={size}"]
        target = [str(place)] if os.path.ismount(place) else ["tmpfs", str(place)]
        if subprocess.run(["mount", *mounted, *target], capture_output=True).returncode:
            pytest.skip("needs leave to mount a small disk")
        return place

    if shutil.which("mount") is None:
        pytest.skip("needs `mount`")
    yield resize
    if os.path.ismount(place):
        subprocess.run(["umount", "--lazy", str(place)], check=True)


@pytest.fixture(scope="module")
def undisturbed(kills: int, base: list[str], ray_session: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small study that nothing has happened to."""
    out = tmp_path_factory.mktemp("undisturbed") / "study"
    assert command("study", *base, *ONE_METHOD, f"out={out}") == 0
    return out


# A full disk


def test_a_file_for_which_there_is_no_room_leaves_nothing_behind(disk):
    storage = Storage(str(disk("64k") / "out"))
    storage.write("kept", b"before")
    with pytest.raises(
        Unwritable, match=r"out/kept: the disk is full; make room and continue with --resume"
    ) as refused:
        storage.write("kept", bytes(100_000))
    assert storage.read("kept") == b"before"
    assert [file.name for file in (disk("64k") / "out").iterdir()] == ["kept"]
    assert isinstance(pickle.loads(pickle.dumps(refused.value)), Unwritable)
    disk("1m")
    storage.write("kept", bytes(100_000))


def test_a_study_on_a_full_disk_ends_in_one_line_and_goes_on(disk, base, undisturbed, capsys):
    out = disk("100k") / "study"
    assert command("study", *base, *ONE_METHOD, "retries=3", "concurrent=1", f"out={out}") == 2
    said = capsys.readouterr()
    assert [line for line in said.err.splitlines() if "pyrite:" in line] == [said.err.strip().splitlines()[-1]]
    assert "the disk is full" in said.err
    assert "tried again" not in said.out
    assert not list(out.rglob("*.part"))
    disk("50m")
    assert command("study", "--resume", str(out)) == 0
    assert summary_of(out) == summary_of(undisturbed)


@pytest.mark.parametrize("size", ["4k", "64k"])
def test_a_full_disk_of_the_cache(disk, base, tmp_path, size, capsys):
    place = disk(size)
    assert command("train", *base, f"cache={place}", f"out={tmp_path / 'out'}") == 2
    assert "the disk is full" in one_line(capsys)
    assert not list(place.rglob("*.part"))
    assert not list(place.glob("collections/.unfinished*"))
    disk("50m")
    assert command("train", *base, f"cache={place}", f"out={tmp_path / 'out'}") == 0


# Outputs that can't be written, or are not free


@pytest.mark.by_day(2)
@pytest.mark.parametrize("verb", VERBS)
def test_an_output_that_cannot_be_written_is_refused_first(verb, base, tmp_path, capsys, monkeypatch):
    for computes in ("pyrite.cluster.runs.collections.open_collection", "pyrite.cluster.commands.pool.open_pools"):
        monkeypatch.setattr(computes, lambda *given: pytest.fail("something was computed before"))
    given = [f"runs={write_runs(tmp_path / 'of') / 'runs'}", "method=rank"] if verb == "pool" else base
    for place in (f"{__file__}/out", "/proc/out"):
        assert command(verb, *given, f"out={place}") == 2
        assert place in one_line(capsys)


@pytest.mark.by_day(2)
@pytest.mark.parametrize("verb", VERBS)
def test_the_folder_of_another_verb_is_left_alone(verb, base, tmp_path, capsys):
    given = [f"runs={write_runs(tmp_path / 'of') / 'runs'}", "method=rank"] if verb == "pool" else base
    for other, config in KINDS.items():
        storage = Storage(str(tmp_path / other))
        write_config(storage, config)
        assert command(verb, *given, f"out={storage}") == 2
        said = one_line(capsys)
        assert "holds" in said
        assert ("another run" if verb == other == "train" else f"pyrite {other}") in said
        if other not in (verb, "train") and verb != "train":
            assert command(verb, "--resume", str(storage)) == 2
            assert f"pyrite {other}" in one_line(capsys)
        assert [file.name for file in (tmp_path / other).iterdir()] == [CONFIG]


def test_two_commands_do_not_write_to_one_folder(tmp_path):
    storage = Storage(str(tmp_path / "out"))
    with output_lock(storage):
        with (
            pytest.raises(BadInput, match=rf"process {os.getpid()} on .* writes to it; wait for it"),
            output_lock(storage),
        ):
            pass
        storage.write("x", b"1")
    with output_lock(storage):
        pass
    assert [file.name for file in (tmp_path / "out").iterdir()] == ["x"]
    with output_lock(Storage(str(tmp_path / "nothing came of it"))):
        pass
    assert not (tmp_path / "nothing came of it").exists()


# Damaged files


def test_a_damaged_configuration_is_never_taken_for_another(tmp_path):
    storage, content = Storage(str(tmp_path)), {"study": {"seeds": 20}, "overrides": ["selector=top,uniform"]}
    write_config(storage, content)
    whole = storage.read(CONFIG) or b""
    assert read_config(storage) == content
    broken = [whole[:length] for length in range(0, len(whole) - 1, 3)]
    broken += [whole[:place] + bytes([whole[place] ^ 0x01]) + whole[place + 1 :] for place in range(0, len(whole), 3)]
    for each in broken:
        storage.write(CONFIG, each)
        with suppress(BadInput):
            assert read_config(storage) == content, each
    storage.write(CONFIG, whole[:-30])
    with pytest.raises(BadInput, match="give the first command again"):
        read_config(storage)
    storage.write(CONFIG, b"study: {seeds: 3}\n")  # of an older Pyrite
    assert read_config(storage) == {"study": {"seeds": 3}}


def test_no_byte_of_a_state_changes_unseen():
    state = {"weights": torch.randn(3, 4).T, "losses": [0.5, 0.25], "order": np.arange(5), "empty": np.zeros(0)}
    data, told = to_bytes(state), repr(from_bytes(to_bytes(state)))
    refused, places = 0, range(0, len(data), 3)
    for place in places:
        try:
            found = from_bytes(data[:place] + bytes([data[place] ^ 0x20]) + data[place + 1 :])
            assert repr(found) == told  # of the name of the digest, or of a blank
        except BadInput:
            refused += 1
    assert refused > 0.9 * len(places)


def test_a_learning_goes_on_from_the_state_before_a_damaged_one(tmp_path):
    storage, said = ResultStore(Storage(str(tmp_path)), "trainings"), []
    assert checkpoints.load(storage) is None
    for episode in (1, 2):
        checkpoints.save(storage, {"episode": episode})
    assert checkpoints.load(storage) == {"episode": 2}
    damage([tmp_path / checkpoints.STATE])
    assert checkpoints.load(storage, said.append) == {"episode": 1}
    checkpoints.save(storage, {"episode": 3})  # not over the good one's head
    assert checkpoints.load(storage) == {"episode": 3}
    damage([tmp_path / checkpoints.STATE, tmp_path / checkpoints.BEFORE])
    assert checkpoints.load(storage, said.append) is None
    assert [line.rpartition("; ")[2] for line in said] == [
        "continuing from the state before it", "continuing from the state before it", "continuing from the beginning"
    ]  # fmt: skip
    assert len(list(tmp_path.glob("*.damaged"))) == 2


def test_a_learning_starts_again_if_its_state_is_of_other_code(tmp_path):
    storage, lines = Storage(str(tmp_path)), list[str]()
    old = ResultStore(storage, "trainings", {"code of rl": "old"})
    checkpoints.save(old, {"episode": 1})
    assert checkpoints.load(old, lines.append) == {"episode": 1}
    new = ResultStore(storage, "trainings", {"code of rl": "new"})
    assert checkpoints.load(new, lines.append) is None
    assert [line.partition(" was ")[2] for line in lines] == ["built from another code of rl; learning starts again"]


def test_damaged_results_of_a_study_are_made_again(undisturbed, tmp_path):
    out = tmp_path / "study"
    shutil.copytree(undisturbed, out)
    damage(list(out.glob("runs/*")))
    for file in out.glob("*.parquet"):
        file.write_bytes(b"")
    (out / "summary.csv").unlink()
    damage(list(Path(os.environ["PYRITE_CACHE"]).glob("parts/*")))
    assert command("study", "--resume", str(out)) == 0
    assert summary_of(out) == summary_of(undisturbed)


def test_damaged_results_of_a_pool_are_made_again(ray_session, kills, tmp_path, capsys):
    place, out = write_runs(tmp_path / "of"), tmp_path / "out"
    given = [
        f"runs={place / 'runs'}",
        f"qrels={place / 'qrels.txt'}",
        "method=rank,docid",
        "seeds=1",
        "ranking_quality=false",
    ]
    assert command("pool", *given, f"out={out}") == 0
    before = (out / "summary.csv").read_bytes()
    trials: list[Any] = [
        SimpleNamespace(name=file.stem, made_of=json.loads(file.read_bytes())["made_of"])
        for file in (out / "runs").glob("*.json")
    ]
    store = trial_store(Storage(str(out)), trials)
    assert len(store.finished(trials)[0]) == 2
    for file in (out / "runs").iterdir():
        whole = file.read_bytes()
        for way, content in damages(whole).items():
            if file.suffix != ".json" or way != "another byte":  # of a duration: no result depends on it
                file.write_bytes(content)
                assert len(store.finished(trials)[0]) == 1, (file, way)
        file.write_bytes(whole)
    damage([file for file in (out / "runs").iterdir() if file.suffix == ".parquet"])
    capsys.readouterr()
    assert command("pool", "--resume", str(out)) == 0
    assert "(0 of 2 done)" in capsys.readouterr().out
    assert (out / "summary.csv").read_bytes() == before


# Clocks


class Jumping:
    """`time.time` of a machine whose clock is set forward and back by days."""

    def __init__(self) -> None:
        self.calls, self.true = 0, time.time

    def __call__(self) -> float:
        self.calls += 1
        return self.true() + 86_400 * 3 * (1, -1, 5, 0)[self.calls % 4]


def test_a_clock_that_jumps_changes_nothing(undisturbed, tmp_path, monkeypatch):
    clock, out = Jumping(), tmp_path / "study"
    shutil.copytree(undisturbed, out)
    for file in ("summary.csv", f"runs/{min(os.listdir(out / 'runs'))}"):
        (out / file).unlink()
    monkeypatch.setattr(time, "time", clock)
    assert command("study", "--resume", str(out)) == 0
    assert clock.calls > 10
    assert summary_of(out) == summary_of(undisturbed)


def test_names_of_the_time_do_not_collide(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(time, "strftime", lambda form: "20261122-120000")
    for expected in ("", "-2", "-3"):
        place = new_place("study")
        assert place == f"outputs/study-20261122-120000{expected}"
        Path(place).mkdir(parents=True)


def test_what_another_process_fills_is_not_swept_away(tmp_path):
    filled, left = tmp_path / f"{cache._UNFINISHED}a", tmp_path / f"{cache._UNFINISHED}b"
    for folder in (filled, left):
        folder.mkdir()
        os.utime(folder, (0, 0))  # or the clock has jumped
    with cache._held(filled):
        cache._sweep(tmp_path)
    assert filled.exists()
    assert not left.exists()
    cache._sweep(tmp_path)
    assert not filled.exists()


# Memory


@pytest.mark.nightly
def test_a_collection_that_does_not_fit_is_refused_at_once(base, ray_session, tmp_path, capsys, monkeypatch):
    import ray

    room = int(ray.cluster_resources()["object_store_memory"])
    said: list[str] = []
    check_store(room // 2, room, said.append)
    assert not said
    check_store(room // 2, 2 * room, said.append)
    assert "the rest goes to disk" in said[0]
    with pytest.raises(BadInput, match=r"the parts of a run take .* store has .* --object-store-memory"):
        check_store(room + 1, room + 1, said.append)
    place = write_runs(tmp_path / "of")
    of_pool = [f"runs={place / 'runs'}", f"qrels={place / 'qrels.txt'}", "method=rank"]
    monkeypatch.setattr("pyrite.cluster.runs.artifacts.Artifacts.bytes_of", lambda *given: {"base": room, "lists": 1})
    monkeypatch.setattr("pyrite.cluster.commands.pool.bytes_of", lambda pool: room + 1)
    for verb, given in (("study", base), ("learn", base), ("train", [*base, "resources.workers=2"]), ("pool", of_pool)):
        assert command(verb, *given, f"out={tmp_path / verb}") == 2
        assert "object store" in one_line(capsys)
        assert not (tmp_path / verb / "runs").exists()


def test_bytes_of_what_is_shared():
    array = np.zeros(1_000_000, np.int32)
    assert 4_000_000 < bytes_of({"array": array, "name": "x"}) < 4_001_000
    assert largest_and_all([{"a": 5, "b": 1}, {"a": 5, "c": 3}]) == (8, 9)
    assert largest_and_all([]) == (0, 0)


def test_a_local_ray_makes_room_if_there_is_memory(monkeypatch):
    mb = 1024 * 1024
    memory, shared = SimpleNamespace(available=1000 * mb), SimpleNamespace(f_bavail=1000, f_frsize=mb)
    monkeypatch.setattr("psutil.virtual_memory", lambda: memory)
    monkeypatch.setattr("pyrite.cluster.executors.object_store.os.path.isdir", lambda path: True)
    monkeypatch.setattr("pyrite.cluster.executors.object_store.os.statvfs", lambda path: shared)
    assert wanted_store(0) is wanted_store(200 * mb) is None  # what Ray takes by itself is enough
    assert wanted_store(400 * mb) == 500 * mb
    assert wanted_store(500 * mb) is None  # there is no room: `check_store` says so
    shared.f_bavail = 64  # /dev/shm of a container
    assert wanted_store(400 * mb) is None
    memory.available, shared.f_bavail = 100 * mb, 1000
    assert wanted_store(40 * mb) is None  # Ray refuses a store as small as 50 MB
