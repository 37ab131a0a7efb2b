"""Studies and minings described with objects compose the configuration of the command line."""

import doctest
import importlib
import inspect
import io
import json
import re
import runpy
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
import yaml
from hydra.core.override_parser.overrides_parser import OverridesParser
from rich.console import Console

import pyrite
import pyrite.sampling.selection.simans
from pyrite import BM25, Collection, Function, Guard, InBatch, Negatives, Random, RandomPolicy, Schedule, SimANS, Static
from pyrite.analysis.statistics.summary import COSTS
from pyrite.cluster.commands import judge
from pyrite.cluster.config.agents import actions_of
from pyrite.cluster.config.build import build, locate
from pyrite.cluster.config.compose import compose
from pyrite.cluster.config.groups import group_options, name_of, option
from pyrite.cluster.config.parts import BASES, PARTS
from pyrite.cluster.config.validate import check_run
from pyrite.cluster.output.lock import output_lock
from pyrite.cluster.output.storage import Storage
from pyrite.cluster.plan.sweep import identity
from pyrite.cluster.rollouts.request import compose_learning
from pyrite.data import as_collection
from pyrite.parts import overrides, written
from pyrite.pooling.adjudicators.bandit.bandit import Bandit
from pyrite.pooling.adjudicators.moffat import MoffatA
from pyrite.pooling.adjudicators.uniform import AnyRun
from pyrite.ranking.collections.cache import open_collection
from pyrite.ranking.collections.reader import DOCUMENTS, JUDGEMENTS, QUERIES, Reader
from pyrite.ranking.errors import BadInput
from pyrite.ranking.objectives.pairwise import Hinge
from pyrite.ranking.part import config_of, path_of
from pyrite.ranking.rankers.ranker import Ranker
from pyrite.ranking.trec_files import read_qrels
from pyrite.sampling.policies.policy import SamplingPolicy
from pyrite.sampling.retrieval.function import CandidateBatch, RetrievalFunction
from pyrite.sampling.selection.selector import Selector
from tests.made_up import write_beir, write_runs

MODULES = ["", "comparison", "data", "models", "parts", "pools", "public", "results", "verbs"]


class Bottom(Selector):
    """A selector of the user's own."""

    def __init__(self, candidates: int = 8) -> None:
        self.candidates = candidates

    def select(self, batch, function, count, training, rng):  # type: ignore[no-untyped-def]
        return function.sample(batch, count, rng)


class Forgetful(Bottom):
    """A selector that keeps its argument under another name."""

    def __init__(self, candidates: int = 8) -> None:
        self.kept = candidates


class Doubling(Bottom):
    """A selector that keeps another number than it was given."""

    def __init__(self, candidates: int = 8) -> None:
        self.candidates = 2 * candidates


class Anything(Bottom):
    """A selector whose arguments have no names."""

    def __init__(self, **options: int) -> None:
        super().__init__(**options)


class Weighed(Bottom):
    """A selector with a mapping and a list."""

    def __init__(self, shares: dict[str, float] = {}, ranks: list[int] = [1]) -> None:  # noqa: B006
        self.shares, self.ranks = shares, ranks


class Wide(Ranker):
    """A ranker of the user's own, with an option."""

    def __init__(self, width: int = 2) -> None:
        super().__init__()
        self.width = width

    represent_queries = represent_documents = interact = layers = None  # type: ignore[assignment]


class Nearby(RetrievalFunction):
    """A retrieval function of the user's own: the next documents of the collection."""

    def __init__(self, reach: int = 5) -> None:
        self.reach = reach

    def prepare(self, encoded, lists):  # type: ignore[no-untyped-def]
        self.size = len(encoded.documents)

    def sample(self, batch, count, rng):  # type: ignore[no-untyped-def]
        documents = (batch.positives[:, None] + 1 + np.arange(count)) % self.size
        return CandidateBatch(documents, np.full(documents.shape, np.nan, np.float32))

    top = sample


class Masked(InBatch):
    """A subclass of the user's own."""


class EasyFirst(SamplingPolicy):
    """A policy of the user's own."""

    def __init__(self, updates: int = 20) -> None:
        self.updates = updates

    def choose(self, batch, training, rng):  # type: ignore[no-untyped-def]
        return np.full(len(batch), int(training.step >= self.updates))


@pytest.mark.parametrize("module", MODULES)
def test_examples_in_docstrings_run(module):
    loaded = importlib.import_module(f"pyrite.{module}".rstrip("."))
    names = vars(pyrite) | vars(loaded)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    for test in doctest.DocTestFinder().find(loaded, globs=dict(names)):
        runner.run(test)
    assert runner.summarize(verbose=False).failed == 0


def test_public_names_are_those_that_an_editor_sees():
    assert dir(pyrite) == sorted([*pyrite.__all__, "__version__"])
    assert not [name for name in pyrite.__all__ if name.startswith("_")]
    assert pyrite.SimANS is pyrite.sampling.selection.simans.SimANS
    for name in pyrite.__all__:
        thing = getattr(pyrite, name)
        assert not inspect.isclass(thing) or thing.__name__ == name or name in ("Function", "Policy")
    with pytest.raises(AttributeError, match=r"pyrite\.Training is called pyrite\.TrainingResult now"):
        pyrite.Training  # noqa: B018
    with pytest.raises(AttributeError, match="has no attribute 'np'"):
        pyrite.np  # noqa: B018


def test_objects_list_their_public_names(own_cache):
    objects = [study_of(), pyrite.Pool("runs"), Collection.pydocs(), pyrite.StudyResult("nowhere")]
    for thing, name in zip(objects, ("run", "simulate", "counts", "verdict"), strict=True):
        assert name in dir(thing)
        assert not [each for each in dir(thing) if each.startswith("_")]
    shown = "Study(pyrite study collection=pydocs ", "Pool('runs', method=PosteriorFusion())", "Collection(Pydocs())"
    for thing, text in zip(objects, shown, strict=False):
        assert repr(thing).startswith(text)


