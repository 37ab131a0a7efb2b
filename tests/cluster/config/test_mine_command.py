"""The command that mines the negatives of a run."""

import shlex

import pytest

from cluster.config.compose import compose
from cluster.config.mine_command import mine_command

READ = ["collection=pairs", "collection.path='data/pairs.csv'", "collection.positive=Answer text"]


def test_it_draws_what_the_run_drew():
    given = [*READ, "function=[in_batch,bm25]", "negatives.bm25=3", "policy=fixed", "selector=uniform", "seed=3"]
    command = mine_command([*given, "function.bm25.depth=50", "sampling.guard.relative=.05"])
    assert command == (
        "pyrite mine collection=pairs collection.path=data/pairs.csv 'collection.positive=Answer text' function=bm25 "
        "function.bm25.depth=50 selector=uniform guard.relative=.05 count=3"
    )
    config = compose(shlex.split(command)[2:], "mine")
    assert config["function"]["bm25"]["depth"] == 50
    assert (config["count"], config["guard"]["relative"]) == (3, 0.05)


def test_several_functions_keep_their_counts_and_selectors():
    command = mine_command([
        *READ, "function=[random,bm25]", "negatives.bm25=2", "negatives.random=1", "policy=fixed", "selector=uniform",
        "selector.bm25=top",
    ])  # fmt: skip
    assert command is not None
    assert "'function=[random,bm25]' selector=uniform selector.bm25=top negatives.random=1 negatives.bm25=2" in command
    # Where a ranker chooses, its place is named.
    command = mine_command([*READ, "function=bm25", "selector=simans", "selector.a=2", "policy=fixed"])
    assert command.endswith("selector=simans selector.a=2 count=4 checkpoint=YOUR_MODEL")


@pytest.mark.parametrize(
    "overrides",
    [
        ["function=in_batch"],
        ["function=[in_batch,bm25]", "negatives.bm25=0"],
        ["function=[bm25,random]", "policy=mixture"],
    ],
)
def test_what_needs_no_mining_has_no_command(overrides):
    assert mine_command([*READ, "policy=fixed", *overrides]) is None
