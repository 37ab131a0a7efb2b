import inspect
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from pyrite.cluster.config.build import EXTRAS, build, locate, missing_extra
from pyrite.cluster.config.compose import compose, texts_config
from pyrite.cluster.config.groups import CHOICES, CONF, group_options, groups_of, option
from pyrite.cluster.config.mine_command import mine_command
from pyrite.cluster.config.parts import PARTS
from pyrite.cluster.config.signatures import MISSING, SUPPLIED, defaults
from pyrite.pooling.adjudicators.fusion import Fusion
from pyrite.ranking.bounds import annotations_of, check_arguments
from pyrite.ranking.errors import BadInput
from pyrite.ranking.part import Part, config_of
from pyrite.rl.rewards import Reward
from pyrite.sampling.retrieval.function import RetrievalFunction
from pyrite.sampling.selection.uniform import Uniform

FILES = sorted(path for path in CONF.rglob("*.yaml") if path.parent != CONF)
LISTED = ("origin", "stopping", "track")
"""Groups of which several options are chosen together."""
ASKED = {"checkpoint": "FOLDER", "path": "file", "ids": "id"}
"""Values for options that have no default."""


def targets(node: Any, at: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
    """The path and content of each mapping with a _target_."""
    if isinstance(node, dict):
        if "_target_" in node:
            yield at, node
        for key, value in node.items():
            yield from targets(value, (*at, str(key)))


def parameters_of(target: str) -> Mapping[str, inspect.Parameter]:
    return inspect.signature(locate(target)).parameters


def plain(value: Any) -> Any:
    """A default as a configuration holds it."""
    if isinstance(value, Part) or is_dataclass(value):
        return config_of(value)
    return list(value) if isinstance(value, tuple) else value


@pytest.mark.by_day(42)
@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_every_file_names_a_class_and_only_options_that_it_has(path):
    content = OmegaConf.to_container(OmegaConf.load(path))
    assert isinstance(content, dict)
    for _, node in targets(content):
        unknown = set(node) - {"_target_", "_partial_", "defaults"} - set(parameters_of(node["_target_"]))
        assert not unknown, f"{path} sets what {node['_target_']} does not take"


@pytest.mark.by_day(34)
@pytest.mark.parametrize("target", sorted({target for parts in PARTS.values() for target in parts.values()}))
def test_options_read_from_source_are_those_of_the_signature(target):
    fields = getattr(locate(target), "FIELDS", ())
    declared = {
        each.name: MISSING if each.default is each.empty else each.default
        for each in parameters_of(target).values()
        if each.name not in {*SUPPLIED, *fields} and each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL)
    }
    found = defaults(target)
    assert found == {name: plain(value) for name, value in declared.items() if name in found}
    for name in set(declared) - set(found):  # an object, which a file of the part gives
        assert not isinstance(declared[name], int | float | str | bool | list | None), f"{target} hides {name}"


def test_no_name_is_both_a_file_and_an_entry_and_no_file_gives_the_default_of_its_class():
    assert not [path for path in FILES if path.stem in PARTS.get(path.parent.name, {})]
    repeated = [
        f"{path.parent.name}/{path.name}: {key}"
        for path in FILES
        for _, node in targets(OmegaConf.to_container(OmegaConf.load(path)))
        for key, value in defaults(node["_target_"]).items()
        if key in node and node[key] == value
    ]
    assert not repeated


EVERY = [(group, name) for group, names in group_options().items() for name in names]


@pytest.mark.by_day(14)
@pytest.mark.parametrize(("group", "name"), EVERY)
def test_every_name_composes(group, name):
    if group == "experiment":
        assert {"title", "methods"} <= set(option(group, name))
        return
    if group == "preset":
        assert option(group, name)["overrides"] == compose([f"preset={name}"], "pool")["preset"]["overrides"]
        return
    node = option(group, name)
    named = isinstance(node.get(name), dict)  # a part that is chosen together with others stands under its name
    inner = node[name] if named else node
    asked = [key for key, value in inner.items() if value == "???" and key != "of"]  # a part, by the file's defaults
    dotted = f"{group}.{name}" if named else group
    chosen = f"{group}=[{name}]" if group in LISTED else f"{group}={name}"
    primary = next((name for name in ("pool", "learn", "study") if group in groups_of(name)), "config")
    config = compose([chosen, *(f"{dotted}.{key}={ASKED[key]}" for key in asked)], primary)
    assert config[CHOICES][group] == name if group not in LISTED else name in config[group]