def test_importing_pyrite_loads_no_part():
    heavy = ("ray", "hydra", "omegaconf", "cluster", "torch", "numpy", "polars", "sampling")
    script = f"import sys, pyrite; print(*[name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def classes_by_name() -> dict[str, dict[str, type]]:
    """The public classes of parts, by group and name."""
    found: dict[str, dict[str, type]] = {}
    for kind in (getattr(pyrite, name) for name in pyrite.__all__):
        for group, base in BASES.items():
            name = name_of(group, path_of(kind)) if inspect.isclass(kind) and issubclass(kind, locate(base)) else None
            if name:
                found.setdefault(group, {})[name] = kind
    return found


LEFT_OUT = {
    "objective": {"sir_v0"},
    "selector": {"learned"},
}
"""Names that have no public class."""


@pytest.mark.parametrize("group", ["function", "method", "objective", "policy", "ranker", "selector"])
def test_every_name_of_a_group_is_a_public_class(group):
    missing = set(group_options()[group]) - classes_by_name()[group].keys() - LEFT_OUT.get(group, set())
    assert not missing


@pytest.mark.parametrize("group", ["function", "method", "objective", "policy", "selector"])
def test_a_part_and_its_name_build_the_same(group):
    """The class without arguments is what the name stands for, and the configuration builds it again."""
    for name, kind in classes_by_name()[group].items():
        node = option(group, name)
        node = {key: value for key, value in node.get(name, node).items() if key != "defaults"}
        if "???" in node.values():
            continue
        assert config_of(kind()) == {"_target_": path_of(kind)}
        whole = build(node, trust="composed")
        assert type(whole) is kind
        assert config_of(build(config_of(whole), trust="composed")) == config_of(whole)
        assert repr(kind()) == f"{kind.__name__}()"


@pytest.mark.parametrize("kind", [BM25, SimANS, Schedule, pyrite.Refined, pyrite.MM, pyrite.SIR, Nearby, EasyFirst])
def test_signatures_name_types_bounds_and_defaults(kind):
    signature = inspect.signature(kind)
    fields = {"count", "pick", "name", "functions"}  # of a user's class that does not declare them
    assert all(each.annotation is not each.empty for each in signature.parameters.values() if each.name not in fields)
    shown = str(signature)
    expected = {
        BM25: ("count: 'Annotated[int, NonNegative] | None' = None", "k1: 'Annotated[float, NonNegative]' = 0.9"),
        SimANS: ("a: 'Annotated[float, NonNegative]' = 1.0",),
        Schedule: ("*functions: 'RetrievalFunction'", "shape: \"Literal['linear', 'switch']\" = 'linear'"),
        pyrite.Refined: ("= (0.2, 0.3, 0.5)", "= 'negative'"),
        pyrite.MM: ("= MaxMean()", "rate: 'Annotated[float, Fraction]' = 1.0"),
        pyrite.SIR: ("condition: \"Literal['softmax', 'product']\" = 'softmax'",),
        Nearby: ("reach: int = 5", "count=None, pick=None, name=None"),
        EasyFirst: ("(*functions, updates: int = 20)",),
    }
    assert all(text in shown for text in expected[kind]), shown


@pytest.mark.by_day(2)
@pytest.mark.parametrize(
    ("negatives", "line"),
    [
        (InBatch(), "policy=fixed function=in_batch selector=uniform"),
        (
            BM25(k1=1.2, pick=SimANS(a=2.0)),
            "policy=fixed function=bm25 function.bm25.k1=1.2 selector=simans selector.a=2.0",
        ),
        (
            InBatch(hard=True) + BM25(2, pick=pyrite.Window(last=20)),
            "policy=fixed function=[in_batch,bm25] function.in_batch.hard=true negatives.bm25=2 selector=uniform "
            "selector.bm25=window selector.bm25.last=20",
        ),
        (
            Schedule(Random(), BM25(depth=50), epochs=3),
            "policy=schedule policy.epochs=3 function=[random,bm25] function.bm25.depth=50 selector=uniform",
        ),
        (RandomPolicy(BM25(), Random()), "policy=random function=[bm25,random] selector=uniform"),
        (
            BM25(name="plain") + BM25(stemming=None, name="unstemmed"),
            "policy=fixed function=[bm25@plain,bm25@unstemmed] function.unstemmed.stemming=null selector=uniform",
        ),
        (
            InBatch(guard=Guard(relative=0.0, ranker="GUIDE")),
            "policy=fixed function=in_batch function.in_batch.guard.relative=0.0 function.in_batch.guard.ranker=GUIDE",
        ),
        (
            InBatch(guard=Guard(absolute=0.1, ranker=pyrite.TrainingResult("GUIDE"))),
            "policy=fixed function=in_batch function.in_batch.guard.absolute=0.1 function.in_batch.guard.ranker=GUIDE",
        ),
    ],
    ids=repr,
)  # fmt: skip
def test_negatives_are_the_same_run_as_on_the_command_line(negatives, line):
    from_objects = compose(["ranker=static", *overrides(negatives)])
    assert identity(from_objects) == identity(compose(["ranker=static", *line.split()]))


