"""DSSM, category-refined negatives and embeddings, from the command line."""

import shutil
from itertools import islice, permutations
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from pyrite.cluster.config.compose import compose
from pyrite.cluster.config.validate import check_run
from pyrite.cluster.runs.artifacts import Artifacts
from pyrite.cluster.runs.embeddings import MOST, spread_out
from pyrite.cluster.runs.execute import run
from pyrite.cluster.runs.outcome import Outcome
from pyrite.cluster.runs.trained import read_ranker
from pyrite.ranking.encoding import Encoder
from pyrite.ranking.errors import BadInput
from tests.cluster.command_line import command
from tests.made_up import write_beir, write_texts

OWN = [
    "optimizer.lr=0.001", "sampling.negatives=10", "origin=[category,full]", "origin.full.depth=null",
    "validation.origin=category", "validation.negatives=6", "embeddings=true", "measures=[R@1,R@5,RR]",
]  # fmt: skip


def outcome_of(*overrides: str) -> Outcome:
    config = compose(overrides)
    check_run(config, None)
    return run(config, Artifacts().parts(config))


def alike_but_for_categories(folder: Path) -> Path:
    """A BEIR folder whose texts have the same words in other orders; half of them are of each category."""
    labels = [{"metadata": {"category": f"half{half}", "subcategory": f"part{half}"}} for half in range(2)]
    texts = [" ".join(words) for words in islice(permutations(["moles", "dig", "tunnels", "under", "lawns"]), 40)]
    corpus, queries = (
        [{"_id": f"{name}{n}", "title": "", "text": text} | labels[n % 2] for n, text in enumerate(texts)]
        for name in ("corpus", "queries")
    )
    qrels = {
        split: [(f"queries{n}", f"corpus{n}", 1) for n in numbers]
        for split, numbers in (("train", range(24)), ("dev", range(24, 32)), ("test", range(32, 40)))
    }
    return write_texts(folder, corpus, queries, qrels)


def test_categories_are_read_where_asked(base, tmp_path):
    """Where only categories differ, vectors cluster by them if the ranker reads them, and are all the same if not."""
    collection = f"collection.path={alike_but_for_categories(tmp_path / 'alike')}"
    for read, information in (("true", 1.0), ("false", 0.0)):
        method = ["ranker=dssm", f"ranker.categories={read}", "function=random", "policy=fixed"]
        outcome = outcome_of(*base, collection, *OWN, *method, "training.max_epochs=1")
        assert outcome.clusters["MI"][0] == pytest.approx(information, abs=1e-6)
        vectors = outcome.embeddings["vectors"]
        assert np.allclose(vectors, vectors[0], atol=1e-6) == (read == "false")


def test_categories_of_another_collection_are_read_by_their_names(base, tmp_path):
    """By numbers, `half1` of a collection without `half0` would be taken for `half0`."""
    alike = alike_but_for_categories(tmp_path / "alike")
    other = tmp_path / "other"
    shutil.copytree(alike, other)
    for file in (other / "corpus.jsonl", other / "queries.jsonl"):
        file.write_text(file.read_text().replace("half0", "new"))  # sorted after half1
    method = ["ranker=dssm", "ranker.categories=true", "function=random", "training.max_epochs=1", "weights=true"]
    small = [text for text in base if not text.startswith("collection.path")]
    options = [*small, f"collection.path={alike}", *method, f"evaluate=[{other}]", f"out={tmp_path / 'run'}"]
    assert command("train", *options) == 0
    trained = read_ranker(str(tmp_path / "run"), gpu=False)
    collection = Artifacts().collection(compose([*base, f"collection.path={other}"]))
    read = trained.read(collection, Encoder(min_count=1).encode(collection)[0])
    assert trained.labels == [["half0", "half1"], ["part0", "part1"]]
    for texts in (read.documents, read.queries):
        assert texts.labels is not None
        assert texts.labels[:4].tolist() == [[-1, 0], [1, 1], [-1, 0], [1, 1]]
    assert command("rank", str(tmp_path / "run"), f"collection.path={other}", f"out={tmp_path / 'ranked.run'}") == 0


@pytest.mark.by_day(4)
@pytest.mark.parametrize(
    ("overrides", "says"),
    [
        (["policy=refined"], "function: the collection has no categories"),
        (["ranker=dssm", "ranker.categories=true"], "ranker.categories: the collection has no categories"),
        (["origin=[category]"], "origin=category: the collection has no categories"),
        (["embeddings=true"], "embeddings=true: the collection has no categories"),
        (["ranker=dssm", "ranker.tower=[]"], "there is no layer"),
        (["validation.negatives=0"], "validation.negatives is 0"),
        (["ranker=match_pyramid", "embeddings=true"], "MatchPyramid has no vector for a text"),
    ],
)
def test_what_can_not_be_is_said_in_one_line(overrides, says, base, tmp_path):
    plain = write_beir(tmp_path / "plain", labels="match_pyramid" in overrides[0])
    with pytest.raises(BadInput) as refused:
        outcome_of(*base, f"collection.path={plain}", *overrides)
    assert says in str(refused.value)


def test_kept_vectors_are_few_and_evenly_taken():
    for count in (0, 1, MOST, MOST + 1, 10 * MOST):
        kept = spread_out(np.arange(count))
        assert len(kept) <= MOST
        assert len(kept) >= min(count, MOST / 2)


@pytest.mark.nightly
def test_a_tiny_study_with_embeddings(base, tmp_path):
    own: list[Any] = [text for text in base if not text.startswith(("scale", "measures", "validation", "vectors"))]
    asked = ["experiment=saeidi2017_table2", "scale=tiny", *own, "training.max_epochs=2", "validation.negatives=6"]
    assert command("study", *asked, "seeds=1", "local=true", f"out={tmp_path}") == 0
    summary = pl.read_csv(tmp_path / "summary.csv")
    assert set(summary.filter(candidates="embeddings")["measure"]) == {"MI", "MI/H", "AMI"}
    assert len(summary.filter(candidates="category", measure="R@1").filter(pl.col("ranker") == "dssm")) == 3
    assert pl.read_parquet(tmp_path / "embeddings.parquet")["run"].n_unique() == 3
    samplers = pl.read_parquet(tmp_path / "samplers.parquet")
    refined = samplers.filter(pl.col("function").is_in(["subcategory", "category", "outside"]))
    supplied = dict(refined.group_by("function").agg(pl.col("negatives").sum()).rows())
    shares = {name: count / sum(supplied.values()) for name, count in supplied.items()}
    assert shares == pytest.approx({"subcategory": 0.2, "category": 0.3, "outside": 0.5}, abs=0.05)
