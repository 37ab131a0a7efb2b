"""Commands without Ray through `kill -9`: the same results, no judgement lost, and no process left behind."""

import http.client
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import psutil
import pytest

from tests.cluster.commands.test_judge import Page
from tests.cluster.conftest import DOCUMENTS, write_runs
from tests.faults.test_kills import OF_RUNS, frames
from tests.made_up import write_beir, write_files

PATIENCE_S = 240.0
"""Seconds in which a command on this data ends."""
ORPHANS_S = 10.0
"""Seconds in which the processes of a killed command end."""
SAMPLE = 2
"""Kills per command of `--sample`."""


@dataclass(frozen=True)
class LocalJob:
    """A command that leaves a folder, and what is read of it."""

    verb: str
    overrides: Sequence[str]
    results: Callable[[Path], dict[str, Any]]


def start(arguments: Sequence[str], log: Path, cache: Path) -> subprocess.Popen[bytes]:
    """Start a command in a group of its own."""
    environment = os.environ | {"PYRITE_CACHE": str(cache), "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-m", "pyrite", *arguments]
    with log.open("ab") as output:
        return subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT, env=environment, start_new_session=True
        )


def kill(process: subprocess.Popen[bytes], alone: bool) -> None:
    """Kill a command, with its group or alone; what it has started ends by itself then."""
    children = psutil.Process(process.pid).children(recursive=True)
    process.kill() if alone else os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    _, alive = psutil.wait_procs(children, timeout=ORPHANS_S)
    assert not alive, [child.cmdline() for child in alive]


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, LocalJob]:
    folder = tmp_path_factory.mktemp("local")
    collection = ["collection=beir", f"collection.path={write_beir(folder / 'beir')}"]
    pool = write_runs(folder / "pool")
    tables = ("summary.csv", "trials.parquet", "queries.parquet", "samplers.parquet")
    return {
        "study": LocalJob(
            "study",
            [*collection, *OF_RUNS, "ranker.preset=tiny", "seeds=2", "function=bm25,random", "policy=fixed",
             "selector=uniform", "training.max_epochs=60", "training.patience=60", "save_every=0", "local=true"],
            frames(*tables, without=("seconds", "memory")),
        ),
        "mine": LocalJob(
            "mine",
            [*collection, "vectors=random", "encoding.min_count=1", "function=[bm25,random]", "shard=1", "queries=all"],
            frames("summary.csv", "data/*"),
        ),
        "pool": LocalJob(
            "pool",
            [f"runs={pool / 'runs'}", f"qrels={pool / 'qrels.txt'}", "depth=10", "local=true", "dashboard=false",
             "method=docid,mtf,mm,bla,posterior_fusion,hedge", "seeds=40"],
            frames("summary.csv", "curves.parquet", "totals.parquet", "budgets.parquet"),
        ),
    }  # fmt: skip


@pytest.fixture
def wanted(request: pytest.FixtureRequest) -> int:
    """Kills per command."""
    asked = int(request.config.getoption("--kills")) or SAMPLE * bool(request.config.getoption("--sample"))
    if not asked:
        pytest.skip("takes minutes: `make faults`, or --kills=N or --sample")
    return asked


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", ["study", "mine", "pool"])
def test_what_is_killed_here_comes_out_the_same(name, jobs, wanted, own_cache, tmp_path):
    job, log, rng = jobs[name], tmp_path / "log", np.random.default_rng(7)
    whole = tmp_path / "whole"
    for out in (tmp_path / "first", whole):  # the first compiles, and fills the cache
        began = time.monotonic()
        code = start([job.verb, *job.overrides, f"out={out}"], log, own_cache).wait(PATIENCE_S)
        assert code == 0, log.read_text(errors="replace")[-3000:]
    span, expected = time.monotonic() - began, job.results(whole)
    done = number = 0
    while done < wanted:
        out, killed = tmp_path / f"killed-{number}", 0
        while True:
            resumed = (out / "config.yaml").is_file()
            arguments = ["--resume", str(out)] if resumed else [*job.overrides, f"out={out}"]
            process = start([job.verb, *arguments], log, own_cache)
            moment = PATIENCE_S if killed == 4 or done == wanted else rng.uniform(0.3, 1) * span
            with suppress(subprocess.TimeoutExpired):
                process.wait(moment)
            if process.poll() is not None:
                assert process.returncode == 0, log.read_text(errors="replace")[-3000:]
                break
            kill(process, alone=bool(rng.integers(2)))
            done, killed = done + 1, killed + 1
        results, number = job.results(out), number + 1
        for file, content in expected.items():
            assert results[file] == content, f"{file} differs after {killed} kills"
        assert not list(out.rglob("*.part"))


@pytest.mark.timeout(3600)
def test_no_judgement_is_lost_by_kills(wanted, own_cache, tmp_path):
    pool, log, rng = write_runs(tmp_path / "pool", topics=200), tmp_path / "log", np.random.default_rng(7)
    corpus = write_files(
        tmp_path / "corpus",
        {
            "corpus.jsonl": "".join(
                f'{{"_id": "d{each:02}", "text": "the text of {each}"}}\n' for each in range(DOCUMENTS)
            ),
            "queries.jsonl": "".join(f'{{"_id": "{each + 1}", "text": "question {each}"}}\n' for each in range(200)),
        },
    )
    out = [f"out={tmp_path / 'out'}", "port=0"]
    given = [f"runs={pool / 'runs'}", "collection=beir", f"collection.path={corpus}", "method=mtf", "grades=[0,1,2]"]
    acknowledged: dict[tuple[str, str], int] = {}
    unanswered: dict[tuple[str, str], int] = {}
    for _ in range(wanted):
        log.write_bytes(b"")
        process = start(
            ["judge", *out, *([] if (tmp_path / "out" / "overrides.json").is_file() else given)], log, own_cache
        )
        deadline = time.monotonic() + PATIENCE_S
        while not (link := re.search(r"link for assessors:\s+(\S+)/\?token=(\S+)", log.read_text())):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline
            time.sleep(0.05)
        page, alone = Page(link[1], link[2]), bool(rng.integers(2))
        killing = threading.Timer(rng.uniform(0, 1), kill, (process, alone))
        killing.start()
        with suppress(OSError, http.client.HTTPException):  # the server is gone
            while document := page.state.get("document"):
                asked, grade = (page.state["topic"]["name"], document["name"]), int(rng.integers(3))
                unanswered[asked] = grade
                assert "status" not in page.act("judge", grade=grade)
                acknowledged[asked] = unanswered.pop(asked)
        killing.join()
    assert len(acknowledged) > wanted
    exported = tmp_path / "judgements.csv"
    code = start(["judge", out[0], "--export", str(exported)], log, own_cache).wait(PATIENCE_S)
    assert code == 0, log.read_text()
    rows = pl.read_csv(exported, infer_schema=False)
    stored = {(row["topic"], row["document"]): int(row["grade"]) for row in rows.iter_rows(named=True)}
    assert stored.items() >= acknowledged.items()
    assert stored.items() <= (unanswered | acknowledged).items()