def test_an_object_of_the_users_own_brings_its_arguments():
    line = overrides(InBatch() + BM25(1, pick=Bottom(candidates=3)))
    assert compose(["ranker=static", *line])["selectors"]["bm25"] == {"_target_": f"{__name__}.Bottom", "candidates": 3}
    function = compose(["ranker=static", *overrides(pyrite.Negatives(InBatch(), Nearby(reach=7)))])["function"]
    assert function["nearby"] == {"_target_": f"{__name__}.Nearby", "reach": 7}
    masked = compose(["ranker=static", *overrides(Masked(guard=Guard(relative=0.0, ranker="GUIDE")))])["function"]
    assert masked["masked"]["guard"]["ranker"] == {"_target_": PARTS["teacher"]["ranker"], "checkpoint": "GUIDE"}
    for own in (Negatives(Random(), BM25(), policy=EasyFirst(updates=3)), EasyFirst(Random(), BM25(), updates=3)):
        config = compose(["ranker=static", *overrides(own)])
        assert config["policy"] == {"_target_": f"{__name__}.EasyFirst", "updates": 3}
        assert list(config["function"]) == ["random", "bm25"]
    for kind in (Bottom, Forgetful, Doubling, Anything):  # however it keeps its argument
        assert overrides(kind(candidates=4))[-1] == "++selector.candidates=4"
    with pytest.raises(BadInput, match=r"shares: <function .* is no value of an option"):
        overrides(BM25(1, pick=Weighed(shares=lambda rank: rank)))  # type: ignore[arg-type]

    class Inner(Bottom):
        """A selector that no run can import."""

    with pytest.raises(BadInput, match=r"Inner: is defined inside a function or class, where no run can import it"):
        overrides(BM25(1, pick=Inner()))


def test_mappings_arrays_and_parts_are_options_of_the_users_own_classes():
    chosen = BM25(1, pick=Weighed({"a": 0.5}, np.array([1, 2])))
    node = compose(["ranker=static", *overrides(InBatch() + chosen)])["selectors"]["bm25"]
    assert node == {"_target_": f"{__name__}.Weighed", "shares": {"a": 0.5}, "ranks": [1, 2]}
    assert compose(["ranker=static", *overrides(chosen)])["selector"] == node
    arm = next(text for text in pyrite.Pool("runs").overrides(Bandit(AnyRun())) if "arm" in text)
    assert arm == "+method.bandit.arm={_target_:pyrite.pooling.adjudicators.uniform.AnyRun}"
    assert "+function.nearby._target_" in overrides(Nearby() + BM25(1))[2]
    objects = pyrite.Study(pyrite.Collection.pydocs(), {"a": BM25}, [Wide(width=3)])
    assert f"ranker._target_={__name__}.Wide" in objects.command
    assert "++ranker.width=3" in objects.command


def study_of(negatives: object = None, rankers: object = (), **arguments: object) -> pyrite.Study:
    """Return a study of the documentation, of a single method unless others are given."""
    return pyrite.Study(pyrite.Collection.pydocs(), negatives or {"a": BM25()}, rankers, **arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: SimANS(a=-1), "a is -1"),
        (lambda: BM25(depht=5), "BM25 has no argument depht; it has count, depth, k1"),
        (lambda: BM25(-1), "count is -1"),
        (lambda: BM25() + BM25(), "two functions are called BM25; give one of them a name, as BM25(name="),
        (lambda: overrides(BM25(name="in_batch") + InBatch()), "two functions have one name"),
        (lambda: BM25(pick=Hinge()), "pick of BM25: Hinge() is no selector"),
        (lambda: BM25(pick="simans"), "'simans' is no selector; give one of pyrite's, as SimANS(), or an object of"),
        (lambda: overrides(3), "3 is no part; give a collection, a function"),
        (lambda: Negatives(Random(), policy=BM25()), "BM25() is no policy"),
        (lambda: overrides(Schedule()), "Schedule(): has no functions to choose among; give them first"),
        (lambda: pyrite.Bandit(), "arm: a bandit needs an index; give one, as MaxMean(), or choose a method"),
        (lambda: pyrite.Method.named("hedge"), "Method.named is gone; each method is a class, as pyrite.Hedge()"),
        (lambda: BM25(np.bool_(True)), "count is np.True_"),
        (lambda: overrides(pyrite.Mixture(Random(), BM25(), weights={1, 2})), "policy.weights: {1, 2} is no value of"),
        (lambda: BM25(name="a b"), "name is 'a b'; choose letters"),
        (
            lambda: overrides(BM25(pick=Bottom(np.zeros(3000)))),
            "is a ndarray with 3,000 values, too many for an option",
        ),
        (lambda: overrides(pyrite.RunFile(path=pl.DataFrame({"a": range(99)}))), "path: a DataFrame is no value"),
        (
            lambda: Function.own(Nearby(), 2),
            "Function.own is gone; write Nearby(count=1, pick=…, name=…): each function",
        ),
        (lambda: pyrite.Pool({"run": {}}), r"runs: {'run': {}} is no path; write a file"),
        (lambda: pyrite.Pool("runs", pl.DataFrame()), "qrels: a DataFrame is no path"),
        (lambda: pyrite.Pool(3), "runs: 3 is no path"),
        (lambda: InBatch() + 3, "3 is no retrieval function"),
        (lambda: Guard(relativ=0.1), "Guard has no argument relativ"),
        (lambda: Guard(relative=-3), "Guard: relative is -3; choose a number from 0 to 1 or None"),
        (lambda: pyrite.Study(pyrite.Collection.pydocs(), {}), "needs negatives"),
        (lambda: pyrite.Study("seed=1", {"a": BM25()}), "data: is a str, not a collection; give a path, a table of"),
        (lambda: pyrite.Study("nowhere", {"a": BM25()}), "nowhere: no such file or folder; check the path"),
        (lambda: pyrite.Study("nowhere.csv", {"a": BM25()}), "nowhere.csv: no such file or folder; check the path"),
        (
            lambda: study_of(negatives={"a": BM25(), "none": None}),
            "negatives: none has no negatives; give a function, as",
        ),
        (lambda: pyrite.Dense(1, refresh=2.5), "Refresh: every is 2.5; choose a whole number from 1 up"),
        (lambda: study_of(negatives=[BM25()]), "negatives: is a list, and methods need labels"),
        (lambda: study_of(rankers=Static()), "rankers: is a Static, no list"),
        (lambda: study_of(rankers=["static"]), "'static' is no ranker"),
        (lambda: study_of(objective="hinge"), "'hinge' is no objective"),
        (lambda: study_of(seeds=[]), "seeds is []"),
        (lambda: study_of(seeds=2.0), "seeds is 2.0"),
        (lambda: study_of(seeds=[0, 1, 1]), "seeds has 1 twice"),
        (lambda: study_of(measure=["nDCG@10", "AP"]), "measure: is a list"),
        (lambda: study_of(options=["seed=1"]), "options: is a list; give a mapping"),
        (
            lambda: study_of(seeds=2, options={"seeds": 1}),
            "options: seeds is what an argument of Study gives; leave it",
        ),
        (lambda: study_of(seeds=[0, 1], options={"seed": 5}), "options: seed is what an argument of Study gives"),
        (lambda: study_of(options={"out": "oo"}), "options: out is what an argument of Study gives; leave it out of"),
        (lambda: study_of(search="all", options={"origin": "bm25"}), "options: origin is what an argument of Study"),
        (lambda: pyrite.Collection("pairs.csv"), "'pairs.csv' is no collection; give pyrite.Pairs(…), or"),
        (
            lambda: Collection.from_pairs("pairs.csv", strict=False),
            '{"strict": False} to the verb, or strict=False to d',
        ),
        (
            lambda: Collection.from_beir(pl.DataFrame()),
            "a DataFrame is no path; give a path; a table of pairs is read ",
        ),
        (lambda: as_collection(Undeclared()).counts(), "collection: Undeclared takes limit, which is no field"),
        (lambda: pyrite.Collection.from_ir_datasets(["a", "b"]), "ids: is a list; give an id, or one id per split"),
        (lambda: pyrite.mine(["collection=pydocs"], BM25(2)), "negatives would be left out beside a list of overrides"),
        (lambda: pyrite.mine(pyrite.Collection.pydocs(), BM25(2), guard=0.05), "0.05 is no guard"),
        (
            lambda: pyrite.train(pl.Series()),
            "data: is a Series, not a collection or a list of overrides; for data give",
        ),
        (lambda: pyrite.learn(pyrite.Collection.pydocs(), Schedule(Random(), BM25())), "is a policy, which an agent"),
        (lambda: pyrite.rank(pyrite.Trained("seed=1")), "is no path; give a path, or a result; a ranker of a study is"),
        (lambda: pyrite.audit([], out="nowhere"), "studies: names no study"),
        (lambda: pyrite.Study(pyrite.Collection.pydocs(), {"a": BM25()}, baseline="b"), "no negatives are called 'b'"),
    ],
)
def test_a_wrong_argument_is_refused(call, message, own_cache):
    with pytest.raises(BadInput) as error:
        call()
    assert message in str(error.value)


