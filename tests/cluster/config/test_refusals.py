"""Tests that options which are gone, left empty or called otherwise in other tools are refused with what to use."""

import re
from pathlib import Path

import pytest

from cluster.config.compose import compose
from cluster.config.groups import group_options
from cluster.config.other_names import ADVICE, SAME_VALUE, suggestion
from cluster.config.refusals import RENAMED, new_name
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
    assert new_name("on_loss") is suggestion("colour=red") is None
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
        ("at=abc", "fork", "at is 'abc'; input should be a valid integer"),
        ("methods=[['selector=top']]", "study", r"methods.0 is ['selector=top']; give 'methods=[{label:NAME,"),
        ("methods=[{label: a, overrides: [function=bm25]}]", "study", METHODS),
        ("methods=[bm25]", "study", METHODS),
        ("negatives=4", "config", "for all functions give sampling.negatives=4"),
        ("hydra.run.dir=x", "config", "hydra.run.dir=x: Hydra's own options have no effect here"),
        ("hydra/launcher=x", "config", "no effect here"),
    ],
)
def test_what_is_empty_unquoted_or_without_effect_is_refused_in_one_line(override, config, says):
    with pytest.raises(BadInput) as refusal:
        compose([override], config)
    assert says in str(refusal.value)


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
