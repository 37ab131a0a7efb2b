"""Tests of forks: one that changes nothing differs by zero bits, and a planted poison is found out."""

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from pyrite.cluster.config.build import build
from pyrite.cluster.config.compose import compose
from pyrite.cluster.config.groups import option
from pyrite.cluster.output.result_store import SavedState
from pyrite.cluster.output.storage import Storage
from pyrite.cluster.runs.artifacts import Artifacts
from pyrite.cluster.runs.assemble import assemble
from pyrite.cluster.runs.execute import run
from pyrite.cluster.runs.fork import BASE, Fork, base_states, continue_fork, with_functions
from pyrite.cluster.statistics.fork_values import SIDES, by_side, gates, regress, room_by_query, values
from pyrite.ranking.errors import BadInput
from pyrite.sampling.policies.action import Action
from pyrite.sampling.policies.forked import ForkedPolicy
from tests.cluster.command_line import command
from tests.made_up import write_beir
from tests.ranking.trained import equal

SMALL = [
    "ranker=static", "ranker.preset=tiny", "ranker.spread=0", "vectors=random", "training.batch_size=4",
    "training.max_epochs=3", "training.patience=9", "sampling.negatives=2", "encoding.min_count=1", "optimizer.lr=0.05",
]  # fmt: skip


def run_of(folder: Path, *more: str) -> tuple[dict[str, Any], dict[str, Any], list[str]]:
    config = compose(["collection=beir", f"collection.path={folder}", *SMALL, *more])
    own = list(config["function"])
    config = with_functions(config, [Action("bm25"), Action("random")])
    return config, Artifacts().parts(config), own


@pytest.mark.by_day(2)
@pytest.mark.parametrize(
    "more",
    [
        ["policy=schedule"],
        ["policy=fixed", "function=random"],
        ["policy=fixed", "function=[in_batch,bm25]", "negatives.bm25=1"],
        ["policy=curriculum"],
        ["policy=mixture", "function=[in_batch,bm25]", "policy.each=1", "policy.window=[1,4]"],
    ],
    ids=lambda more: more[0] + more[-1],
)
def test_a_fork_that_changes_nothing_differs_by_zero_bits(beir_folder, own_cache, more):
    config, parts, own = run_of(beir_folder, *more)
    training, sampler = assemble(config | {"function": {name: config["function"][name] for name in own}}, parts, 0)
    training.fit(sampler)
    states, later = base_states(config, parts, own, [0, 3, 7], 2)
    assert set(states) == {0, 3, 7}
    for at, state in states.items():
        result, forked = continue_fork(config, parts, own, state, later[at], Fork(0, at, 0, None), 2)
        assert result["curve"] == training.validations
        assert equal(training.ranker.state_dict(), forked.ranker.state_dict())
    other, _ = continue_fork(config, parts, own, states[3], later[3], Fork(0, 3, 0, Action("bm25", (1, 2))), 2)
    assert other["curve"] != training.validations


def test_a_fork_goes_on_from_what_its_run_has_kept(beir_folder, own_cache, tmp_path):
    config, parts, own = run_of(beir_folder, "policy=schedule", "keep_at=[2,3,5,8]")
    kept = SavedState(Storage(str(tmp_path)), "run", {})
    run({**config, "function": {name: config["function"][name] for name in own}}, parts, store=kept)
    found = {step: state for step in range(9) if (state := kept.kept_at(step)) is not None}
    assert list(found) == [2, 3, 5, 8]

    def curves(config: dict[str, Any], kept: dict[int, bytes]) -> list[list[float]]:
        states, later = base_states(config, parts, own, [3, 7], 2, kept)
        ends = [continue_fork(config, parts, own, states[at], later[at], Fork(0, at, 0, None), 2) for at in (3, 7)]
        poisoned, _ = continue_fork(config, parts, own, states[7], later[7], Fork(0, 7, 0, Action("bm25", (1, 2))), 2)
        return [*(result["curve"] for result, _ in ends), poisoned["curve"]]

    whole = curves(config, {})
    assert curves(config, found) == whole
    with pytest.raises(BadInput, match="no function"):
        with_functions(config, [Action("nowhere")])
    # It is the kept state that it goes on from: with that of another training it is another one.
    assert curves(config, base_states(config | {"seed": 1}, parts, own, [3], 2)[0]) != whole


@pytest.mark.nightly
def test_replicates_draw_anew_and_alike_for_all_actions(beir_folder, own_cache):
    config, parts, own = run_of(beir_folder, "policy=mixture")
    states, later = base_states(config, parts, own, [2], 2)

    def curve(action: Action | None, replicate: int) -> list[float]:
        return continue_fork(config, parts, own, states[2], later[2], Fork(0, 2, replicate, action), 2)[0]["curve"]

    assert curve(None, 1) == curve(None, 1) != curve(None, 2)
    assert curve(None, 0) != curve(None, 1)
    assert curve(Action("bm25"), 1) != curve(None, 1)


