"""Every option is explained, wherever it stands."""

from collections.abc import Iterator
from typing import Any

import pytest
from omegaconf import OmegaConf
from rich.console import Console

from pyrite.cluster.config.compose import compose
from pyrite.cluster.config.explain import comments, explanations, show, summary_line
from pyrite.cluster.config.groups import CHOICES, CONF, group_options, option
from pyrite.cluster.config.parts import PARTS
from pyrite.cluster.config.signatures import defaults, explanations_of, first_line, read_args
from tests.cluster.config.test_configuration import FILES, targets

WITHOUT = ("experiment", "scale", "recipe", "pool_scale", "cut")
"""Groups whose files set what others explain."""


def paths(node: Any, at: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The paths of all options that hold a value."""
    for key, value in node.items():
        if isinstance(value, dict) and value:
            yield from paths(value, (*at, str(key)))
        elif not str(key).startswith("_") and key != "defaults":
            yield (*at, str(key))


@pytest.mark.by_day(7)
@pytest.mark.parametrize("path", [path for path in FILES if path.parent.name not in WITHOUT],
                         ids=lambda path: f"{path.parent.name}/{path.stem}")  # fmt: skip
def test_every_option_of_every_file_says_what_it_means(path):
    content = OmegaConf.to_container(OmegaConf.load(path))
    at = tuple(first.split()[2].split(".")) if (first := path.read_text().splitlines()[0]).startswith("# @pac") else ()
    at = () if at == ("_global_",) else at
    said = {key[len(at) :] for key in comments(path, ())}
    said |= {(*key, name) for key, node in targets(content) for name in explanations_of(node["_target_"])}
    assert not set(paths(content)) - said, f"{path} leaves options unexplained"


@pytest.mark.by_day(2)
@pytest.mark.parametrize("primary", ["config", "learn", "pool"])
def test_every_option_of_a_command_says_what_it_means(primary):
    config = compose([], primary)
    assert {key for key in paths(config) if key[0] != CHOICES} <= set(explanations(config, primary))


def test_comments_are_found_where_they_stand(tmp_path):
    file = tmp_path / "part.yaml"
    file.write_text(
        "# The part.\ndefaults:\n  - inner: none\n"
        "top:          # a mapping\n  first: '#1'  # with a # in quotes\n  second: [1, 2]\n"
        "third: x    # a text\n"
    )
    found = comments(file, ("group",))
    assert found["group", "top"] == "a mapping"
    assert found["group", "top", "first"] == "with a # in quotes"
    assert ("group", "top", "second") not in found
    assert found["group", "third"] == "a text"


NAMES = [(group, name) for group, names in group_options().items() if group not in WITHOUT for name in names]


@pytest.mark.by_day(20)
@pytest.mark.parametrize(("group", "name"), NAMES)
def test_every_argument_of_every_part_is_explained_and_every_name_has_a_summary_line(group, name):
    file = CONF / group / f"{name}.yaml"
    commented = set() if name in PARTS.get(group, {}) else {key[-1] for key in comments(file, ())}
    for _, node in targets(option(group, name)):
        target = node["_target_"]
        unexplained = set(defaults(target)) - set(explanations_of(target)) - commented
        assert not unexplained, f"{target} explains none of {', '.join(sorted(unexplained))}"
    assert summary_line(group, name).strip()


def test_an_argument_is_explained_by_its_class_or_a_base_in_every_form():
    assert "rank" in explanations_of("pyrite.sampling.selection.window.Window")["first"]
    assert "depth" in explanations_of("pyrite.sampling.retrieval.run_file.RunFile")
    assert explanations_of("torch.optim.Adam") == {}
    assert first_line("pyrite.sampling.selection.uniform.Uniform")
    docstring = (
        "A part.\n\nArgs:\n    lam: the weight, 0 to 1.\n    first, last: ranks,\n        from 1.\n"
        "    kind (str): `top` or\n\n        `random`.\n\nRaises:\n    BadInput: never.\n"
    )
    assert read_args(docstring) == {
        "lam": "the weight, 0 to 1", "first": "ranks, from 1", "last": "ranks, from 1", "kind": "`top` or `random`",
    }  # fmt: skip
    assert read_args("A part without arguments.") == {}


def test_options_are_shown_beside_what_they_mean_and_those_without_a_default():
    console = Console(width=500, no_color=True)
    with console.capture() as shown:
        show(["function=[bm25,dense]", "selector=window"], console)
    text = shown.get()
    assert "      every: 200                  # " in text
    assert "  ceiling: null                   # the highest score" in text
    for line in ("* selector=window", "* function=dense", "  function=random"):
        assert line in text
    assert str(CONF) not in text
    with console.capture() as shown:
        show([], console, "judge")
    assert "runs: ???" in shown.get()
    assert "* collection=" not in shown.get()
    with console.capture() as shown:
        show(["ranker=bi_encoder"], console)  # whose checkpoint has no default
    assert "checkpoint: ???" in shown.get()