OF_EVERY_FUNCTION = {"count", "pick", "name"}
"""Written `negatives.NAME`, `selector.NAME` and `function=[CLASS@NAME]`."""


@pytest.mark.by_day(3)
@pytest.mark.parametrize(
    "group", ["objective", "policy", "selector", "function", "origin", "vectors", "method", "stopping"]
)
def test_every_part_that_needs_no_data_is_built_and_shows_what_its_class_does_by_default(group):
    for name in group_options()[group]:
        node = compose([f"{group}={name}"])[group] if name == "matryoshka" else option(group, name)
        node.pop("defaults", None)
        inner = {key: ASKED.get(key, value) if value == "???" else value for key, value in node.get(name, node).items()}
        parameters = inspect.signature(type(build(inner, trust="composed"))).parameters.values()
        named = {each.name for each in parameters if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)}
        missing = named - SUPPLIED - set(inner) - OF_EVERY_FUNCTION
        assert not missing, f"{group} {name} does not show {missing}"


OPTIONS = (
    "pyrite.ranking.terms.Bm25Options", "pyrite.ranking.encoding.Encoder", "pyrite.ranking.index.IndexOptions",
    "pyrite.rl.imitation.Imitation",
    "pyrite.rl.rewards.ValidationSampleOptions", "pyrite.sampling.retrieval.dense.Refresh",
)  # fmt: skip
"""Classes with bounds that no group lists."""


def test_every_part_refuses_an_argument_outside_its_bounds():
    """What each bound refuses is tested in `tests/ranking/test_bounds.py`; trackers are checked when built."""
    refused = 0
    parts = [target for group, parts in PARTS.items() if group != "track" for target in parts.values()]
    for target in [*OPTIONS, *parts]:
        part = locate(target)
        for argument in annotations_of(part.__init__):
            try:
                check_arguments(part.__init__, {argument: "nothing"})
            except BadInput:
                with pytest.raises(BadInput, match=f"{argument} is 'nothing'"):
                    part(**{argument: "nothing"})
                refused += 1
    assert refused > 150


def test_parts_within_parts_are_built_and_held_against_their_class():
    prior = "method.mm.arm.prior={_target_: pyrite.pooling.priors.AgreementPrior, strength: 3.0}"
    config = compose(["method=mm", prior], "pool")
    assert build(config["method"]["mm"], trust="composed").arm._prior.strength == 3.0
    config["method"]["mm"]["arm"]["prior"]["strength"] = "much"
    with pytest.raises(BadInput, match="AgreementPrior: strength is 'much'"):
        build(config["method"]["mm"], trust="composed")
    config["method"]["mm"]["arm"] = {"_target_": "pyrite.pooling.priors.CommonPrior"}
    with pytest.raises(BadInput, match="arm of MM"):
        build(config["method"]["mm"], trust="composed")


def test_policies_bring_functions_and_rankers_their_objective_and_overrides_cut_scales():
    assert list(compose([])["function"]) == ["bm25"]
    assert list(compose(["policy=random"])["function"]) == ["random", "bm25"]
    assert list(compose(["policy=random", "function=[tfidf,random]"])["function"]) == ["tfidf", "random"]
    assert compose(["ranker=match_pyramid"])[CHOICES]["objective"] == "pointwise"
    assert compose(["ranker=match_pyramid", "objective=hinge"])[CHOICES]["objective"] == "hinge"
    assert compose(["scale=tiny"])["training"]["max_epochs"] == 2
    assert compose(["scale=tiny", "training.max_epochs=7"])["training"]["max_epochs"] == 7


@pytest.mark.parametrize("target", ["foo.Bar", "sampling.nothing.Bar", "Bar", "pyrite.sampling.sampler"])
def test_a_class_that_is_not_there(target, capfd):
    with pytest.raises(BadInput, match=target):
        build({"_target_": target}, trust="composed")
    assert not capfd.readouterr().err