def test_a_planted_poison_ranks_last(tmp_path, own_cache):
    """Relevant documents as negatives, which nobody has judged: they say what the query says."""
    folder = write_beir(tmp_path / "collection")
    corpus, asked = folder / "corpus.jsonl.gz", gzip.decompress((folder / "queries.jsonl.gz").read_bytes())
    queries = [json.loads(line) for line in asked.splitlines()]
    added = [json.dumps(query | {"_id": f"says-{query['_id']}", "title": ""}) + "\n" for query in queries]
    corpus.write_bytes(gzip.compress(gzip.decompress(corpus.read_bytes()) + "".join(added).encode()))
    run = tmp_path / "poison.txt"
    run.write_text("".join(f"{query['_id']} Q0 says-{query['_id']} 1 1.0 x\n" for query in queries))
    config = compose([
        "collection=beir", f"collection.path={folder}", *SMALL, "policy=mixture", "function=[random,bm25]",
        "collection.self=keep",
    ])  # fmt: skip
    own = list(config["function"])
    config["function"] = {**config["function"], **option("function", "run_file")}
    config["function"]["run_file"]["path"] = str(run)
    parts = Artifacts().parts(config)
    states, later = base_states(config, parts, own, [4], 12)
    rows = []
    for replicate in range(3):
        for action in (None, Action("random"), Action("bm25"), Action("run_file")):
            result, _ = continue_fork(config, parts, own, states[4], later.get(4), Fork(0, 4, replicate, action), 12)
            name = BASE if action is None else str(action)
            rows.append({"base": 0, "at": 4, "replicate": replicate, "action": name, **result})
    worth = values(pl.DataFrame(rows).drop("curve"))
    assert worth.sort("soon")["action"][0] == "run_file"
    assert worth["action"][-1] == "run_file"  # in the end, too
    assert worth["final"][-1] < 0


def forks_of(effect: np.ndarray[Any, Any], noise: float = 0.001) -> pl.DataFrame:
    """Made-up forks of [trainings, batches, actions], four replicates."""
    rng, rows = np.random.default_rng(0), []
    for base, at, replicate in np.ndindex(*effect.shape[:2], 4):
        luck = rng.normal(0, 0.1)
        for action, gain in enumerate(effect[base, at]):
            name, final = BASE if action == 0 else f"a{action}", luck + gain + rng.normal(0, noise)
            rows.append({"base": base, "at": at, "replicate": replicate, "action": name, "final": final})
    return pl.DataFrame(rows).with_columns(soon=pl.col("final"))


def test_values_and_gates_say_what_was_made_up():
    constant = np.zeros((3, 2, 3)) + np.array([0, 0.05, -0.05])
    worth = values(forks_of(constant))
    assert worth["action"].to_list() == ["a1", "a2", "a1", "a2"]
    assert worth["final"].to_list() == pytest.approx([0.05, -0.05] * 2, abs=0.002)
    assert (worth["low"] < worth["final"]).all()
    found = gates(forks_of(constant))
    assert min(found.time_p, found.state_p) > 0.01
    assert [found.oracle, found.schedule, found.fixed] == pytest.approx([0.05] * 3, abs=0.003)
    assert 0 <= found.room_high < 0.002
    by_time = constant.copy()
    by_time[:, 1] *= -1
    found = gates(forks_of(by_time))
    assert found.time_p < 0.001 < 0.01 < found.state_p
    assert found.schedule == pytest.approx(0.05, abs=0.003)
    assert found.fixed < 0.02
    by_state = constant.copy()
    by_state[0] *= -1
    found = gates(forks_of(by_state))
    assert found.state_p < 0.001
    assert found.oracle == pytest.approx(0.05, abs=0.003)
    assert found.schedule < 0.03
    assert found.room_high > found.oracle - found.schedule


def by_query_forks(effect: np.ndarray[Any, Any], noise: float = 0.001) -> pl.DataFrame:
    """Made-up forks of [halves, actions] in three trainings, four replicates."""
    rng, rows = np.random.default_rng(0), []
    for base, replicate in np.ndindex(3, 4):
        luck = rng.normal(0, 0.1)
        row = {"base": base, "at": 0, "replicate": replicate}
        rows.append({**row, "action": BASE, "side": "", "final": luck})
        for half, action in np.ndindex(effect.shape):
            final = luck + effect[half, action] + rng.normal(0, noise)
            rows.append({**row, "action": f"a{action}", "side": SIDES[half], "final": final})
    return pl.DataFrame(rows)


def test_what_a_decision_per_query_gains_is_found():
    forks = by_query_forks(np.array([[0.03, -0.01], [-0.02, 0.01]]))  # each action is the best one of a half
    worth = by_side(forks)
    assert worth["action"].to_list() == ["a0", "a1"]
    assert worth["below"].to_list() == pytest.approx([0.03, -0.01], abs=0.002)
    assert worth["above"].to_list() == pytest.approx([-0.02, 0.01], abs=0.002)
    assert worth["difference"].to_list() == pytest.approx([0.05, -0.02], abs=0.002)
    assert (worth["low"] < worth["difference"]).all()
    assert (worth["p"] < 0.001).all()
    room = room_by_query(forks)
    assert room.by_query == pytest.approx(0.04, abs=0.003)
    assert room.fixed == pytest.approx(0.01, abs=0.003)
    assert room.p < 0.001
    assert 0.03 < room.high < 0.04  # (0.05 + 0.02) / 2, no less than what a pair gains
    same = room_by_query(by_query_forks(np.array([[0.03, -0.01], [0.03, -0.01]])))
    assert same.p > 0.01
    assert same.by_query == pytest.approx(same.fixed, abs=0.001)
    assert 0 < same.high < 0.002


