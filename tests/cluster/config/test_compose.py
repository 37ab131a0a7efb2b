"""One configuration, from overrides to a mapping; the rest of it is in `test_configuration.py`."""

import copy
from pathlib import Path
from typing import Any

import pytest
from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra.core.config_store import ConfigStore
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import OmegaConf

from pyrite import Collection
from pyrite.cluster.config.aliases import as_override, read_overrides
from pyrite.cluster.config.build import build
from pyrite.cluster.config.compose import _by_hydra, _store_parts, compose
from pyrite.cluster.config.counts import counts_of
from pyrite.cluster.config.declared import options_of
from pyrite.cluster.config.groups import CONF, fill_defaults, option
from pyrite.cluster.config.override import unquoted
from pyrite.cluster.config.quoting import quoted_path
from pyrite.cluster.config.validate import check_counts
from pyrite.cluster.config.yaml_file import read_yaml
from pyrite.cluster.plan.applicable import applicable_overrides
from pyrite.cluster.plan.sweep import points
from pyrite.ranking.collections.format_of import format_of
from pyrite.ranking.errors import BadInput
from pyrite.ranking.hub import local_path


def test_what_is_composed_twice_is_the_callers_own(monkeypatch):
    changed = compose(["scale=tiny"])
    before = changed["limits"]["train"]
    changed["limits"]["train"] = before + 1
    assert compose(["scale=tiny"])["limits"]["train"] == before
    for place in ("here", "there"):
        monkeypatch.setenv("PYRITE_CACHE", place)
        assert compose(["scale=tiny"])["cache"] == place


@pytest.mark.by_day(3)
@pytest.mark.parametrize(
    ("overrides", "count"),
    [
        ([], 4),
        (["function=in_batch", "training.batch_size=16"], 15),
        (["function=in_batch", "training.batch_size=1"], 1),
        (["function=in_batch", "sampling.negatives=7"], 7),
        (["function=[in_batch,bm25]"], 4),
        (["policy=recommended", "training.batch_size=128"], 131),  # room for four of BM25's
        (["policy=recommended", "sampling.negatives=9"], 9),
        (["policy=mixture", "policy.each=2", "function=[in_batch,bm25]", "training.batch_size=16"], 17),
        (["policy=mixture", "policy.each=2", "function=[random,bm25]"], 4),
        # Recipes, of 16 queries with 7 mined documents each, and of 4 with 87.
        (["ranker=bi_encoder", "ranker.checkpoint=x", "function=in_batch"], 15),
        (["ranker=bi_encoder", "ranker.checkpoint=x", "function=in_batch", "sampling.negatives=7"], 7),
        (["ranker=bi_encoder", "ranker.checkpoint=x"], 7),
        (["ranker=cross_encoder", "ranker.checkpoint=x", "function=in_batch"], 3),
    ],
)
def test_in_batch_gives_the_whole_batch_alone_or_with_what_others_add(overrides, count):
    assert compose(overrides)["sampling"]["negatives"] == count


def at_once(overrides: tuple[str, ...], config: str) -> Any:
    """Return what Hydra composes of all overrides at once."""
    _store_parts()
    options = copy.deepcopy(options_of(config))
    fill_defaults(options)
    name = f"{config}_at_once"  # Hydra keeps what it has read by its name
    ConfigStore.instance().store(name, options | read_yaml(CONF / f"{config}.yaml"))
    with initialize_config_dir(str(CONF), version_base="1.3"):
        composed = OmegaConf.to_container(hydra_compose(name, [*overrides]), resolve=True, throw_on_missing=True)
    fill_defaults({key: value for key, value in composed.items() if key not in options})
    return composed