def test_an_agent_that_picks_documents_learns_over_a_function(monkeypatch):
    """Whose selector Python leaves uniform, and which the agent is."""
    composed = []
    monkeypatch.setattr(
        "pyrite.verbs.run", lambda verb, texts, *rest: (composed.append(compose_learning(texts)), ("out", 0))[1]
    )
    for negatives in (pyrite.TfIdf(), pyrite.TfIdf(2), pyrite.TfIdf, None):
        pyrite.learn(pyrite.Collection.pydocs(), negatives, options={"actions": "documents"})
    assert {config["selector"]["_target_"].rpartition(".")[2] for config in composed} == {"LearnedSelector"}
    assert [actions_of(config).picks for config in composed] == [4, 2, 4, 4]
    with pytest.raises(BadInput, match="selector is what this command learns"):
        pyrite.learn(pyrite.Collection.pydocs(), pyrite.TfIdf(pick=pyrite.Top()), options={"actions": "documents"})


@pytest.mark.parametrize(
    "text", ["a b", "it's", 'say "x"', "back\\slash", "ends\\", 'q\\"', "a=b,c", "[x]", "1", "null", "é", ""]
)
def test_a_text_is_written_as_hydra_reads_it(text):
    value = OverridesParser.create().parse_override(f"key={written(text)}").value()
    assert getattr(value, "text", value) == text


def test_numbers_of_other_libraries_are_options():
    assert study_of(seeds=np.int64(3)).command == study_of(seeds=3).command
    assert study_of(seeds=np.arange(2)).command == study_of(seeds=[0, 1]).command
    numbers = BM25(np.int64(2), k1=np.float64(1.2), depth=np.int32(5))
    assert overrides(numbers) == overrides(BM25(2, k1=1.2, depth=5))
    mixture = overrides(pyrite.Mixture(Random(), BM25(), weights=[0.25, 0.75]))
    for weights in (np.array([0.25, 0.75]), pl.Series([0.25, 0.75]), torch.tensor([0.25, 0.75]), (0.25, 0.75)):
        assert overrides(pyrite.Mixture(Random(), BM25(), weights=weights)) == mixture
    assert study_of(negatives={1: BM25(), "a": Random()}, baseline=1).overrides()[-1] == 'baseline="1"'
    assert pyrite.Ray().overrides() == ["local=false"]  # a local Ray: `auto` would only join one


