"""Remedies in the words of Python, each followed until the call is one that a verb accepts."""

import re

import pytest

import pyrite
from pyrite.cluster.config.compose import compose
from pyrite.ranking.errors import BadInput
from pyrite.remedies import in_python, rendered


@pytest.fixture
def pairs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pairs.csv").write_text("question,answer\n" + "".join(f"what is {n},it is {n}\n" for n in range(40)))
    return "pairs.csv"


@pytest.mark.parametrize(
    ("verb", "overrides", "written"),
    [
        ("mine", "guard.relative=.05", "guard=pyrite.Guard(relative=.05)"),
        ("mine", "guard.relative=.05 guard.deepest=50", "guard=pyrite.Guard(relative=.05, deepest=50)"),
        ("mine", "checkpoint=a/b", 'ranker="a/b"'),
        ("mine", "count=4", 'options={"count": 4}'),
        ("study", "guard.relative=.05", 'options={"guard.relative": .05}'),
        ("study", "seeds=5", "seeds=5"),
        ("study", "collection.query=title", 'pyrite.Collection.from_pairs(…, query="title")'),
        (
            "study",
            "collection.query=title collection.positive=body",
            'pyrite.Collection.from_pairs(…, query="title", positive="body")',
        ),
        ("study", "ranker=bi_encoder ranker.checkpoint=a/b", 'rankers=[pyrite.BiEncoder("a/b")]'),
        ("train", "ranker=cross_encoder ranker.checkpoint=a/b", 'ranker=pyrite.CrossEncoder("a/b")'),
        ("train", "ranker=static", 'ranker="static"'),
        (
            "train",
            "function=[in_batch,bm25] weights=true",
            'negatives=pyrite.InBatch() + pyrite.BM25(), options={"weights": True}',
        ),
        ("train", "`pyrite study seeds=3`", "`pyrite study seeds=3`"),
    ],
)
def test_overrides_are_written_as_arguments(verb, overrides, written):
    assert rendered(overrides, verb) == written
    said = in_python(BadInput("is wrong", "here", f"give {overrides}, or leave it out"), verb)
    assert str(said) == f"here: is wrong; give {written}, or leave it out"


def test_an_error_without_a_remedy_stays_as_it_is():
    assert str(in_python(BadInput("is wrong", "here"), "mine")) == "here: is wrong"


@pytest.mark.parametrize(
    ("options", "config"),
    [
        ({"relative_margin": 0.05}, "mine"),
        ({"ratio": 0.95}, "mine"),
        ({"num_negatives": 3}, "mine"),
        ({"guard": 0.05}, "mine"),
        ({"num_train_epochs": 3}, "train"),
        ({"learning_rate": 2e-5}, "study"),
        ({"guard": 0.05}, "study"),
    ],
)
def test_a_remedy_is_followed_in_python(pairs, options, config):
    data = pyrite.Collection.from_pairs(pairs, query="question", positive="answer")

    def call(given):
        functions = {"a": pyrite.BM25(2)}
        if config == "study":
            return pyrite.Study(data, functions, out="out", **given).run()
        return getattr(pyrite, config)(data, functions["a"], out="out", **given)

    with pytest.raises(BadInput) as refused:
        call({"options": options})
    remedy = re.search(r"(?:did you mean|write|give) (.+?)\??$", str(refused.value))
    assert remedy, str(refused.value)
    given = eval(f"dict({remedy[1]})", {"pyrite": pyrite})  # what a user would type
    assert given
    of_options = [f"{key}={value}" for key, value in given.get("options", {}).items()]
    compose([*data.overrides(), *of_options], {"mine": "mine"}.get(config, "config"))
    if "guard" in given:
        assert given["guard"].relative == pytest.approx(0.05)