def test_a_fork_of_half_the_queries_leaves_the_others_as_they_are(beir_folder, own_cache):
    config, parts, own = run_of(beir_folder, "policy=mixture", "function=[in_batch,bm25]", "policy.each=1")
    shown = {}
    for side in SIDES:
        fork = Fork(0, 0, 0, Action("random"), "positive_rank", side)
        forked = ForkedPolicy(build(config["policy"]), own, fork.action, 0, 1, split=fork.split, side=side)
        training, sampler = assemble(config, parts, 0, policy=forked)
        batch = training.examples
        sampler.negatives(batch, training)
        assert fork.split is not None
        split = fork.split
        split.start_run(sampler.functions, training)
        rows = split.below(batch, training) == (side == "below")
        assert (sampler.assigned == list(sampler.functions).index("random")).any(1).tolist() == rows.tolist()
        shown[side] = rows
    assert (shown["below"] != shown["above"]).all()
    assert abs(int(shown["below"].sum()) - len(shown["below"]) / 2) <= 2


@pytest.mark.parametrize("matters", [True, False])
def test_a_regression_says_whether_the_state_matters(matters):
    """Two actions of opposite value: by the state of the training, or of the same value in all."""
    hard = np.random.default_rng(0).uniform(-1, 1, (6, 3))
    effect = np.zeros((6, 3, 3))
    effect[..., 1] = hard * 0.05 if matters else 0.05
    effect[..., 2] = -effect[..., 1]
    states = [
        {"base": base, "at": at, "one": 1.0, "spent": at / 2, "hard": hard[base, at], "easy": 0.0, "gain": 0.0}
        for base, at in np.ndindex(6, 3)
    ]
    fitted = regress(forks_of(effect).join(pl.DataFrame(states), on=["base", "at"]))
    assert fitted.actions == ["a1", "a2"]
    if matters:
        assert fitted.action_r2 < 0.2 < 0.9 < fitted.state_r2
        assert 0.3 < fitted.low < fitted.gain
        assert fitted.state[0, 2] == pytest.approx(0.05, rel=0.1)
    else:
        assert fitted.action_r2 > 0.95
        assert fitted.high < 0.02


def test_a_kept_run_is_forked_and_gone_on_with(beir_folder, own_cache, tmp_path, capsys, refusal, monkeypatch):
    kept, out = str(tmp_path / "run"), tmp_path / "forks"
    monkeypatch.chdir(beir_folder.parent)
    assert command("train", "collection=beir", f"collection.path={beir_folder.name}", *SMALL, f"out={kept}") == 0
    monkeypatch.chdir(tmp_path)
    asked = ["at=[0,5]", "actions=[random,bm25@dynamic:4]", "length=2", "replicates=2", "bases=2", "workers=0"]
    assert command("fork", kept, *asked, f"out={out}") == 0
    said = capsys.readouterr().out
    assert "one decision of an oracle" in said
    assert pl.read_parquet(out / "forks.parquet").height == 2 * 2 * 2 * 3
    assert set(pl.read_csv(out / "values.csv")["action"]) == {"random", "bm25@dynamic:4"}
    assert (out / "figures" / "forks.png").stat().st_size > 5000
    assert command("fork", "--resume", str(out), "--regress") == 2  # two trainings are too few
    before = pl.read_parquet(out / "forks.parquet")
    lost = sorted((out / "forks").iterdir())[0]
    lost.unlink()
    assert command("fork", "--resume", str(out)) == 0
    assert lost.is_file()
    assert pl.read_parquet(out / "forks.parquet").equals(before)
    assert command("fork", kept, *asked, f"out={out}") == 2
    halves, asked = tmp_path / "halves", ["actions=random,random*1,bm25", "replicates=2", "workers=0"]
    assert command("fork", kept, "by=positive_rank", *asked, f"out={halves}") == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "are actions worth the same in both halves? p = " in said
    assert "gain of one action per half over one for all, at most (95%): +" in said
    assert pl.read_parquet(halves / "forks.parquet").height == 2 * (1 + 2 * 2)
    assert pl.read_csv(halves / "values.csv").columns[:4] == ["at", "action", "below", "below_low"]
    assert command("fork", kept, "by=positive_rank", "--regress", "bases=3", "workers=0") == 2
    assert refusal("fork", kept, "--regress", "workers=0").startswith("bases: 1 training can't be regressed")
    assert command("fork", str(tmp_path / "nowhere"), "at=0") == 2
    assert "never reaches" in refusal("fork", kept, "at=100000", "workers=0", f"out={tmp_path / 'late'}")