def test_bad_input_is_an_exception(base, tmp_path):
    with pytest.raises(BadInput, match="colour"):
        pyrite.study([*base, "colour=red", f"out={tmp_path / 'none'}"])
    with pytest.raises(BadInput, match=r"trials\.parquet"):
        pyrite.StudyResult(str(tmp_path)).trials  # noqa: B018


def test_a_study_of_objects_leaves_what_its_command_leaves(base, tmp_path, monkeypatch):
    data = Path(base[1].partition("=")[2])  # whose format is recognised
    others = {key: yaml.safe_load(value) for key, _, value in (text.partition("=") for text in base[2:])}
    study = pyrite.Study(
        data,
        {"in-batch": InBatch(), "+1 BM25": InBatch() + BM25(1)},
        [Static()],
        seeds=2,
        baseline="in-batch",
        out=tmp_path / "objects",
        options={**others, "local": True, "dashboard": False, "track": []},
    )
    result = study.run()
    assert result.failed == 0
    assert set(result.summary["method"]) >= {"in-batch", "+1 BM25"}
    first = ["method", "ranker", "candidates", "measure", "runs", "mean", "std"]
    assert result.summary.columns[:10] == [*first, "baseline", "baseline_difference", "baseline_p_both_holm"]
    command = [*shlex.split(study.command)[2:]]
    again = pyrite.study([text for text in command if not text.startswith("out=")] + [f"out={tmp_path / 'command'}"])
    costs = [name for name in result.summary.columns if name in COSTS]
    assert result.summary.drop(costs).equals(again.summary.drop(costs))
    assert sorted(again.trials["run"]) == sorted(result.trials["run"])
    # Again in another folder and with a notebook's settings: the study is continued, and is finished.
    monkeypatch.chdir(tmp_path)
    with torch.no_grad():
        assert len(study.run(console=Console(quiet=True)).runs) == 4
    with output_lock(Storage("objects")), pytest.raises(BadInput, match="writes to it"):
        pyrite.StudyResult.restore(Path("objects"))
    assert Path.cwd() == tmp_path  # not in the folder in which the study began
    other = pyrite.Study(data, {"in-batch": InBatch()}, out=tmp_path / "objects")
    for _ in range(2):
        with pytest.raises(BadInput, match="holds results already"):
            other.run()
    with pytest.raises(BadInput, match=r"there is no column 'run' of numbers; choose one of .*bm25:AP@10"):
        result.best_by("run")
    with pytest.raises(BadInput, match=r"no decisions.parquet; docs/reference/results.md says which results have it"):
        result.decisions  # noqa: B018


def test_a_saved_ranker_keeps_its_name_and_replaces_nothing(tmp_path):
    for name in ("run.safetensors", "run.json"):
        (tmp_path / name).write_text(name)
    trained = pyrite.Trained("seed=1", str(tmp_path / "run.safetensors"))
    for name in ("best-0.5", "best-0.7"):
        assert trained.save(tmp_path / name) == str(tmp_path / f"{name}.safetensors")
        assert (tmp_path / f"{name}.json").read_text() == "run.json"
    with pytest.raises(BadInput, match=r"best-0.5.safetensors: already exists"):
        trained.save(tmp_path / "best-0.5.safetensors")


SMALL: dict[str, object] = {
    "vectors": "random", "encoding.min_count": 1, "local": True, "dashboard": False, "track": [],
    "training.max_epochs": 1,
}  # fmt: skip


def test_a_collection_says_what_was_left_out_and_what_is_none(tmp_path, own_cache):
    rows = [f"question {number},answer {number}\n" for number in range(20)]
    (tmp_path / "pairs.csv").write_text("".join(["query,passage\n", *rows, ",nothing asks for this\n"]))
    data = pyrite.Collection.from_pairs(tmp_path / "pairs.csv")
    with pytest.raises(BadInput, match="the query is empty"):
        data.describe()
    assert data.describe(strict=False).endswith("\nskipped in pairs: 1 × empty text")
    for verb in (pyrite.mine, pyrite.train, pyrite.learn):
        with pytest.raises(BadInput, match=r"seed=1: is a text, .* for data give a path, a table of pairs, or a"):
            verb("seed=1", pyrite.BM25(2))
        with pytest.raises(BadInput, match=r"nowhere.csv: no such file or folder; check the path"):
            verb(tmp_path / "nowhere.csv", BM25() + Random() if verb is pyrite.learn else BM25(2))


def test_tables_of_other_libraries_are_the_same_collection(tmp_path, own_cache):
    rows = [{"query": f"question {number}", "answer": f"answer {number}"} for number in range(150)]
    rows.append({"query": "with more", "answer": "one", "negative": "a column that the first 150 rows lack"})
    frame = pl.DataFrame(rows, infer_schema_length=None)
    tables = [rows, iter(rows), frame, frame.lazy(), frame.to_pandas(), frame.to_arrow(), frame.to_dict()]
    (named,) = {Collection.from_pairs(table).overrides()[1] for table in tables}
    data = Collection.from_pairs(frame)
    assert data.describe().startswith("table.parquet: ")  # not the digest of a file in the cache
    assert Path(named.partition("=")[2]).is_file()
    assert data.counts()["queries"] == 151
    assert data.counts()["documents"] == 152
    assert Collection.from_pairs(frame.head(3)).overrides()[1] != named


def test_a_mixture_of_tables_and_paths(tmp_path, own_cache):
    rows = [{"query": f"query {number}", "positive": f"text {number}"} for number in range(20)]
    (tmp_path / "other.csv").write_text("query,positive\n" + "".join(f"ask {n},say {n}\n" for n in range(20)))
    mixed = pyrite.Collection.from_mix(
        [{"path": pl.DataFrame(rows), "share": 2, "prompt": "query: ", "name": "own"}, tmp_path / "other.csv"]
    )
    assert mixed.describe().splitlines() == [
        "own+other: 31 pairs, 31 queries, 40 passages → train 24, dev 3, test 4",
        "queries of each collection that train in mix: own 18 of 18; other 9 of 18",
        "queries with a prompt of their own in mix: 20 of 31",
    ]
    with pytest.raises(BadInput, match="two collections are called table; give one another name"):
        pyrite.Collection.from_mix([rows, rows[:10]]).describe()


