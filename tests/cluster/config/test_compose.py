"""One configuration, from overrides to a mapping; the rest of it is in `test_configuration.py`."""

import pytest
from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra.errors import HydraException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from cluster.config.compose import _by_hydra, _store_parts, compose
from cluster.config.groups import CONF, fill_defaults


def test_what_is_composed_twice_is_the_callers_own(monkeypatch):
    changed = compose(["scale=tiny"])
    before = changed["limits"]["train"]
    changed["limits"]["train"] = before + 1
    assert compose(["scale=tiny"])["limits"]["train"] == before
    for place in ("here", "there"):
        monkeypatch.setenv("PYRITE_CACHE", place)
        assert compose(["scale=tiny"])["cache"] == place


@pytest.mark.by_day(3)
@pytest.mark.parametrize(
    ("overrides", "count"),
    [
        ([], 4),
        (["function=in_batch", "training.batch_size=16"], 15),
        (["function=in_batch", "training.batch_size=1"], 1),
        (["function=in_batch", "sampling.negatives=7"], 7),
        (["function=[in_batch,bm25]"], 4),
        (["policy=recommended", "training.batch_size=128"], 131),  # room for four of BM25's
        (["policy=recommended", "sampling.negatives=9"], 9),
        (["policy=mixture", "policy.each=2", "function=[in_batch,bm25]", "training.batch_size=16"], 17),
        (["policy=mixture", "policy.each=2", "function=[random,bm25]"], 4),
        # Recipes, of 16 queries with 7 mined documents each, and of 4 with 87.
        (["ranker=bi_encoder", "ranker.checkpoint=x", "function=in_batch"], 15),
        (["ranker=bi_encoder", "ranker.checkpoint=x", "function=in_batch", "sampling.negatives=7"], 7),
        (["ranker=bi_encoder", "ranker.checkpoint=x"], 7),
        (["ranker=cross_encoder", "ranker.checkpoint=x", "function=in_batch"], 3),
    ],
)
def test_in_batch_gives_the_whole_batch_alone_or_with_what_others_add(overrides, count):
    assert compose(overrides)["sampling"]["negatives"] == count


def whole(overrides: list[str], config: str) -> object:
    """Return what Hydra composes of all overrides at once, or its error and the cause."""
    _store_parts()
    try:
        with initialize_config_dir(str(CONF), version_base="1.3"):
            composed = OmegaConf.to_container(hydra_compose(config, overrides), resolve=True, throw_on_missing=True)
    except (HydraException, OmegaConfBaseException) as error:
        return [str(error), str(error.__cause__ or "")]
    fill_defaults(composed)
    return composed


def by_files_and_values(overrides: list[str], config: str) -> object:
    try:
        return _by_hydra(tuple(overrides), config, str(CONF), ())[0]
    except (HydraException, OmegaConfBaseException) as error:
        return [str(error), str(error.__cause__ or "")]


@pytest.mark.by_day(2)
@pytest.mark.parametrize(
    ("overrides", "config"),
    [
        (["training.patience=3", "ranker=match_pyramid", "optimizer.lr=0.5"], "config"),
        (["function=[random,bm25]", "validation.every=2", "scale=tiny", "limits.train=7"], "config"),
        (["+ranker.own=3", "++training.patience=1", "~peft", "measures=[AP@3]"], "config"),
        (["training={patience: 3}", "collection=beir", "+collection.path=${cache}/here"], "config"),
        (["agent=as_printed", "agent.entropy=0.5", "until=converged"], "learn"),
        (["method=[mm,mtf]", "reuse=true", "runs=a", "qrels=b"], "pool"),
        (["ranker=nobody"], "config"),
        (["training.patiance=3"], "config"),
        (["+training.patience=3"], "config"),
        (["~training.nothing"], "config"),
        (["training.patience.more=3"], "config"),
        (["ranker@elsewhere=static"], "config"),
        (["nothing@elsewhere=static"], "config"),
        (["seed=1,2"], "config"),
        (["seed=[1"], "config"),
        (["hydra.nothing=3"], "config"),
    ],
)
def test_values_set_in_a_copy_of_what_files_give_are_what_hydra_sets(overrides, config):
    expected = whole(overrides, config)
    for _ in range(2):
        assert by_files_and_values(overrides, config) == expected