@pytest.mark.by_day(2)
@pytest.mark.parametrize(
    ("overrides", "config"),
    [
        (["training.patience=3", "ranker=match_pyramid", "optimizer.lr=0.5"], "config"),
        (["function=[random,bm25]", "validation.every=2", "scale=tiny", "limits.train=7"], "config"),
        (["+ranker.own=3", "++training.patience=1", "~peft", "measures=[AP@3]"], "config"),
        (["training={patience: 3}", "collection=beir", "+collection.path=${cache}/here"], "config"),
        (["agent=as_printed", "episodes=5", "until=converged"], "learn"),
        (["method=[mm,mtf]", "reuse=true", "runs=a", "qrels=b"], "pool"),
        (["++training.more=3", "~training.positives"], "config"),
    ],
)
def test_values_set_in_a_copy_of_what_files_give_are_what_hydra_sets(overrides, config):
    for _ in range(2):
        assert _by_hydra(tuple(overrides), config, ())[0] == at_once(tuple(overrides), config)


def test_two_run_files_and_another_keep_their_order_and_options():
    config = compose([
        "policy=mixture", "function=[run_file@hdct,bm25,run_file@ance]", "function.hdct.path=one",
        "function.ance.path=two", "function.ance.depth=7", "function.bm25.k1=1.5",
    ])  # fmt: skip
    file, bm25 = option("function", "run_file")["run_file"], option("function", "bm25")["bm25"]
    expected = {"hdct": file | {"path": "one"}, "bm25": bm25 | {"k1": 1.5}, "ance": file | {"path": "two", "depth": 7}}
    assert list(config["function"].items()) == list(expected.items())


def test_a_study_gives_options_to_the_methods_with_that_function():
    found = points([], [], ["function=[run_file@x],[bm25@y]", "function.x.path=a", "function.y.k1=2", "policy=fixed"])
    kept = applicable_overrides(found, {"function"})
    assert sorted(name for point in kept for name in compose(point.overrides)["function"]) == ["x", "y"]
    lines = [["function=random"], ["function=[in_batch,bm25]", "selector.bm25=uniform,dynamic"]]
    found = points(lines, [], ["negatives.bm25=1"])
    assert [point.overrides for point in found] == [
        ("function=random",),
        ("function=[in_batch,bm25]", "selector.bm25=uniform", "negatives.bm25=1"),
        ("function=[in_batch,bm25]", "selector.bm25=dynamic", "negatives.bm25=1"),
    ]
    assert "selector.bm25" in found[1].swept
    found = points(lines, [], ["function=[in_batch,bm25]", "negatives.bm25=0,1"])
    both = [("policy=fixed", "selector=uniform", f"negatives.bm25={count}") for count in (0, 1)]
    assert [(*point.overrides[:2], point.overrides[-1]) for point in found] == both
    assert found[0].swept == ("negatives.bm25",)


@pytest.mark.parametrize(
    "value",
    [None, True, False, 3, -1.5, "it's", r"a\b", "a\\", r"\'", "é", "a, b: {c}", "???", [1, "x"], {"a": {"b": [None]}}],
)
def test_values_come_back_from_the_override_grammar(value):
    assert OverridesParser.create().parse_override(f"key={as_override(value)}").value() == value
    assert not isinstance(value, str) or unquoted(as_override(value)) == value


def test_a_function_has_a_selector_and_a_number_of_its_own():
    config = compose([
        "function=[in_batch,run_file@hdct]", "function.hdct.path=x", "negatives.hdct=2", "selector.hdct=dynamic",
        "selector.hdct.lam=0", "selector=simans", "selector.a=2",
    ])  # fmt: skip
    assert config["negatives"] == {"hdct": 2}
    assert config["selectors"] == {"hdct": option("selector", "dynamic") | {"lam": 0}}
    assert config["selector"] == option("selector", "simans") | {"a": 2}
    check_counts(config)
    assert compose(["selector=window", "selector.pick=first"])["selectors"] == {}
    with pytest.raises(BadInput, match="no selector 'nearest'; there is adversarial"):
        compose(["selector.bm25=nearest"])