def test_data_sets_by_split_with_classes_and_transforms(own_cache):
    datasets = pytest.importorskip("datasets")
    rows = [{"query": f"question {number}", "positive": f"answer {number}"} for number in range(30)]
    train, test = datasets.Dataset.from_list(rows[:20]), datasets.Dataset.from_list(rows[20:])
    for splits in (datasets.DatasetDict(train=train, test=test), {"train": rows[:20], "test": pl.DataFrame(rows[20:])}):
        counts = Collection.from_pairs(splits).counts()
        assert (counts["queries"], counts["test"]) == (30, 10)
    changed = train.with_transform(lambda batch: {**batch, "query": [f"find: {text}" for text in batch["query"]]})
    collection, _ = Collection.from_pairs(changed)._read(True)
    assert set(collection.queries["text"]) == {f"find: question {number}" for number in range(20)}
    labels = datasets.Features({**train.features, "label": datasets.ClassLabel(names=["relevant", "irrelevant"])})
    classed = datasets.Dataset.from_list([row | {"label": n % 2} for n, row in enumerate(rows)], features=labels)
    collection, _ = Collection.from_pairs(classed)._read(True)
    assert collection.judgements["grade"].to_list() == [1 - n % 2 for n in range(30)]
    with pytest.raises(BadInput, match=r"^row 1 of the table: .*the query is empty"):
        Collection.from_pairs({"train": [{"query": "", "positive": "a"}] * 2}).counts()


def test_a_table_is_data_and_its_faults_are_told_by_its_rows_and_arguments(own_cache):
    rows = [{"query": f"question {number}", "passage": f"answer {number}"} for number in range(20)]
    frame = pl.DataFrame(rows)
    for table in (rows, frame, frame.lazy(), frame.to_pandas(), frame.to_pandas().set_index("query"), frame.to_dict()):
        overrides = pyrite.Study(table, {"a": BM25()}).overrides()
        path = next(text for text in overrides if text.startswith("collection.path=")).partition("=")[2]
        assert pl.read_parquet(path).rows() == frame.rows()
    renamed = Collection.from_pairs(frame.rename({"query": "x", "passage": "y"}))
    empty = [*rows[:3], {"query": "", "passage": "b"}, *rows[3:]]
    faults = [
        (lambda: renamed.counts(), r'^the table: has no column .*name it by query="COLUMN" positive="COLUMN" of from_'),
        (lambda: pyrite.mine(renamed, BM25(2)), "^the table: has no column"),
        (lambda: Collection.from_pairs(empty).describe(), "^row 4 of the table: empty text: .* or give strict=False"),
        (lambda: pyrite.train(empty, BM25()), '^row 4 of the table: .*options={"strict": False}.* to skip and count'),
    ]
    for fault, message in faults:
        with pytest.raises(BadInput, match=message):
            fault()


COLUMN = pl.Series("query", ["a"])


@pytest.mark.parametrize(
    "table", [None, 3, b"x", ["a"], [("a", "b")], {"a": [1], "b": [1, 2]}, COLUMN, COLUMN.to_pandas()], ids=repr
)
def test_what_is_no_table_of_pairs_is_refused(table, own_cache):
    with pytest.raises(BadInput, match=r"is no table of pairs.*; give a path, a data frame, or a list of mappings"):
        Collection.from_pairs(table)


def test_functions_of_one_class_have_names_numbers_and_selectors():
    near = Nearby(count=2, name="near", pick=Bottom(4))
    far = Nearby(7, name="far")
    assert repr(near + far) == "Nearby(count=2, name='near', pick=Bottom(4)) + Nearby(7, name='far')"
    line = overrides(near + far)
    module = Nearby.__module__
    assert f"+function.near._target_={module}.Nearby" in line
    assert f"+function.far._target_={module}.Nearby" in line
    assert "+function.far.reach=7" in line
    assert "negatives.near=2" in line
    assert f"selector.near._target_={module}.Bottom" in line
    with pytest.raises(BadInput, match=r"two functions are called Nearby; .* as Nearby\(name='deep'\)"):
        Negatives(Nearby(), Nearby())


@pytest.mark.parametrize("label", ["${seed}", "${oc.env:HOME} x", "a\\${x}", "$x", "{}", "a\nb"])
def test_a_label_is_kept_as_it_is(label):
    study = study_of(negatives={label: BM25(), "b": Random()}, baseline=label)
    config = compose([text for text in study.overrides() if text.startswith(("methods=", "baseline="))], "study")
    assert config["methods"][0]["label"] == label
    assert config["baseline"] == label