def test_options_of_a_class_are_called_as_the_user_calls_them():
    node = {"_target_": "pyrite.sampling.selection.window.Window", "last": "far"}
    with pytest.raises(BadInput, match=r"^selector\.last is 'far'"):
        build(node, "selector", trust="composed")
    with pytest.raises(BadInput, match=r"no option selector\.from; Window has first, last, ceiling, pick"):
        build({"_target_": node["_target_"], "from": 3}, "selector", trust="composed")
    with pytest.raises(BadInput, match="Selector has no select"):
        build({"_target_": "pyrite.sampling.selection.selector.Selector"}, trust="composed")


class TakesLess(Uniform):
    def select(self, batch, count): ...


class TakesMore(Uniform):
    def select(self, batch, function, count, training, rng, extra): ...


class OtherNames(Uniform):
    def select(self, batch, function, count, training, generator, extra=None): ...

    def independent_helper(self): ...


class AnyArguments(RetrievalFunction):
    def prepare(self, *arguments): ...

    def sample(self, batch, *others, **options): ...

    top = sample


def test_a_method_that_can_not_be_called_as_the_base_s_is_refused_when_the_class_is_built():
    called = r"is called with \(self, batch, function, count, training, rng\); write def select\(self, batch, function"
    for own in (TakesLess, TakesMore):
        with pytest.raises(BadInput, match=rf"{own.__name__}\.select: takes \(self, batch, .*{called}"):
            build({"_target_": f"{__name__}.{own.__name__}"}, trust="composed")
    for own in (OtherNames, AnyArguments):
        assert isinstance(build({"_target_": f"{__name__}.{own.__name__}"}, trust="composed"), own)


class Forgets(Reward):
    def __init__(self, mine=1):
        self.mine = mine

    def of(self, outcome):
        return 0.0


class ForgetsToo(Fusion):
    def __init__(self, k=60):
        self.k = k

    def rank_weight(self, ranks):
        return 1 / (self.k + ranks)


class Remembers(Forgets):
    def __init__(self, mine=1):
        Reward.__init__(self, scale=2.0)
        super().__init__(mine)


def test_a_constructor_that_leaves_out_the_base_s_is_refused_when_the_class_is_built():
    with pytest.raises(BadInput, match=r"Forgets.__init__: does not call that of Reward; begin it with super\(\)"):
        build({"_target_": f"{__name__}.Forgets"}, trust="composed")
    with pytest.raises(BadInput, match=r"ForgetsToo.__init__: does not call that of Fusion; begin it"):
        build({"_target_": f"{__name__}.ForgetsToo"}, trust="composed")
    assert build({"_target_": f"{__name__}.Remembers"}, trust="composed").scale == 2.0


class Bare:
    """Arguments without annotations, as if it were ours."""

    __module__ = "pyrite.sampling.selection.window"

    def __init__(self, depth, lam=0.5):
        self.depth, self.lam = depth, lam


def test_arguments_need_no_annotations():
    assert build({"_target_": f"{__name__}.Bare", "depth": 7}, trust="composed").depth == 7
    with pytest.raises(BadInput, match="Bare has no option width; Bare has depth, lam"):
        build({"_target_": f"{__name__}.Bare", "width": 7}, trust="composed")


class Own:
    """Takes one of the options of feed_forward."""

    def __init__(self, categories: bool = False, width: int = 8) -> None:
        self.categories, self.width = categories, width


def test_a_class_in_the_place_of_a_part_has_its_own_options():
    target = f"{__name__}.Own"
    config = compose([f"ranker._target_={target}", "+ranker.width=4"])
    assert config["ranker"] == {"_target_": target, "categories": False, "width": 4}
    assert config[CHOICES]["ranker"] == "Own"
    assert compose([])[CHOICES]["ranker"] == "feed_forward"


READ = ["collection=pairs", "collection.path='data/pairs.csv'", "collection.positive=Answer text"]


def test_the_mine_command_draws_what_the_run_drew():
    given = [*READ, "function=[in_batch,bm25]", "negatives.bm25=3", "policy=fixed", "selector=uniform", "seed=3"]
    command = mine_command([*given, "function.bm25.depth=50", "guard.relative=.05"])
    assert command == (
        "pyrite mine collection=pairs collection.path=data/pairs.csv 'collection.positive=Answer text' "
        "guard.relative=.05 function=bm25 function.bm25.depth=50 selector=uniform guard.positive=lowest count=3"
    )
    config = compose(shlex.split(command)[2:], "mine")
    assert config["function"]["bm25"]["depth"] == 50
    assert (config["count"], config["guard"]["relative"]) == (3, 0.05)


