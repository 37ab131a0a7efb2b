"""Tests that options with names from other tools are refused with the option here."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cluster.config.compose import compose
from cluster.config.groups import group_options
from cluster.config.other_names import ADVICE, SAME_VALUE, suggestion
from ranking.errors import BadInput

GLOSSARY = Path(__file__).parents[3] / "docs" / "reference" / "glossary.md"


@pytest.mark.parametrize(
    ("override", "instead"),
    [
        ("epochs=3", "training.max_epochs=3"),
        ("num_negatives=4", "sampling.negatives=4"),
        ("metric=nDCG@10", "validation.measure=nDCG@10"),
        ("learning_rate=0.1", "optimizer.lr=0.1"),
        ("model=static", "ranker=static"),
        ("model=models/minilm", "ranker=bi_encoder ranker.checkpoint=models/minilm"),
        ("data=pairs.csv", "collection=pairs collection.path=pairs.csv"),
        ("training.epochs=3", "training.max_epochs=3"),
        ("function.bm25.k=1", "function.bm25.k1=1"),
        ("training.batchsize=8", "training.batch_size=8"),
        ("sampling.guard.relativ=0.1", "sampling.guard.relative=0.1"),
        ("range_min=10", "selector=window selector.first=10"),
    ],
)
def test_a_name_from_another_tool_is_answered_with_the_option(override: str, instead: str) -> None:
    with pytest.raises(BadInput) as refusal:
        compose([override])
    assert str(refusal.value).endswith(f"did you mean {instead}?")


def test_a_misspelt_option_without_a_default_is_answered_with_it() -> None:
    with pytest.raises(BadInput, match=r"no option collection\.pth; collection has .* mean collection\.path=x\?$"):
        compose(["collection=pairs", "collection.pth=x"])


@pytest.mark.parametrize("text", ["methods=[{label: a, overrides: [function=bm25]}]", "methods=[bm25]"])
def test_methods_in_another_notation_are_answered_with_the_right_one(text: str) -> None:
    with pytest.raises(BadInput, match=r"give 'methods=\[\{label:NAME,overrides:\[\"function=bm25\",…\]\},…\]'"):
        compose([text], "study")


def test_every_suggested_option_exists() -> None:
    for option in set(SAME_VALUE.values()) - {"out", "samples", "seeds", "track"}:  # of a study
        group = option.partition(".")[0]
        brings = {"selector": ["selector=window"], "ranker": ["ranker=bi_encoder", "ranker.checkpoint=x"],
                  "objective": ["objective=contrastive"]}.get(group, [])  # fmt: skip
        node = compose(brings)
        for key in option.split("."):
            assert key in node, option
            node = node[key]


def test_every_option_name_of_the_glossary_is_known() -> None:
    table = GLOSSARY.read_text(encoding="utf-8").split("## Names in other tools")[1]
    rows = re.findall(r"^\| (.+?) \| .+ \|$", table, re.MULTILINE)
    words = {word for row in rows for word in re.findall(r"`([a-z]+(?:_[a-z]+)+)`", row)}
    assert {"num_negatives", "num_train_epochs"} <= words
    assert words <= {*SAME_VALUE, *ADVICE}


def test_no_name_is_an_option_here_already() -> None:
    assert not {*SAME_VALUE, *ADVICE} & (set(compose([])) | set(group_options()) - {"data"}) - {"scheduler"}


def test_an_unknown_name_has_no_suggestion() -> None:
    assert suggestion("colour=red") is None


def test_a_number_of_negatives_for_all_functions_is_explained() -> None:
    with pytest.raises(BadInput, match=r"for all functions give sampling\.negatives=4"):
        compose(["negatives=4"])


def test_options_of_hydra_are_refused() -> None:
    with pytest.raises(BadInput, match=r"hydra\.run\.dir=x: Hydra's own options have no effect here"):
        compose(["hydra.run.dir=x"])
    with pytest.raises(BadInput, match="no effect here"):
        compose(["hydra/launcher=x"])