@pytest.mark.nightly
def test_the_script_of_the_documentation_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYRITE_CACHE", str(tmp_path / "cache"))
    rows = [f"question {number} on {number % 7},answer {number} of {number % 11}\n" for number in range(60)]
    (tmp_path / "pairs.csv").write_text("query,passage\n" + "".join(rows))
    data = pyrite.Collection.from_pairs(tmp_path / "pairs.csv")
    assert data.describe().startswith("pairs.csv: 60 pairs, 60 queries, 60 passages → train ")
    study = pyrite.Study(
        data,
        rankers=[Static()],
        negatives={"in-batch": InBatch(), "+1 SimANS": InBatch() + BM25(1, pick=SimANS(a=2.0)),
                   "+1 mine": InBatch() + BM25(1, pick=Bottom())},
        seeds=3, baseline="in-batch", measure="nDCG@10", search="all", scale="tiny", options=SMALL,
    )  # fmt: skip
    result = study.run()
    assert "in-batch" in result.verdict
    assert "in-batch" in repr(result)
    assert max(map(len, repr(result).splitlines())) <= 80
    assert "<table" in result._repr_html_()
    assert len(result.runs) == 9
    assert len(result.queries) > 0
    assert result.plot()[1:4] == b"PNG"
    assert result.verdict
    more = study.more_seeds(1)
    assert result.verdict == more.verdict
    assert len(more.runs) == 12
    assert "same options" in repr(more.compare(result))
    monkeypatch.setenv("PYRITE_TRUST", "tests.test_objects")  # a saved folder may come from anywhere
    saved = result.best.ranker.save(tmp_path / "best")
    assert Path(pyrite.rank(saved, data, out=tmp_path / "best.run")).stat().st_size > 0
    mined = pyrite.mine(data, BM25(5), guard=Guard(relative=0.05), options={"vectors": "random"})
    assert mined.dataset.column_names[:2] == ["query", "positive"]
    ranks = dict(mined.explain().select("of", "ranks least").rows())
    assert set(ranks) == {"positive", "bm25"}
    assert ranks["positive"] is None
    assert ranks["bm25"] >= 1


def test_a_pool_is_simulated_and_judged_step_by_step(tmp_path):
    folder = write_runs(tmp_path)
    pool = pyrite.Pool(folder / "runs", folder / "qrels.txt.gz", local=True, dashboard=False, track=[])
    methods = [pyrite.MM(), pyrite.MTF(), pyrite.SharedFusion()]
    result = pool.simulate(methods, seeds=2, out=tmp_path / "out", budgets=[2, 4])
    assert set(result.budgets["method"]) == {"mm", "mtf", "shared_fusion"}
    assert "judgements per topic" in result.verdict
    known = set(read_qrels(folder / "qrels.txt.gz").select("query", "document").rows())
    while (document := pool.next()) is not None:
        assert document not in known
    pool = pyrite.Pool(folder / "runs", local=True, dashboard=False, track=[])
    first = pool.next("3")
    assert first.topic == "3"
    pool.judge(first, 1)
    other = pool.next(np.int64(3))  # type: ignore[arg-type]
    for grade in (float("nan"), "1", None, 0.5):
        with pytest.raises(BadInput, match=rf"topic 3, document {other.document}: grade is {grade!r}; give a whole"):
            pool.judge(other, grade)  # type: ignore[arg-type]
    pool.judge(other, np.float32(1))  # type: ignore[arg-type]
    files = (folder / "runs").glob("*")
    assert pyrite.Pool(files).overrides() == pyrite.Pool(sorted((folder / "runs").iterdir())).overrides()
    for call, message in [
        (lambda: pool.judge(first, 0), rf"document '{first.document}' of topic 3 was judged before"),
        (lambda: pool.judge(first, -1), "grade is -1, which means pooled and not judged; don't judge the document"),
        (lambda: pool.next("x"), "there is no topic 'x'"),
        (lambda: pool.judge(None, 1), "there is no document to judge; `next` returns None if none is left"),  # type: ignore[arg-type]
        (lambda: pool.judge("3", 1), "'3' is no document; give a topic and its document"),  # type: ignore[arg-type]
        (lambda: pyrite.Pool("runs", seed=-1), "seed is -1"),
        (lambda: pyrite.Pool("runs", method="mm").next(), "'mm' is no method"),
        (lambda: pool.simulate(pyrite.MM()), r"methods: is a MM, no list"),
        (lambda: pool.simulate([]), r"methods: is \[\]; name at least one, as \[MM\(\)\]"),
        (lambda: pool.simulate([pyrite.MM(), pyrite.MM(rate=0.5)]), "methods: two methods are called mm; simulate one"),
    ]:
        with pytest.raises(BadInput, match=message):
            call()
    seen = {first, other}
    while (document := pool.next()) is not None:
        assert document not in seen
        seen.add(document)
        pool.judge(document, 0)
    assert len({pooled.topic for pooled in seen}) == 12


def test_the_next_document_follows_a_machine_s_grades(tmp_path):
    folder = write_runs(tmp_path)
    plain = pyrite.Pool(folder / "runs")
    _, second = plain.next("3"), plain.next("3")
    documents = (f"d3-{number}" for number in range(12))
    (tmp_path / "machine.txt").write_text("".join(f"3 0 {name} {name == second.document:d}\n" for name in documents))
    prior = pyrite.MachinePrior()
    assert pyrite.Pool(folder / "runs", machine=tmp_path / "machine.txt", method=prior).next("3") == second
    with pytest.raises(BadInput, match="texts of documents and topics are not given"):
        pyrite.Pool(folder / "runs", method=pyrite.ContinuousLearning()).next()


class LastFirst(MoffatA):
    """An order of judging of the user's own."""


@pytest.mark.parametrize("method", [pyrite.MM(), LastFirst], ids=["named", "own"])
def test_a_pool_is_served_to_people(tmp_path, monkeypatch, method):
    data = pyrite.Collection.from_beir(write_beir(tmp_path / "beir"))
    runs = tmp_path / "a.run"
    runs.write_text("".join(f"q4 Q0 d{number} {number + 1} {9 - number} a\n" for number in range(4)), "utf-8")
    served: list[object] = []
    monkeypatch.setattr(judge, "run", lambda app, listening: (served.append(app), listening.close()))
    monkeypatch.setenv("PYRITE_TRUST", "tests.test_objects")
    console = Console(file=io.StringIO(), width=200)
    options = {"port": 0, "grades": [0, 1, 2]}
    pyrite.Pool([runs], method=method).serve(data, out=tmp_path / "out", options=options, console=console)
    assert len(served) == 1
    assert "your link, as the owner: http://127.0.0.1:" in console.file.getvalue()
    kept = json.loads((tmp_path / "out" / "overrides.json").read_text("utf-8"))["overrides"]
    assert "grades=[0,1,2]" in kept
    assert any("mm" in text or "LastFirst" in text for text in kept if text.lstrip("+").startswith("method"))


