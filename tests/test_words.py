"""Words of other tools and of the command line in Python: each suggestion is followed until a call is accepted."""

import inspect
import re

import pytest

import pyrite
import pyrite.torch
import pyrite.verbs
from pyrite.cluster.config.compose import compose
from pyrite.cluster.config.other_parts import NAMES, name_here
from pyrite.cluster.config.override import key_of
from pyrite.ranking.errors import BadInput
from pyrite.words import INSTEAD, VERBS, attribute

MEANT = re.compile(r"(?:did you mean|write|give) (.+?)(?:\?| to \w+\(…\))?$")
OF_STUDY = {"methods", "seeds", "baseline", "out", "stop"}


@pytest.fixture(autouse=True)
def pairs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pairs.csv").write_text("query,passage\nwhat is it,it is that\n")


def accepted(verb: str, given: dict[str, object], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the overrides of a call that the checks of its verb accept."""
    if verb == "Study":
        study = pyrite.Study("pairs.csv", **{"negatives": {"a": pyrite.BM25(2)}} | given)
        compose([text for text in study.overrides() if key_of(text) in OF_STUDY], "study")
        compose([text for text in study.overrides() if key_of(text) not in OF_STUDY])
        return study.overrides()
    taken: list[str] = []
    monkeypatch.setattr(pyrite.verbs, "run", lambda _, texts, *rest, **more: taken.extend(texts) or ("out", 0))
    getattr(pyrite, verb)("pairs.csv", **{"negatives": pyrite.BM25(2)} | given)
    compose([text for text in taken if key_of(text) not in OF_STUDY], {"train": "config"}.get(verb, verb))
    return taken


@pytest.mark.parametrize(
    ("verb", "name", "value", "expected"),
    [
        ("Study", "ranker", pyrite.Static(), None),
        ("Study", "seed", 3, "seed=3"),
        ("Study", "epochs", 3, "training.max_epochs=3"),
        ("Study", "loss", "hinge", "objective=hinge"),
        ("Study", "loss", "mnrl", "objective=softmax"),
        ("Study", "model", "org/model", None),
        ("Study", "learning_rate", 2e-5, "optimizer.lr=2e-05"),
        ("Study", "num_negatives", 3, "sampling.negatives=3"),
        ("Study", "training_batch", 8, None),
        ("Study", "stop", "decided", "stop=decided"),
        ("Study", "metric", "nDCG@10", "validation.measure=nDCG@10"),
        ("mine", "num_negatives", 5, "count=5"),
        ("mine", "count", 5, "count=5"),
        ("mine", "function", "tfidf", "function=[tfidf]"),
        ("mine", "model", "org/model", "checkpoint=org/model"),
        ("mine", "relative_margin", 0.05, "guard.relative=0.05"),
        ("mine", "ratio", 0.95, "guard.relative=0.05"),
        ("mine", "output_format", "n-tuple-scores", "with_scores=true"),
        ("mine", "negative", pyrite.BM25(3), "count=3"),
        ("train", "optimizer", "adam", "optimizer=adam"),
        ("train", "function", ["in_batch", "bm25"], "function=[in_batch,bm25]"),
        ("train", "random_seed", 3, "seed=3"),
        ("train", "rankers", pyrite.Static(), "ranker=static"),
        ("Study", "guard", pyrite.Guard(relative=0.1), "guard.relative=0.1"),
        ("train", "guard", pyrite.Guard(relative=0.1, ranker="a run"), 'guard.ranker="a run"'),
        ("train", "training", {"max_epochs": 3, "batch_size": 8}, "training.batch_size=8"),
        ("learn", "epochs", 3, "training.max_epochs=3"),
        ("learn", "agents", "ppo", "agent=ppo"),
    ],
)
def test_an_argument_leads_to_a_call_that_is_accepted(verb, name, value, expected, monkeypatch):
    with pytest.raises(BadInput) as refused:
        accepted(verb, {name: value}, monkeypatch)
    assert f"{verb} has no argument {name}; it has data, negatives" in str(refused.value)
    found = MEANT.search(str(refused.value))
    if expected is None and not found:
        assert str(refused.value).endswith("choose one of them")
        return
    assert found
    with_values = re.sub(r"([=\[])(Static|BM25)\(", r"\1pyrite.\2(", found[1].replace("…", "a"))
    given = eval(f"dict({with_values})", {"pyrite": pyrite})
    texts = accepted(verb, given, monkeypatch)
    assert expected is None or expected in texts


@pytest.mark.parametrize(
    ("kind", "name", "value", "expected"),
    [
        (pyrite.BM25, "k", 1, {"k1": 1}),
        (pyrite.BM25, "num_negatives", 4, {"count": 4}),
        (pyrite.BM25, "top_k", 50, {"depth": 50}),
        (pyrite.Guard, "ratio", 0.95, {"relative": 0.05}),
        (pyrite.Guard, "margin", 0.1, {"absolute": 0.1}),
        (pyrite.Guard, "max_score", 0.9, {"ceiling": 0.9}),
        (pyrite.BiEncoder, "model_name_or_path", "a", {"checkpoint": "a"}),
        (pyrite.BiEncoder, "dtype", "bf16", {"precision": "bfloat16"}),
        (pyrite.Pairs, "queries", "a", {"query": "a"}),
        (pyrite.Pairs, "answer", "a", {"positive": "a"}),
        (pyrite.Window, "range_max", 100, {"last": 100}),
    ],
)
def test_an_argument_of_a_part_leads_to_one_that_it_has(kind, name, value, expected):
    needed = {pyrite.Pairs: {"path": "a"}, pyrite.BiEncoder: {"checkpoint": "a"}}.get(kind, {})
    with pytest.raises(BadInput, match=f"{kind.__name__} has no argument {name}; it has ") as refused:
        kind(**needed, **{name: value})
    given = eval(f"dict({MEANT.search(str(refused.value))[1]})")  # type: ignore[index]
    assert given == expected
    assert isinstance(kind(**needed | given), kind)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: pyrite.study(seeds=5), "did you mean overrides=['seeds=5']?"),
        (lambda: pyrite.pool(run="a"), "did you mean overrides=['runs=a']?"),
        (lambda: pyrite.rank("a", checkpoint="b"), 'did you mean ranker="b"?'),
        (lambda: pyrite.evaluate("a", "b", metrics=["AP"]), "did you mean measures=['AP']?"),
        (lambda: pyrite.train(seeds=5), "did you mean `pyrite study seeds=5`, or seed=… of one run?"),
        (lambda: pyrite.mine(batch_size=5), "choose one of them"),
        (lambda: pyrite.Collection.from_pairs("x.csv", document="a"), 'did you mean positive="a"?'),
        (lambda: pyrite.Pool("runs").simulate([], qrels="a"), "give qrels='a' to Pool(…)"),
        (lambda: pyrite.Pool(), "Pool needs the argument runs"),
        (lambda: pyrite.StudyResult(), "StudyResult needs the argument folder"),
        (lambda: pyrite.torch.Negatives("pairs.csv", epochs=3), 'did you mean options={"training.max_epochs": 3}?'),
        (lambda: pyrite.Study("pairs.csv", {"a": pyrite.BM25()}, scale="smal"), "choose tiny, small, medium, full"),
        (lambda: pyrite.Study("pairs.csv", {"a": pyrite.BM25()}, ["biencoder"]), "give pyrite.BiEncoder(…), or"),
        (lambda: pyrite.Study("pairs.csv", {"a": pyrite.BM25()}).run("head:6379"), "give pyrite.Ray('head:6379')"),
        (lambda: pyrite.mine("pairs.csv", pyrite.BM25(1), guard=0.05), "give pyrite.Guard(relative=0.05), or"),
        (lambda: pyrite.mine("pairs.csv", pyrite.Dense(1)), 'give ranker="FOLDER"'),
        (lambda: pyrite.Collection.from_pairs("pairs.csv", query="q").counts(), 'from_pairs(…, query="COLUMN")'),
        (lambda: pyrite.Collection.from_pairs("hf:a/b").counts(), 'give pyrite.Collection.from_path("FOLDER")'),
        (lambda: pyrite.Study("pairs.csv", {"a": pyrite.BM25()}).run(seed=1), "give seeds=[1] to Study(…)"),
    ],
)
def test_other_calls_are_refused_in_the_words_of_python(call, message):
    with pytest.raises(BadInput) as refused:
        call()
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("SimAns", "SimANS"),
        ("Bm25", "BM25"),
        ("ColBERT", "LateInteraction"),
        ("SentenceTransformer", "BiEncoder"),
        ("MultipleNegativesRankingLoss", "Softmax"),
        ("TripletLoss", "Hinge"),
    ],
)
def test_a_name_that_pyrite_does_not_have_leads_to_one_that_it_has(name, meant):
    with pytest.raises(
        AttributeError, match=rf"^module 'pyrite' has no attribute '{name}'; did you mean pyrite\.{meant}\?$"
    ):
        getattr(pyrite, name)
    assert inspect.isclass(getattr(pyrite, meant))


def test_names_without_a_similar_one():
    with pytest.raises(AttributeError, match=r"has no attribute 'zebra'; `dir\(pyrite\)` lists its names$"):
        pyrite.zebra  # noqa: B018
    assert not hasattr(pyrite, "_ipython_display_")
    for name, instead in INSTEAD.items():
        assert attribute(name, pyrite.__all__) == f"; did you mean {instead}?"


def test_each_name_of_a_ranker_elsewhere_is_a_class_here():
    for group in ("ranker", "objective", "selector"):
        for word in NAMES[group]:
            assert attribute(word, ()).startswith("; did you mean pyrite."), name_here(group, word)


def test_each_function_that_is_named_exists():
    for path in VERBS:
        name = path.rpartition(".")[2]
        assert callable(getattr(pyrite, name, None) or getattr(pyrite.torch, name))
