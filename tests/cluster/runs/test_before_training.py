"""The row before training is what sentence-transformers scores with the same folder, and has no run."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from pyrite.analysis.methods import UNTRAINED
from pyrite.analysis.reports.study_report import study_verdict
from pyrite.cluster.config.compose import compose
from pyrite.cluster.output.storage import Storage
from pyrite.cluster.reports.study_results import read_results
from pyrite.cluster.runs.artifacts import Artifacts
from pyrite.cluster.runs.before_training import BeforeTraining, measured_origins
from pyrite.cluster.runs.execute import run
from pyrite.ranking.collections.beir import Beir
from pyrite.ranking.collections.cache import open_collection
from tests.cluster.command_line import command

transformers = pytest.importorskip("transformers")
library = pytest.importorskip("sentence_transformers", reason="sentence-transformers opens encoders")


@pytest.fixture(scope="module")
def options(base, checkpoint) -> list[str]:
    mine = [text for text in base if not text.startswith(("ranker.preset", "training.max_epochs"))]
    mine += ["ranker=bi_encoder", f"ranker.checkpoint={checkpoint}", "ranker.precision=float32", "local=true"]
    return [*mine, "training.max_epochs=1", "origin=full", "function=random,bm25", "seeds=2"]


@pytest.fixture(scope="module")
def study(options, tmp_path_factory):
    out = tmp_path_factory.mktemp("before") / "study"
    assert command("study", *options, f"out={out}") == 0
    return out


def theirs(checkpoint: str, folder, cache, queries: list[str]) -> list[float]:
    """AP@10 of queries by sentence-transformers' model over all documents, ties by id descending."""
    model, collection = library.SentenceTransformer(checkpoint, device="cpu"), open_collection(Beir(str(folder)), cache)
    asked = dict(collection.queries.select("id", "text").iter_rows())
    names, texts = collection.documents["id"], collection.documents["text"].to_list()
    vectors = model.encode([asked[query] for query in queries]), model.encode(texts)
    relevant = collection.judgements.filter(pl.col("grade") > 0)
    values = []
    for query, scores in zip(queries, model.similarity(*vectors).numpy().round(5), strict=True):
        of_query = set(relevant.filter(query=query)["document"])
        ranked = sorted(zip(scores, names, strict=True), reverse=True)[:10]
        hits = np.array([name in of_query for _, name in ranked])
        values.append(float((np.cumsum(hits) / np.arange(1, 11) * hits).sum() / max(len(of_query), 1)))
    return values


def test_the_row_is_what_sentence_transformers_has(study, checkpoint, beir_folder, tmp_path):
    queries = pl.read_parquet(study / "queries.parquet")
    assert queries["run"].n_unique() == 4
    found = queries.select("query", "AP@10:untrained").unique().sort("query")  # the same of all runs
    assert found["query"].is_unique().all()
    expected = theirs(checkpoint, beir_folder, tmp_path, found["query"].to_list())
    np.testing.assert_allclose(found["AP@10:untrained"], expected, atol=1e-5)

    (row,) = pl.read_csv(study / "summary.csv").filter(method=UNTRAINED, measure="AP@10").to_dicts()
    assert row["mean"] == pytest.approx(np.mean(expected), abs=1e-5)
    assert (row["ranker"], row["runs"], row["p_both"], row["against"]) == ("bi_encoder", 0, None, None)
    assert row["ci_low"] < row["mean"] < row["ci_high"]
    assert set(pl.read_csv(study / "summary.csv")["against"].drop_nulls()).isdisjoint({UNTRAINED})


def test_it_is_shown_and_is_no_run(study, capsys):
    before = (study / "report.html").read_text()
    assert "Negatives that may be relevant" in before
    assert command("report", str(study)) == 0
    said = capsys.readouterr().out
    line = next(line for line in said.splitlines() if line.strip().startswith(UNTRAINED))
    mean = pl.read_csv(study / "summary.csv").filter(method=UNTRAINED, measure="AP@10")["mean"][0]
    assert f"{mean:.4f}"[1:] in line
    page = (study / "report.html").read_text()
    assert UNTRAINED in page
    assert page == before  # nothing is lost when a report is written again
    assert len(pl.read_parquet(study / "trials.parquet")) == 4