@dataclass
class Counted(Reader):
    """A reader of the user's own: questions and answers, numbered."""

    size: int = 20
    name = "counted"

    def sources(self) -> dict[str, str]:
        return {"size": str(self.size)}

    def read_documents(self, faults):  # type: ignore[no-untyped-def]
        rows = [{"id": f"d{row}", "text": f"answer {row}", "line": row} for row in range(self.size)]
        yield pl.DataFrame(rows, schema=DOCUMENTS)

    def read_queries(self, faults):  # type: ignore[no-untyped-def]
        rows = [{"id": f"q{row}", "text": f"question {row}", "line": row} for row in range(self.size)]
        return pl.DataFrame(rows, schema=QUERIES)

    def read_judgements(self, faults):  # type: ignore[no-untyped-def]
        rows = [{"query": f"q{row}", "document": f"d{row}", "grade": 1, "line": row} for row in range(self.size)]
        return pl.DataFrame(rows, schema=JUDGEMENTS)


def test_a_reader_of_the_users_own_is_a_collection(own_cache):
    data = as_collection(Counted(size=30))
    assert data.counts() == {"documents": 30, "queries": 30, "judgements": 30}  # type: ignore[attr-defined]
    for made in (pyrite.Study(Counted(size=30), {"a": BM25()}), pyrite.Study(data, {"a": BM25()})):  # type: ignore[arg-type]
        assert f"collection._target_={__name__}.Counted ++collection.size=30" in made.command


READ_DOCUMENTS, READ_JUDGEMENTS = Counted.read_documents, Counted.read_judgements


class Undeclared(Counted):
    """A reader with an option that is no field."""

    def __init__(self, limit: int = 3) -> None:
        super().__init__()
        self.limit = limit


BROKEN_READERS = [
    ("read_documents", lambda self, faults: None, "gave NoneType; yield polars data frames with the columns id"),
    ("read_documents", lambda self, faults: next(READ_DOCUMENTS(self, faults)), "gave Series; yield polars"),
    (
        "read_documents",
        lambda self, faults: [next(READ_DOCUMENTS(self, faults)).with_columns(id="line")],
        "gave id as Int64, not String; cast it by pl.col('id').cast(pl.St",
    ),
    ("read_documents", lambda self, faults: [pl.DataFrame({"id": ["d1"]})], "gave no column text"),
    ("read_queries", lambda self, faults: None, "gave NoneType; return a polars data frame with the columns id, text"),
    (
        "read_judgements",
        lambda self, faults: READ_JUDGEMENTS(self, faults).drop("grade"),
        "gave no column grade; return a polars data frame",
    ),
    (
        "read_judgements",
        lambda self, faults: READ_JUDGEMENTS(self, faults).with_columns(grade=pl.lit(1.5)),
        "gave grade as Float64, not Int32; cast it",
    ),
    (
        "read_judgements",
        lambda self, faults: READ_JUDGEMENTS(self, faults).with_columns(split=pl.lit("training")),
        "gave the split 'training'; write train, dev, test, or null",
    ),
    ("sources", lambda self: None, "gave NoneType; return a mapping"),
    ("name", None, "is None; return the collection's name"),
]


@pytest.mark.parametrize(("method", "broken", "message"), BROKEN_READERS)
def test_what_a_reader_of_the_users_own_gives_is_checked(method, broken, message, tmp_path, monkeypatch):
    monkeypatch.setattr(Counted, method, broken)
    with pytest.raises(BadInput, match=re.escape(f"collection: {method} of the reader {message}")):
        open_collection(Counted(), tmp_path)


def test_a_class_that_is_no_reader_is_refused():
    config = compose([f"collection._target_={__name__}.Bottom"])
    with pytest.raises(BadInput, match=r"collection._target_: Bottom is no collection; name a subclass of .*Reader"):
        check_run(config, None)


def test_a_training_shows_its_measures_and_not_its_whole_row(tmp_path):
    row = {"run": "a", "seed": 1, "loss": 0.25, "bm25:AP@100": 0.5, "bm25:AP@100:bm25": 0.75, "random:AP@100": 0.125}
    row["diverged"] = False
    pl.DataFrame([row]).write_parquet(tmp_path / "trials.parquet")
    assert pyrite.TrainingResult(tmp_path)._overview().rows() == [("bm25:AP@100", 0.5), ("random:AP@100", 0.125)]
    assert "random:AP@100" in repr(pyrite.TrainingResult(tmp_path))
    assert "diverged" not in repr(pyrite.TrainingResult(tmp_path))


def test_a_refusal_names_pythons_way_to_continue(tmp_path):
    (tmp_path / "config.yaml").write_text("study: {}\noverrides: []\n")
    says = re.escape(f"continue with pyrite.study(resume='{tmp_path}'), or choose another out=")
    with pytest.raises(BadInput, match=says):
        pyrite.study(["collection=pydocs", f"out={tmp_path}"])


def test_the_command_starts_by_the_packages_name_too(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["pyrite", "--help"])
    with pytest.raises(SystemExit) as end:
        runpy.run_module("pyrite", run_name="__main__")
    assert end.value.code in (0, None)
    assert "usage: pyrite" in capsys.readouterr().out.lower()
