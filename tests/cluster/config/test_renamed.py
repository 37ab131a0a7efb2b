"""Tests of `cluster.config.refusals`."""

from __future__ import annotations

import pytest

from cluster.config.compose import compose
from cluster.config.refusals import RENAMED, new_name
from ranking.errors import BadInput

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
def test_an_old_option_is_refused_with_what_to_use(override: str, primary: str, instead: str) -> None:
    with pytest.raises(BadInput, match=instead):
        compose([*(["ranker=bi_encoder", "function=dense"] if "dense" in override else []), override], primary)


def test_no_new_name_is_an_old_one() -> None:
    assert new_name("on_loss") is None
    assert not set(RENAMED) & set(RENAMED.values())


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
        ("methods=[['selector=top']]", "study", r"methods.0 is ['selector=top']; give 'methods=[{label:NAME,"),
    ],
)
def test_what_is_left_empty_or_unquoted_is_refused_in_one_line(override: str, config: str, says: str) -> None:
    with pytest.raises(BadInput) as refusal:
        compose([override], config)
    assert says in str(refusal.value)
