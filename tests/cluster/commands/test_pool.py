"""The real command, small."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tests.cluster.command_line import command
from tests.made_up import write_texts

FILES = {
    "config.yaml", "trials.parquet", "curves.parquet", "totals.parquet", "budgets.parquet", "effort.parquet",
    "ranking_quality.parquet", "stopping.parquet", "fairness.parquet", "estimates.parquet",
    "reuse.parquet", "summary.csv", "report.html",
}  # fmt: skip
METHODS = "method=docid,mtf,mm,bla,posterior_fusion,shared,shared_fusion,stratified_sampling"
CONTRASTS = "contrasts=[[posterior_fusion,mm],[mm,docid]]"


@pytest.fixture(scope="module")
def study(of_small_pool, tmp_path_factory) -> Path:
    """Eight methods over a small pool, two seeds each, with all that can be told of them."""
    out = tmp_path_factory.mktemp("pool_studies") / "main"
    asked = [*of_small_pool, METHODS, CONTRASTS, "seeds=2", "reuse=true", "local=true", f"out={out}"]
    assert command("pool", *asked) == 0
    return out


def test_a_pooling_study_leaves_its_files_and_a_page_that_says_what_was_compared(study):
    assert {path.name for path in study.iterdir() if path.is_file()} >= FILES
    figures = {"found", "gained", "ranking_quality", "stopping", "estimates", "reuse"}
    assert {path.stem for path in (study / "figures").iterdir()} == figures
    assert not list(study.rglob("*.part"))
    assert (pl.read_parquet(study / "trials.parquet")["status"] == "done").all()
    page = (study / "report.html").read_text()
    for text in ("posterior_fusion", "When to stop", "Runs that took no part", "6 runs of 3 teams", "method=mm"):
        assert text in page
    assert page.count("<figure") == 6


@pytest.mark.nightly
def test_on_ray_it_is_the_same(study, of_small_pool, ray_session, experiments, tmp_path):
    methods = ["mm", "stratified_sampling"]
    asked = [*of_small_pool, f"method={','.join(methods)}", "seeds=2", "reuse=true", "concurrent=1"]
    assert command("pool", *asked, f"out={tmp_path}") == 0
    assert experiments
    for name in ("curves", "budgets", "ranking_quality", "stopping", "fairness", "estimates", "reuse"):
        here, there = (pl.read_parquet(place / f"{name}.parquet") for place in (study, tmp_path))
        assert here.filter(pl.col("method").is_in(methods)).equals(there), name


def test_every_method_finds_the_same_documents_in_the_end_as_the_summary_has_it(study):
    curves = pl.read_parquet(study / "curves.parquet")
    assert curves.columns == ["pool", "method", "seed", "topic", "judgements", "found"]
    ends = curves.group_by("method", "seed", "topic").agg(pl.col("judgements").max(), pl.col("found").max())
    ends = ends.group_by("topic").agg(pl.col("judgements", "found").n_unique())
    assert ends.select("judgements", "found").unique().rows() == [(1, 1)]
    rises = curves.sort("judgements").select(pl.col("found").diff().over("method", "seed", "topic"))
    assert rises["found"].max() == 1  # a row wherever a document is found: nothing is left out
    summary = pl.read_csv(study / "summary.csv")
    assert summary.columns[:5] == ["pool", "method", "judgements", "budget", "found_mean"]
    assert len(summary) == 8 * summary["judgements"].n_unique()
    totals = summary.filter(judgements="all")["found_mean"]
    assert totals.n_unique() == 1
    at_once = pl.read_parquet(study / "totals.parquet").group_by("method").agg(pl.col("found").max())
    assert at_once["found"].to_list() == pytest.approx([totals[0]] * 8)


def test_contrasts_named_beforehand_are_told(study):
    asked = pl.read_csv(study / "contrasts.csv")
    assert asked.columns == ["pool", "method", "against", "judgements", "difference", "low", "high", "p"]
    assert set(asked.select("method", "against").rows()) == {("posterior_fusion", "mm"), ("mm", "docid")}
    summary = pl.read_csv(study / "summary.csv")
    means = {row[:2]: row[2] for row in summary.select("method", "judgements", "found_mean").rows()}
    for method, against, budget, gained in asked.select("method", "against", "judgements", "difference").rows():
        assert gained == pytest.approx(means[method, str(budget)] - means[against, str(budget)])
    assert "Contrasts named beforehand" in (study / "report.html").read_text()


def test_a_study_that_is_finished_is_not_started_anew(study, small_pool, of_small_pool, capsys, refusal):
    assert "holds results already" in refusal("pool", *of_small_pool, METHODS, f"out={study}")
    before = {name: (study / name).read_bytes() for name in ("report.html", "summary.csv", "contrasts.csv")}
    assert command("pool", "--resume", str(study)) == 0
    assert "(8 of 8 done)" in capsys.readouterr().out
    assert {name: (study / name).read_bytes() for name in before} == before
    assert "can't change on resume" in refusal("pool", "--resume", str(study), "seeds=3")
    # Nor is it gone on with if its pool has changed.
    qrels = small_pool / "qrels.txt"
    before = qrels.read_text()
    try:
        qrels.write_text(before.replace(" 1\n", " 0\n", 1))
        line = refusal("pool", "--resume", str(study))
        assert f"the pool small has changed since this pooling study began: {qrels} differs" in line
    finally:
        qrels.write_text(before)


def test_a_pool_without_relevant_documents_is_reported(small_pool, tmp_path):
    qrels = tmp_path / "none.txt"
    qrels.write_text((small_pool / "qrels.txt").read_text().replace(" 1\n", " 0\n"))
    given = [f"runs={small_pool / 'runs'}", f"qrels={qrels}", "method=mtf,mm", "seeds=1", "local=true"]
    assert command("pool", *given, "stopping=[found_nothing]", f"out={tmp_path / 'out'}") == 0
    assert (tmp_path / "out" / "report.html").exists()
    assert set(pl.read_csv(tmp_path / "out" / "summary.csv")["found_mean"]) == {0.0}


def test_what_a_pool_has_no_grades_for_or_is_no_study_for_is_refused(study, of_small_pool, refusal):
    line = refusal("pool", *of_small_pool, "method=machine_prior,mm", "local=true")
    assert "machine_prior needs a machine's grades, and the pool small has none; give machine=FILE" in line
    line = refusal("compare", str(study), str(study.parent / "other"))
    assert f"{study}/config.yaml: was written by `pyrite pool`, and not by a study" in line
    assert "was written by `pyrite pool`" in refusal("study", "--power", str(study))


def test_a_prior_from_a_file_beside_the_user_and_another_baseline(of_small_pool, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    prior = "method.mm.arm.prior={_target_: pyrite.pooling.priors.PriorFile, path: prior.txt}"
    names = ["a0", "a1", "b2", "b3", "c4", "c5"]
    Path("prior.txt").write_text("".join(f"{name} {place} 2\n" for place, name in enumerate(names, 1)))
    asked = [*of_small_pool, "method=mm,rank", prior, "seeds=1", "ranking_quality=false", "stopping=[]"]
    asked += ["budgets=[5,5,3]", "local=true"]
    assert command("pool", *asked, "out=first") == 0
    summary = pl.read_csv("first/summary.csv")
    assert summary.filter(method="mm")["judgements"].to_list() == ["3", "5", "all"]
    assert summary["p"].null_count() == len(summary)
    assert command("report", "first", "baseline=rank") == 0
    assert pl.read_csv("first/summary.csv").filter(method="mm")["difference"].null_count() == 0
    for wrong in ("baseline=best", "seeds=3"):
        assert command("report", "first", wrong) == 2
    Path("prior.txt").write_text("".join(f"{name} {place} 2\n" for place, name in enumerate(names, 2)))
    assert command("pool", *asked, "out=second") == 0
    runs = [{path.stem.split(".")[0] for path in Path(out, "runs").glob("*-mm-*.json")} for out in ("first", "second")]
    assert runs[0] != runs[1], "a prior's content is part of what a result depends on"


WORDS = ["wing", "flow", "heat", "shock"]


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Path:
    """Four topics of 12 relevant documents among 120. Two runs have six of the relevant, and 14 others; no run has the
    rest."""
    folder, rng = tmp_path_factory.mktemp("beyond"), np.random.default_rng(2)
    (folder / "runs").mkdir()
    documents: list[dict[str, str]] = []
    qrels: list[tuple[str, str, int]] = []
    runs: tuple[list[str], list[str]] = ([], [])
    for topic, word in enumerate(WORDS):
        own = [f"d{topic}-{number}" for number in range(30)]
        for number, name in enumerate(own):
            said = [*([word] * 2 if number < 12 else []), *rng.choice(["jet", "cone", "tail"], 5)]
            documents.append({"_id": name, "title": "", "text": " ".join(said)})
            qrels.append((f"q{topic}", name, int(number < 12)))
        for run in range(2):
            ranked = rng.permutation([*own[:6], *own[12:26]])
            runs[run].extend(f"q{topic} Q0 {name} {rank} {-rank} r{run}\n" for rank, name in enumerate(ranked, 1))
    queries = [{"_id": f"q{topic}", "text": word} for topic, word in enumerate(WORDS)]
    write_texts(folder / "collection", documents, queries, {"test": qrels})
    (folder / "qrels.txt").write_text("".join(f"{query} 0 {name} {grade}\n" for query, name, grade in qrels))
    for number, lists in enumerate(runs):
        (folder / f"runs/r{number}").write_text("".join(lists))
    return folder


def found(files: Path, out: Path, *more: str) -> dict[str, float]:
    """Relevant documents found a topic with 14 judgements, and in all, by method."""
    given = [
        f"runs={files / 'runs'}", f"qrels={files / 'qrels.txt'}", "depth=20", "collection=beir",
        f"collection.path={files / 'collection'}", "method=cal,mm", "budgets=[14]", "seeds=2", "local=true", "track=[]",
        "stopping=[]", "ranking_quality=false", f"cache={files / 'cache'}", f"out={out}",
    ]  # fmt: skip
    assert command("pool", *given, *more) == 0
    rows = pl.read_parquet(out / "budgets.parquet").group_by("method", "budget").agg(pl.col("found").mean())
    return {f"{method} {budget}": mean for method, budget, mean in rows.iter_rows()}


def test_learning_from_texts_reaches_beyond_the_pool_where_the_collection_has_the_topics(files, tmp_path, refusal):
    within, beyond = found(files, tmp_path / "within"), found(files, tmp_path / "beyond", "beyond=15")
    assert within["cal 0"] == within["mm 0"] == 6  # the runs have no more
    assert beyond["cal 0"] == beyond["mm 0"] == 12
    assert beyond["cal 14"] > 11 > within["cal 14"]
    (tmp_path / "run").write_text("x1 Q0 d0-1 1 9 r\n")
    (tmp_path / "qrels").write_text("x1 0 d0-1 1\n")
    given = [f"runs=[{tmp_path / 'run'}]", f"qrels={tmp_path / 'qrels'}", "collection=beir", "beyond=5", "method=mm"]
    where = [f"collection.path={files / 'collection'}", f"cache={files / 'cache'}", f"out={tmp_path / 'out'}"]
    assert "none of the topics is a query of the collection" in refusal("pool", *given, *where, "local=true")