@pytest.fixture
def places(tmp_path, monkeypatch):
    """Collections of all formats, as empty files where the reader looks for names only."""
    for name in (
        "beir/corpus.jsonl.gz", "beir/queries.jsonl", "beir/qrels/test.tsv", "no_qrels/corpus.jsonl",
        "msmarco/collection.tsv", "msmarco/queries.train.tsv", "msmarco/qrels.train.tsv", "trec/docs.trec",
        "trec/topics.txt", "trec/qrels.txt", "pyserini/corpus.jsonl", "pyserini/topics.tsv", "pyserini/qrels.txt",
        "tables/train.parquet", "my pairs.csv", "outer/inner/corpus.jsonl", "empty/notes.pdf", "parts/corpus/0.parquet",
        "packed/corpus.jsonl.gz", "packed_pairs/pairs.csv.gz",
    ):  # fmt: skip
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("path", "reader"),
    [
        ("beir", "Beir"), ("no_qrels", "Beir"), ("msmarco", "MsMarco"), ("trec", "Trec"), ("pyserini", "Trec"),
        ("tables", "Pairs"), ("my pairs.csv", "Pairs"), ("hf:org/name", "Pairs"), ("parts", "Beir"),
        ("packed", "Beir"), ("packed_pairs", "Pairs"),
    ],
)  # fmt: skip
def test_the_format_of_a_collection_is_recognised(places, path, reader):
    whole = path if path.startswith("hf:") else f"{places}/{path}"
    for override in (f"collection.path={path}", f"collection={whole}", f"collection='{whole}'"):
        node = compose([override])["collection"]
        assert node["_target_"].rpartition(".")[2] == reader
        assert node["path"] in (path, whole)
        assert compose([override], "mine")["collection"] == node
        if not path.startswith("hf:"):
            assert compose(Collection.from_path(path).overrides())["collection"] == node | {"path": path}
        (point,) = points([], [], [override, "policy=fixed"])
        assert compose(point.overrides)["collection"] == node
    (point,) = points([], ["collection=pairs", "collection.path=x", "ranker=static"], [f"collection.path={path}"])
    assert compose(point.overrides)["collection"]["_target_"].rpartition(".")[2] == reader


def test_a_format_that_is_named_or_not_recognised(places):
    assert compose(["collection.path=beir", "collection=trec"])["collection"]["_target_"].endswith("Trec")
    assert compose(["collection=beir", "collection.path=nothing"])["collection"]["path"] == "nothing"
    assert compose(["collection.path=nothing.csv"])["collection"]["path"] == "nothing.csv"
    for path, kind in (("beir", "beir"), ("packed_pairs", "pairs")):
        assert format_of(path) == kind
    with pytest.raises(BadInput, match=r"not an override; for data write collection.path=beir$"):
        read_overrides("beir")
    for path, message in {
        "nothing": "nothing: no such folder; check the path",
        "outer": r"name the folder in it: \S*inner",
        "empty": r"holds notes.pdf\); give collection=NAME, of beir, msmarco, trec, pairs",
    }.items():
        with pytest.raises(BadInput, match=message):
            compose([f"collection.path={path}"])


def test_a_part_may_be_null():
    assert compose(["teacher=bm25", "peft=lora", "teacher=null"]).get("teacher") is None
    assert compose(["teacher=null", "teacher=bm25"])["teacher"] == option("teacher", "bm25")
    assert compose(["trial_scheduler=null"], "study").get("trial_scheduler") is None
    found = points([], [], ["teacher=null,bm25", "policy=fixed"])
    assert [compose(point.overrides).get("teacher") is None for point in found] == [True, False]
    with pytest.raises(BadInput, match="there is no collection 3; there is beir"):
        compose(["collection=3"])


def test_a_verb_that_reads_a_checkpoint_takes_a_ranker_by_its_name():
    whole = {name: value for name, value in option("ranker", "cross_encoder").items() if name != "defaults"}
    for verb, more in (("rank", ["checkpoint=x"]), ("mine", [])):
        config = compose([*more, "ranker=cross_encoder", "ranker.words=[A,B]"], verb)
        assert config["ranker"] == whole | {"checkpoint": None, "words": ["A", "B"]}
        assert compose([*more, "ranker=null"], verb)["ranker"] is None
        with pytest.raises(BadInput, match="no ranker 'nearest'; there is bi_encoder"):
            compose([*more, "ranker=nearest"], verb)


