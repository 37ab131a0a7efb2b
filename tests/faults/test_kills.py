"""Commands through the loss of their processes and machines: the same results, and nothing left behind."""

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from safetensors import safe_open

from tests.cluster.conftest import write_runs
from tests.faults.disturbed import Disturbed, Job
from tests.made_up import write_beir

OF_RUNS = [
    "vectors=random", "encoding.min_count=1", "training.batch_size=8", "measures=[AP@10,RR@10]",
    "validation.measure=AP@10", "optimizer.lr=0.01", "scale=full", "dashboard=false",
]  # fmt: skip


def frames(*names: str, without: Sequence[str] = ()) -> Callable[[Path], dict[str, Any]]:
    """Reads files: tables as lists of rows, without what a time or a process decides, and others as bytes."""

    def read(out: Path) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name in names:
            for file in sorted(out.glob(name)):
                place = file.relative_to(out).as_posix()
                if file.suffix in (".parquet", ".csv"):
                    table = (
                        pl.read_parquet(file) if file.suffix == ".parquet" else pl.read_csv(file, infer_schema=False)
                    )
                    found[place] = table.drop(each for each in without if each in table.columns).to_dicts()
                elif file.suffix == ".safetensors":  # whose header has its lines in any order
                    with safe_open(file, "np") as content:
                        tensors = {key: content.get_tensor(key).tobytes() for key in content.keys()}  # noqa: SIM118
                        found[place] = content.metadata(), tensors
                else:
                    found[place] = file.read_bytes()
        assert found
        return found

    return read


@pytest.fixture(scope="module")
def jobs(own_cache: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Job]:
    """Each as short as it may be and still be met in the middle."""
    folder = tmp_path_factory.mktemp("disturbed")
    collection = ["collection=beir", f"collection.path={write_beir(folder / 'beir')}", *OF_RUNS]
    pool = write_runs(folder / "pool")
    networks = [*collection, "ranker.preset=tiny"]
    tables = ("summary.csv", "trials.parquet", "queries.parquet", "samplers.parquet")
    return {
        "study": Job(
            "study",
            [*networks, "seeds=1", "training.max_epochs=60", "training.patience=60", "save_every=0"],
            ("trial", "node", "drain", "driver", "head"),
            frames(*tables, without=("seconds", "memory")),
        ),
        "learn": Job(
            "learn",
            [*networks, "training.max_epochs=3", "copies=2", "episodes=30", "random_baseline=2", "workers=2",
             "validation_sample.size=4", "validation_sample.every=2", "save_every=1"],
            ("LockstepRunner", "-learner", "node", "drain", "driver", "head"),
            frames("episodes.parquet", "agent.safetensors"),
        ),
        "train": Job(
            "train",
            [*(each for each in collection if each != "dashboard=false"), "ranker=dssm", "ranker.preset=tiny",
             "function=dense", "function.dense.refresh.mode=lagged", "function.dense.refresh.every=6",
             "index.cpu=0.5", "training.max_epochs=30", "training.patience=30", "save_every=1"],
            ("NegativeIndexActor", "Encoder", "node", "drain", "driver", "head"),
            frames("trials.parquet", "queries.parquet", "samplers.parquet", "weights/*", without=("seconds", "memory")),
        ),
        "pool": Job(
            "pool",
            [f"runs={pool / 'runs'}", f"qrels={pool / 'qrels.txt'}", "depth=10", "dashboard=false",
             "method=docid,mtf,mm,bla,posterior_fusion,hedge", "seeds=40"],
            ("trial", "node", "drain", "driver", "head"),
            frames("summary.csv", "curves.parquet", "totals.parquet", "budgets.parquet"),
        ),
    }  # fmt: skip


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", ["study", "learn", "train", "pool"])
def test_what_is_killed_comes_out_the_same(name, jobs, kills, own_cache, tmp_path):
    survive(jobs[name], kills, own_cache, tmp_path)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", ["study", "learn", "train", "pool"])
def test_the_loss_of_the_day(name, jobs, request, own_cache, tmp_path):
    if not request.config.getoption("--sample"):
        pytest.skip("takes minutes: `make faults`, or --sample")
    job = drawn(jobs[name], date.today())
    print(f"today: `pyrite {job.verb}` loses {job.victims[0]}")
    survive(job, 1, own_cache, tmp_path)


def drawn(job: Job, day: date) -> Job:
    """The job with one of its victims: all of them in turn, as the days go by."""
    return replace(job, victims=(job.victims[day.toordinal() % len(job.victims)],))


def test_within_a_week_every_loss_is_drawn():
    for count in (5, 6):
        job = Job("study", [], tuple(map(str, range(count))), lambda out: {})
        victims = {drawn(job, date.fromordinal(740_000 + day)).victims for day in range(7)}
        assert victims == {(str(victim),) for victim in range(count)}


def survive(job: Job, kills: int, own_cache: Path, tmp_path: Path) -> None:
    """See that a command comes out the same, and leaves nothing behind, however often something is killed under it."""
    shared_memory = set(os.listdir("/dev/shm"))
    disturbed = Disturbed(job, tmp_path, np.random.default_rng(7))
    try:
        span = disturbed.undisturbed(tmp_path / "whole")
        whole = job.results(tmp_path / "whole")
        done = number = 0
        while done < kills:
            out = tmp_path / f"killed-{number}"
            done += disturbed.run(out, span, min(kills - done, 4))
            number += 1
            results = job.results(out)
            for file, content in whole.items():
                assert results[file] == content, f"{file} differs after {disturbed.history}"
            assert disturbed.leftovers() == []
            assert not list(out.rglob("*.part"))
            assert not list(out.glob("states/*"))
        assert not list((own_cache / "indexes").glob("*/*"))
    finally:
        disturbed.close()
        print(job.verb, disturbed.history)
    assert disturbed.left == []
    assert set(os.listdir("/dev/shm")) <= shared_memory