def test_a_function_without_a_number_has_that_of_all():
    command = mine_command(
        [*READ, "function=[random,bm25]", "negatives.bm25=1", "sampling.negatives=5", "policy=fixed"]
    )
    assert "negatives.random=5 negatives.bm25=1" in command


def test_several_functions_keep_their_counts_and_selectors():
    counts = ["function=[random,bm25]", "negatives.bm25=2", "negatives.random=1"]
    command = mine_command([*READ, *counts, "policy=fixed", "selector=uniform", "selector.bm25=top"])
    assert command is not None
    assert "'function=[random,bm25]' selector=uniform selector.bm25=top negatives.random=1 negatives.bm25=2" in command
    # Where a ranker chooses, its place is named.
    command = mine_command([*READ, "function=bm25", "selector=simans", "selector.a=2", "policy=fixed"])
    assert command.endswith("selector=simans selector.a=2 count=4 checkpoint=YOUR_MODEL")


def test_the_mine_command_has_all_that_decides_what_is_drawn():
    """The candidates of the policy, corrected judgements and what is done with faults."""
    given = ["function=[in_batch,bm25]", "negatives.bm25=1", "policy=fixed", "policy.candidates=64", "policy.b=inf"]
    command = mine_command([*READ, *given, "relabel=audited.txt", "strict=false"])
    assert command.endswith(
        "policy.candidates=64 policy.b=inf relabel=audited.txt strict=false function=bm25 selector=uniform count=1 "
        "checkpoint=YOUR_MODEL"
    )
    config = compose(shlex.split(command)[2:], "mine")
    assert (config["policy"]["candidates"], config["relabel"], config["strict"]) == (64, "audited.txt", False)
    assert texts_config(config)["relabel"] == "audited.txt"
    random = mine_command([*READ, "function=random", "policy=fixed", "policy.candidates=64"])
    assert "checkpoint" not in random  # it has no list whose documents could be scored


@pytest.mark.parametrize(
    "overrides",
    [
        "selector=margin_balanced teacher=bm25",
        "function=[bm25,random] negatives.bm25=1 selector.bm25=margin_balanced teacher=bm25",
        "selector=adversarial",
        "selector=error_reduction selector.probability=objective",
        "function=memory",
    ],
)
def test_what_needs_a_training_is_not_mined(overrides):
    with pytest.raises(BadInput, match="needs a training"):
        mine_command([*READ, "function=bm25", "policy=fixed", *overrides.split()])


@pytest.mark.parametrize(
    "overrides",
    ["function=in_batch", "function=[in_batch,bm25] negatives.bm25=0", "function=[bm25,random] policy=mixture"],
)
def test_what_needs_no_mining_has_no_command(overrides):
    assert mine_command([*READ, "policy=fixed", *overrides.split()]) is None


def test_a_missing_extra_says_what_to_install():
    hidden = dict.fromkeys(module for module, extra in EXTRAS.items() if extra == "judge")
    program = (
        f"import sys; sys.modules |= {hidden}\n"
        "from pyrite.cluster.commands.cli import main; main(['judge', 'runs=somewhere', 'collection=pydocs'])"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ended.returncode == 2, ended.stdout + ended.stderr
    assert "pip install 'pyrite-ir[judge]'" in ended.stderr.splitlines()[-1]


def test_a_module_of_an_extra_is_told_from_any_other_and_extras_are_those_of_the_package():
    assert missing_extra(ModuleNotFoundError("no", name="colours")) is None
    assert "pyrite-ir[judge]" in str(missing_extra(ModuleNotFoundError("no", name="uvicorn")))
    with (Path(__file__).parents[3] / "pyproject.toml").open("rb") as file:
        extras = tomllib.load(file)["project"]["optional-dependencies"]
    assert set(EXTRAS.values()) <= set(extras)
    assert {line.partition(">")[0] for line in extras["judge"]} == {m for m, of in EXTRAS.items() if of == "judge"}
    assert f"pyrite-ir[{','.join(sorted({*EXTRAS.values(), 'hub', 'peft', 'track'}))}]" in extras["dev"]
