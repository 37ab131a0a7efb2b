"""Tests of `cluster.config.validate`; what a run's parts refuse is in `test_configuration`."""

import pytest

from cluster.config.compose import compose
from cluster.config.validate import check_optimizer, check_pooling, check_sharding, check_shares, check_workers
from ranking.errors import BadInput


def test_workers_that_make_no_sense_and_copies_that_are_not_shared_out_evenly_are_refused():
    check_workers({"workers": 3, "least": 3})
    with pytest.raises(BadInput, match=r"^resources.least: least is 4, but the run starts with 3 workers"):
        check_workers({"workers": 3, "least": 4})
    for shares in ((8, 2, 0), (8, None, 0), (8, None, 2), (8, 4, 2), (3, 0, 0)):
        check_shares(*shares)
    for shares in ((8, 3, 0), (8, 2, 4), (8, 0, 1), (8, None, 3)):
        with pytest.raises(BadInput, match="divide evenly"):
            check_shares(*shares)


@pytest.mark.parametrize(
    ("overrides", "says"),
    [
        (["pools=some.yaml", "runs=some"], "pools= excludes runs= and qrels="),
        (["pools=some.yaml", "qrels=some.txt"], "pools= excludes runs= and qrels="),
        (["qrels=some.txt"], "qrels= is given without runs="),
    ],
)
def test_a_pool_comes_from_one_place(overrides, says):
    check_pooling(compose(["runs=some", "qrels=some.txt"], "pool"))
    check_pooling(compose(["pools=some.yaml"], "pool"))
    with pytest.raises(BadInput, match=says):
        check_pooling(compose(overrides, "pool"))


SHARED = ["ranker=bi_encoder", "resources.shard=true", "resources.workers=2"]


@pytest.mark.by_day(2)
@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["resources.workers=1"], "a single worker"),
        (["ranker=static"], "the weights of Static are not split"),
        (["keep_at=[3]"], "states for forks"),
        (["function=dense", "function.dense.refresh.mode=sync"], "function.dense.refresh: each worker would read"),
        (["selector=adversarial"], "selector: each worker would copy"),
    ],
)
def test_what_needs_a_whole_ranker_is_refused_where_weights_are_split(overrides, said):
    check_sharding(compose([*SHARED, "ranker.checkpoint=none"]))
    with pytest.raises(BadInput, match=said):
        check_sharding(compose([*SHARED, "ranker.checkpoint=none", *overrides]))


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("optimizer.lr=abc", r"^optimizer.lr is 'abc'; choose a number above 0$"),
        ("optimizer.lr=-1", r"^optimizer.lr is -1; choose a number above 0$"),
        ("optimizer.lr=.nan", r"^optimizer.lr is '?\.?nan'?; choose a number above 0$"),
        ("optimizer.lr=null", r"^optimizer.lr is None; choose a number above 0$"),
        ("optimizer.weight_decay=much", r"^optimizer.weight_decay is 'much'; choose a number from 0 up, as 0$"),
        ("optimizer.betas=[0.9,2]", r"^optimizer.betas is \[0.9, 2\]; give 2 numbers, as \[0.9, 0.999\]$"),
        ("optimizer.betas=0.9", r"^optimizer.betas is 0.9; give 2 numbers"),
        ("optimizer.fused=often", r"^optimizer.fused is 'often'; choose true or false$"),
        ("+optimizer.amsgrad=often", r"^optimizer.amsgrad is 'often'; choose true or false$"),
    ],
)
def test_options_that_an_optimizer_refuses_are_found_before_anything_is_read(override, message):
    with pytest.raises(BadInput, match=message):
        check_optimizer(compose([override])["optimizer"])


def test_optimizers_with_fitting_options():
    for overrides in (
        ["optimizer=adam"],
        ["optimizer=adamw", "optimizer.lr=1"],
        ["optimizer=lazy_adam", "optimizer.betas=[0.8,0.9]"],
        ["optimizer._target_=torch.optim.SGD", "+optimizer.momentum=0.9", "+optimizer.nesterov=true"],
    ):
        check_optimizer(compose(overrides)["optimizer"])
