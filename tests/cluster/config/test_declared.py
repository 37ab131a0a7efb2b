"""Options of a verb are declared once: name, type, default and explanation."""

import pytest

from pyrite.cluster.config.compose import compose
from pyrite.cluster.config.declared import absent, explained, options_of
from pyrite.cluster.config.groups import CONF, chosen_by_default
from pyrite.cluster.config.schema import SHAPES
from pyrite.cluster.config.signatures import MISSING
from pyrite.cluster.config.yaml_file import read_yaml
from pyrite.ranking.errors import BadInput


@pytest.mark.parametrize("primary", SHAPES)
def test_a_primary_file_only_chooses_parts_and_every_other_option_has_a_type_a_default_and_an_explanation(primary):
    assert read_yaml(CONF / f"{primary}.yaml").keys() == {"defaults"}
    options, explanations = options_of(primary), dict(explained(SHAPES[primary]))
    assert options.keys() == SHAPES[primary].model_fields.keys() - chosen_by_default(primary).keys()
    whole = {"sampling", "limits", "resources", "index", "validation", "training"}
    assert not {name for name in options if (name,) not in explanations} - whole
    assert all(
        (name, inner) in explanations for name in whole - {"training"} & options.keys() for inner in options[name]
    )


def test_defaults_are_the_declared_ones_and_those_of_the_classes():
    options = options_of("config")
    assert (options["seed"], options["limits"]["train"], options["save_every"]) == (0, None, 30)
    assert options_of("learn")["save_every"] == 60
    assert options_of("audit")["studies"] == options_of("rank")["checkpoint"] == MISSING
    config = compose([])
    assert config["guard"]["_target_"] == options["guard"]["_target_"]
    assert (config["training"]["patience"], config["training"]["_partial_"]) == (2, True)
    assert not config["training"].keys() & {"ranker", "validation", "batches"}  # given by a run
    assert compose(["scale=tiny"])["limits"] == {"examples": 512, "train": 256, "dev": 50, "test": 50}


@pytest.mark.parametrize(("removed", "key"), [("~seed", "seed"), ("~sampling.recorded", "sampling.recorded")])
def test_an_option_that_is_removed_is_missed(removed, key):
    with pytest.raises(BadInput, match=f"there must be an option {key}"):
        compose([removed])
    assert absent(compose([]), "config") is None


def test_what_is_changed_in_a_composed_configuration_leaves_the_declaration_alone():
    compose([])["limits"]["train"] = 3
    assert options_of("config")["limits"]["train"] is None