def test_a_baseline_only_if_it_is_named(options, tmp_path, capsys):
    out = tmp_path / "named"
    assert command("study", *options, "seeds=3", f"baseline={UNTRAINED}", f"out={out}") == 0
    summary = pl.read_csv(out / "summary.csv").filter(measure="AP@10", ranker="bi_encoder")
    trained = summary.filter(pl.col("runs") > 0)
    before = summary.filter(method=UNTRAINED)["mean"][0]
    assert trained["baseline"].to_list() == [UNTRAINED] * 2
    np.testing.assert_allclose(trained["baseline_difference"], trained["mean"] - before)
    assert trained["baseline_p_both"].is_not_null().all()
    assert trained["baseline_pairs"].to_list() == [3, 3]
    assert f"against {UNTRAINED}" in capsys.readouterr().out

    # Without a baseline the verdict says whether training helps, by the same test of the method that it names.
    results = read_results(Storage(str(out)))
    options = results.config["study"] | {"baseline": None}
    conclusion, section = study_verdict(replace(results, config=results.config | {"study": options}))
    method, test = conclusion.verdicts[0].trained
    row = trained.filter(method=method).row(0, named=True)
    assert test.difference == pytest.approx(row["baseline_difference"])
    assert test.p == pytest.approx(row["baseline_p_both_holm"])
    answer = "open" if test.p >= 0.05 else "helps" if test.difference > 0 else "harms"
    said = next(
        line for line in section.terminal if isinstance(line, str) and "the ranker before training (95%" in line
    )
    assert answer in said


def test_a_ranker_that_starts_from_nothing_has_none(base):
    assert measured_origins({"ranker": {"preset": "tiny"}, "origin": {"full": {}}}) == []
    assert measured_origins({"ranker": {"checkpoint": "x"}, "origin": {"full": {}}}) == ["full"]
    assert measured_origins({"ranker": {"checkpoint": "x"}, "origin": {"full": {}}, "state": {}}) == []  # of episodes


def test_values_of_some_queries():
    before = BeforeTraining(np.array([2, 5, 9]), {"AP@10": np.array([0.1, 0.2, 0.3])})
    np.testing.assert_array_equal(before.of(np.array([9, 2]))["AP@10"], [0.3, 0.1])


@pytest.fixture
def headless(options, checkpoint, tmp_path) -> list[str]:
    """Overrides of runs of a checkpoint that lacks the weights of its head."""
    folder = str(tmp_path / "headless")
    transformers.AutoModel.from_pretrained(checkpoint).save_pretrained(folder)
    transformers.AutoTokenizer.from_pretrained(checkpoint).save_pretrained(folder)
    mine = [text for text in options if not text.startswith(("ranker", "seeds", "function", "origin", "local"))]
    mine += ["ranker=cross_encoder", f"ranker.checkpoint={folder}", f"cache={tmp_path / 'cache'}"]
    return [*mine, "function=random", "origin=random"]


def test_a_checkpoint_without_all_weights_is_not_measured(headless, caplog):
    config = compose(headless)
    outcome = run(config, Artifacts().parts(config))
    assert "no row before training: its checkpoint has no " in caplog.text
    assert outcome.values["random"]
    assert outcome.untrained == {}


@pytest.mark.nightly
def test_a_checkpoint_without_all_weights_has_no_row(headless, tmp_path, caplog, capfd):
    assert command("study", *headless, "local=true", "seeds=1", f"out={tmp_path / 'drawn'}") == 0
    assert "no row before training" in caplog.text + capfd.readouterr().err  # of this process, or of a worker
    assert UNTRAINED not in set(pl.read_csv(tmp_path / "drawn" / "summary.csv")["method"])