def test_all_in_batch_negatives_stand_beside_a_mined_one():
    def counts(*given: str) -> dict[str, int] | None:
        config = compose(["ranker=static", *given])
        functions = {name: build(node, trust="composed") for name, node in config["function"].items()}
        return counts_of(config, functions, build(config["policy"], trust="composed"))

    assert counts("function=[in_batch,bm25]", "negatives.bm25=1") == {"in_batch": 127, "bm25": 1}
    assert counts("function=[in_batch,bm25]", "function.in_batch.hard=true") == {"in_batch": 127 * 5, "bm25": 4}
    assert counts("function=[in_batch,bm25]", "negatives.in_batch=3") == {"in_batch": 3, "bm25": 4}
    assert counts("function=[bm25,random]", "negatives={bm25:2,random:1}") == {"bm25": 2, "random": 1}
    assert counts("function=in_batch") is None
    assert counts("policy=mixture") is None
    for given, message in (
        (["negatives.random=1"], "no function random in this run"),
        (["selector.random=top"], "no function random in this run"),
        (["policy=mixture", "negatives.bm25=1"], "the policy decides itself"),
        (["objective=[softmax,kl]"], "no teacher to learn from"),
        (["objective=kl", "teacher=bm25", "function=bm25", "validation.negatives=4"], "validation.negatives=null"),
        (["function=[bm25,random]", "objective=sir_v1", "sampling.negatives=87"], "several stages"),
        (["selector=window", "objective=sir_v1", "sampling.negatives=87"], "whatever a window shows; leave out"),
        (
            ["policy=mixture", "policy.window=[4,8]", "objective=sir_v2", "sampling.negatives=87"],
            "whatever a window shows; leave out",
        ),
    ):
        with pytest.raises(BadInput, match=message):
            check_counts(compose(given))


def test_a_list_of_objectives_is_their_sum():
    config = compose([
        "objective=[contrastive,margin_mse]", "objective.weights.margin_mse=0.1", "teacher=bm25", "batches=by_category",
        "objective.contrastive.temperature=0.5",
    ])  # fmt: skip
    made = build(config["objective"], trust="composed")
    assert made.weights == {"contrastive": 1.0, "margin_mse": 0.1}
    assert made.terms["contrastive"].temperature == 0.5
    assert config["choices"]["objective"] == "contrastive+margin_mse"
    assert config["teacher"]["_target_"].endswith("BM25")
    with pytest.raises(BadInput, match="no objective 'margins'"):
        compose(["objective=[contrastive,margins]"])


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"a:\n\t- b\n", r"a\.yaml:2: can't be read .*write blanks, not tabs"),
        (b"a: {b: 1}\nc: 2\na: 3\n", r"a\.yaml:3: can't be read \('a' is given twice\)"),
        (b"- !!python/object/apply:os.system [echo]\n", r"a\.yaml:1: can't be read"),
        (b"- a=\xff\n", "can't be read"),
        (b"a: 1\n", "is no experiment: there must be an option title"),
        (b"- nothing\n", "is not a list of overrides"),
        (b"- a=1\n- 3\n", r"is not a list of overrides: entry 2 is 3; write a line"),
        (b"- a=1\n- b=1\n- a=2\n", r"a\.yaml: gives a twice"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_in_a_line(content, says, tmp_path):
    path = tmp_path / "a.yaml"
    path.write_bytes(content)
    with pytest.raises(BadInput, match=says):
        read_overrides(str(path))
    with pytest.raises(BadInput, match=r"can't be read \(Is a directory\)"):
        read_yaml(str(tmp_path))


def test_a_folder_whose_name_begins_with_a_tilde(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadInput, match=r"~nosuch/x.csv: there is no user 'nosuch'; .* is \./~nosuch/x.csv"):
        quoted_path("collection.path=~nosuch/x.csv")
    assert quoted_path("collection.path=./~nosuch/x.csv") == "collection.path='./~nosuch/x.csv'"
    assert local_path("./~nosuch/x.csv") == Path("~nosuch/x.csv")
