"""Names that a group does not have: each suggestion is followed until a command's checks pass."""

import re

import pytest

from pyrite.cluster.config.compose import compose
from pyrite.cluster.config.groups import chosen_by_default, group_options
from pyrite.cluster.config.meant import no_name
from pyrite.cluster.config.other_parts import NAMES, OF_NAME, name_here
from pyrite.cluster.config.validate import check_run
from pyrite.cluster.plan.pool_methods import split
from pyrite.ranking.errors import BadInput

MEANT = re.compile(r"did you mean (.+)\?$")
VERBS = ("config", "learn", "pool", "study")
GROUPS = {group: next((verb for verb in VERBS if group in chosen_by_default(verb)), None) for group in group_options()}
TYPED = sorted(group for group, verb in GROUPS.items() if verb and group not in ("recipe", "cut"))
"""The groups that users choose from."""
INPUTS = {
    "checkpoint": "/a",
    "path": "/a",
    "ids": "a",
    "mix": "[/a,/b]",
    "teacher": "bm25",
    "ranker": "static",
    "dimensions": "[8]",
}
"""What is given for an input that a part asks for."""


def meant(group: str, name: str) -> str:
    """Return what the refusal of a name suggests."""
    found = MEANT.search(str(no_name(group, name, group_options()[group])))
    assert found, f"{group}={name}"
    return found[1]


def followed(group: str, name: str) -> list[str]:
    """Return the overrides that a command's checks accept, from a refused name."""
    overrides, verb = [f"{group}={name}"], GROUPS[group]
    for _ in range(4):
        try:
            config = compose(overrides, verb)
            if verb == "config":
                check_run(config, None)
            return overrides
        except BadInput as refused:
            said = str(refused)
        if found := MEANT.search(said):
            overrides = found[1].split() if "=" in found[1] else [f"{group}={found[1]}"]
            continue
        asked = re.search(r"give it with ([\w.]+)=|choose (teacher|ranker)=|^([\w.]+): dimensions is empty", said)
        assert asked, said
        key = next(filter(None, asked.groups()))
        overrides.append(f"{key}={INPUTS[key.rpartition('.')[2]]}")
    raise AssertionError(f"{overrides}: {said}")


@pytest.mark.parametrize("group", TYPED)
def test_a_misspelt_name_leads_to_the_name(group):
    for name in group_options()[group]:
        if len(name) > 4:
            assert meant(group, f"{name[0]}{name[2]}{name[1]}{name[3:]}") == name
            assert meant(group, name.replace("_", "-").title()) == name


@pytest.mark.by_day(8)
@pytest.mark.parametrize("group", TYPED)
def test_a_misspelt_group_leads_to_the_group(group):
    """Also one that is left out unless it is chosen, and one whose choice asks for a path next."""
    name = next(iter(group_options()[group]))
    misspelt = f"{group[:-2]}{group[-1]}"
    with pytest.raises(BadInput) as refused:
        compose([f"{misspelt}={name}"], GROUPS[group])
    assert str(refused.value) == f"there is no option {misspelt}; did you mean {group}={name}?"


@pytest.mark.by_day(6)
@pytest.mark.parametrize("group", OF_NAME)
def test_each_name_elsewhere_leads_to_a_command_that_is_accepted(group):
    known = group_options()[group]
    assert not {word for word in NAMES[group] if word in known or name_here(group, word) not in known}
    for words in OF_NAME[group].values():
        word, *others = words.split()
        overrides = followed(group, word)
        assert all(overrides[0].startswith(f"{group}={meant(group, other)}") for other in others)


@pytest.mark.parametrize(
    ("text", "verb", "expected"),
    [
        ("function=[in_batch,bm52]", "config", "did you mean bm25?"),
        ("function=bm52", "mine", "did you mean bm25?"),
        ("scale=smal", "config", "did you mean small?"),
        ("objective=InfoNCE", "config", "did you mean softmax?"),
        ("objective=[kl,contrastiv]", "config", "did you mean contrastive?"),
        ("selector.bm25=topp", "config", "did you mean top?"),
        ("origin=[all]", "config", "did you mean full?"),
        ("ranker=org/model", "config", "did you mean ranker=bi_encoder ranker.checkpoint=org/model?"),
        ("ranker=biencoder", "mine", "did you mean bi_encoder?"),
        ("experiment=encodr", "study", "did you mean encoder?"),
        ("collection=medquard", "config", "a file or folder of yours is named by its path: collection.path=FILE"),
    ],
)
def test_a_value_is_refused_with_the_name_that_is_meant(text, verb, expected, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadInput) as refused:
        compose([text], verb)
    assert expected in str(refused.value)


def test_a_method_of_a_pool_is_suggested():
    with pytest.raises(BadInput, match=r"did you mean mtf\?"):
        split(["method=mm,mff"])


def test_a_file_here_is_meant_by_a_collection_of_its_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pairs.csv").write_text("query,passage\na,b\n")
    (tmp_path / "medquad").mkdir()
    assert meant("collection", "pair.csv") == "collection.path=pairs.csv"
    assert meant("collection", "medquard") == "collection.path=medquad"
    assert meant("collection", "pydoc") == "pydocs"


def test_an_option_that_takes_a_list_is_suggested_with_one():
    with pytest.raises(BadInput, match=r"no option budget; did you mean budgets=\[10\]\?"):
        compose(["runs=runs", "qrels=qrels.txt", "budget=10"], "pool")


def test_a_collection_that_is_asked_for_may_be_a_path():
    with pytest.raises(BadInput, match=r"no default; choose one of beir, .*path: collection.path=FILE; see"):
        compose([], "judge")


def test_a_checkpoint_is_asked_for_in_the_words_of_the_verb():
    for verb, key in (("mine", "checkpoint"), ("config", "ranker.checkpoint")):
        with pytest.raises(BadInput, match=rf"starts from no checkpoint; name one by {key}=FOLDER"):
            compose(["guard.ranker=itself", "guard.relative=0.05"], verb)
