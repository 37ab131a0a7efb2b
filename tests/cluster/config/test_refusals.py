"""Tests that options which are gone, left empty or called otherwise in other tools are refused with what to use."""

import re
from pathlib import Path

import pytest

from cluster.config.compose import compose
from cluster.config.groups import group_options
from cluster.config.other_names import ADVICE, SAME_VALUE, suggestion
from cluster.config.refusals import RENAMED
from cluster.config.validate import check_optimizer, check_pooling, check_sharding, check_shares, check_workers
from ranking.errors import BadInput

GLOSSARY = Path(__file__).parents[3] / "docs" / "reference" / "glossary.md"

GONE = "on_los.* any more: an index that is lost is always waited for: leave it out"
NO_POPULATION = "any more: runs that continue from each other's weights.*"


@pytest.mark.parametrize(
    ("override", "primary", "instead"),
    [
        ("function.dense.refresh.on_loss=continue", "config", GONE),
        ("function.dense.refresh.on_lost_index=wait", "config", GONE),
        ("hold=4", "learn", "decision_every now"),
        ("yardstick=0", "learn", "random_baseline now"),
        ("panel.size=9", "learn", r"validation_sample\.size now"),
        ("on_loss=continue", "learn", "on_loss any more: whatever a learning loses is repeated from its last state"),
        ("trial_scheduler=pb2", "study", f"{NO_POPULATION}trial_scheduler=asha"),
        ("scheduler=pb2", "config", f"{NO_POPULATION}search=optuna"),
        ("changes=[{after:3,optimizer.lr:0.1}]", "config", "no option changes any more: options stay the same"),
        ("function.dense.replicas=2", "config", "replicas any more: .*one reader.* shards"),
        ("function.bm25.replicas=2", "config", "replicas any more: .*one reader.* shards"),
        # Options that meant something else in one verb.
        ("documents=beir", "judge", "collection=beir now"),
        ("documents.path=x", "judge", r"collection\.path=x now"),
        ("scale=tiny", "pool", "pool_scale=tiny now"),
        ("scheduler=asha", "config", "trial_scheduler=asha"),
        ("scheduler=none", "config", "trial_scheduler=null"),
    ],
)
def test_an_old_option_is_refused_with_what_to_use(override, primary, instead):
    with pytest.raises(BadInput, match=instead):
        compose([*(["ranker=bi_encoder", "function=dense"] if "dense" in override else []), override], primary)


def test_no_new_name_is_an_old_one_and_no_name_of_another_tool_an_option():
    assert suggestion("colour=red") is None
    assert not set(RENAMED) & set(RENAMED.values())
    assert not {*SAME_VALUE, *ADVICE} & (set(compose([])) | set(group_options()) - {"data"}) - {"scheduler"}


METHODS = "give 'methods=[{label:NAME,overrides:[\"function=bm25\",…]},…]'"


@pytest.mark.parametrize(
    ("override", "config", "says"),
    [
        ("scale=null", "config", "scale has no value; choose one of full, medium"),
        ("ranker=", "config", "ranker has no value; choose one of bi_encoder"),
        ("selector=null", "config", "selector has no value; choose one of adversarial"),
        ("function=[]", "config", "function has no value; choose one of"),
        ("experiment=null", "study", "experiment has no value; choose one of"),
        ("collection.path=", "config", "collection.path: is empty; name a file or folder"),
        ("qrels=''", "pool", "qrels: is empty; name a file or folder"),
        ("methods=[{label: a, overrides: [selector=top,uniform]}]", "study", "can't read the override 'methods="),
        ("at=abc", "fork", "at is 'abc'; choose a whole number or a list, as [A,B]"),
        ("actions={a:1}", "fork", "actions.0 is {'a': 1}; choose a text"),
        ("instead=[7]", "fork", "instead.0 is 7; choose a text"),
        ("methods=[['selector=top']]", "study", r"methods.0 is ['selector=top']; give 'methods=[{label:NAME,"),
        ("methods=[{label: a, overrides: [function=bm25]}]", "study", METHODS),
        ("methods=[bm25]", "study", METHODS),
        ("seed=-1", "config", "seed is -1; choose a number from 0 up"),
        ("run_time=[]", "config", "run_time is []; choose a text or a number"),
        ("strict=3", "config", "strict is 3; choose true or false"),
        ("sampling.recorded=2", "config", "sampling.recorded is 2; choose a number of at most 1"),
        ("episodes=0", "learn", "episodes is 0; choose a number from 1 up"),
        ("episodes=many", "learn", "episodes is 'many'; choose a whole number"),
        ("local=maybe", "study", "local is 'maybe'; choose true or false or 'auto'"),
        ("negatives=4", "config", "for all functions give sampling.negatives=4"),
        ("hydra.run.dir=x", "config", "hydra.run.dir=x: Hydra's own options have no effect here"),
        ("hydra/launcher=x", "config", "no effect here"),
    ],
)
def test_what_is_empty_unquoted_or_without_effect_is_refused_in_one_line(override, config, says):
    with pytest.raises(BadInput) as refusal:
        compose([override], config)
    assert says in str(refusal.value)


@pytest.mark.parametrize("override", ["actions=null", "instead=null", "actions=[]"])
def test_no_actions_are_those_of_the_run(override):
    assert not compose([override], "fork")["instead"]


@pytest.mark.parametrize(
    ("override", "instead"),
    [
        ("epochs=3", "training.max_epochs=3"),
        ("num_negatives=4", "sampling.negatives=4"),
        ("metric=nDCG@10", "validation.measure=nDCG@10"),
        ("learning_rate=0.1", "optimizer.lr=0.1"),
        ("model=static", "ranker=static"),
        ("model=models/minilm", "ranker=bi_encoder ranker.checkpoint=models/minilm"),
        ("data=pairs.csv", "collection.path=pairs.csv"),
        ("training.epochs=3", "training.max_epochs=3"),
        ("function.bm25.k=1", "function.bm25.k1=1"),
        ("training.batchsize=8", "training.batch_size=8"),
        ("sampling.guard.relativ=0.1", "sampling.guard.relative=0.1"),
        ("range_min=10", "selector=window selector.first=10"),
        ("collection=pairs collection.pth=x", "collection.path=x"),
    ],
)
def test_a_name_from_another_tool_or_a_misspelt_one_is_answered_with_the_option(override, instead):
    with pytest.raises(BadInput) as refusal:
        compose(override.split())
    assert str(refusal.value).endswith(f"did you mean {instead}?")


def test_every_suggested_option_exists():
    for option in set(SAME_VALUE.values()) - {"out", "samples", "seeds", "track"}:  # of a study
        group = option.partition(".")[0]
        brings = {"selector": ["selector=window"], "ranker": ["ranker=bi_encoder", "ranker.checkpoint=x"],
                  "objective": ["objective=contrastive"]}.get(group, [])  # fmt: skip
        node = compose(brings)
        for key in option.split("."):
            assert key in node, option
            node = node[key]


def test_every_option_name_of_the_glossary_is_known():
    table = GLOSSARY.read_text(encoding="utf-8").split("## Names in other tools")[1]
    rows = re.findall(r"^\| (.+?) \| .+ \|$", table, re.MULTILINE)
    words = {word for row in rows for word in re.findall(r"`([a-z]+(?:_[a-z]+)+)`", row)}
    assert {"num_negatives", "num_train_epochs"} <= words
    assert words <= {*SAME_VALUE, *ADVICE}


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
