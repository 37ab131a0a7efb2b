"""How large a plan is, and where it runs then."""

import pytest

from cluster.commands import experiment
from cluster.commands.experiment import Work, runs_here
from cluster.config.compose import compose
from cluster.plan import size
from cluster.plan.size import RAY_START, pool_seconds, run_seconds, saved
from ranking.errors import BadInput

SMALL, LARGE = Work(True, saved=RAY_START / 2), Work(True, saved=RAY_START * 2)


@pytest.fixture
def alone(monkeypatch) -> None:
    """No Ray to be found."""
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(experiment, "connected", lambda: False)


@pytest.mark.parametrize(
    ("local", "work", "here"),
    [
        ("auto", SMALL, True), ("auto", LARGE, False), ("auto", Work(True), False), (False, SMALL, False),
        (True, LARGE, True), (True, Work(True), True), ("auto", Work(True, saved=1, needs="an index"), False),
    ],
)  # fmt: skip
def test_a_plan_smaller_than_the_start_of_ray_runs_here(alone, local, work, here):
    assert runs_here({"address": None, "local": local}, work) is here


def test_a_ray_that_is_there_is_used_and_what_wants_one_refused_without_it(alone, monkeypatch):
    assert not runs_here({"address": "auto", "local": "auto"}, SMALL)
    monkeypatch.setenv("RAY_ADDRESS", "somewhere:6379")
    assert not runs_here({"address": None, "local": "auto"}, SMALL)
    assert runs_here({"address": None, "local": True}, SMALL)
    monkeypatch.delenv("RAY_ADDRESS")
    monkeypatch.setattr(experiment, "connected", lambda: True)
    assert not runs_here({"address": None, "local": "auto"}, SMALL)
    with pytest.raises(BadInput, match="workers"):
        runs_here({"address": None, "local": True}, Work(True, needs="resources.workers=2"))


def test_what_takes_longer_is_larger_and_cores_save(monkeypatch):
    config = compose(["scale=tiny", "function=bm25"])
    small = run_seconds(config, "feed_forward", 500, 600)
    assert small is not None
    longer = config | {"training": config["training"] | {"max_epochs": 99}}
    assert small < (run_seconds(longer, "feed_forward", 500, 600) or 0)
    assert small <= (run_seconds(config, "match_pyramid", 500, 600) or 0)
    assert run_seconds(config, "cross_encoder", 500, 600) is None
    of_batch = run_seconds(compose(["scale=tiny", "function=in_batch"]), "feed_forward", 500, 600)
    assert (of_batch or 9) < small  # its documents are in the batch already
    assert pool_seconds(1000, 5000, 10) == pytest.approx(10 * pool_seconds(1000, 5000, 1))
    for count, less in ((1, 0), (2, 30), (4, 45)):
        monkeypatch.setattr(size, "cores", lambda count=count: count)
        assert saved(60) == pytest.approx(less)
