import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from pyrite.analysis.statistics.audit_rates import guards_of
from pyrite.cluster.commands.audit import collection_options, read_shown
from pyrite.cluster.output.manifest import write_config
from pyrite.cluster.output.storage import Storage
from pyrite.cluster.output.tables import write_table
from tests.cluster.command_line import command
from tests.made_up import write_texts

WORDS = ["wing", "flow", "heat", "shock", "layer", "plate", "jet", "cone", "tail", "gust", "rotor", "panel"]


@pytest.fixture(scope="module")
def collection(tmp_path_factory) -> Path:
    """A BEIR folder: 12 topics of 20 documents that share a word, four of which are known to be relevant, and
    truth.txt, by which all twenty are."""
    folder, rng = tmp_path_factory.mktemp("hidden"), np.random.default_rng(3)
    documents = [
        {"_id": f"d{topic}-{number}", "title": "", "text": " ".join([word, *rng.choice(WORDS, 6)])}
        for topic, word in enumerate(WORDS)
        for number in range(20)
    ]
    splits = {"train": (0, 1, 4, 5, 8, 9), "dev": (2, 6, 10), "test": (3, 7, 11)}
    known = {split: [(f"q{t}", f"d{t}-{n}", 1) for t in topics for n in range(4)] for split, topics in splits.items()}
    write_texts(folder, documents, [{"_id": f"q{topic}", "text": word} for topic, word in enumerate(WORDS)], known)
    (folder / "truth.txt").write_text("".join(f"q{t} 0 d{t}-{n} 1\n" for t in range(12) for n in range(20)))
    return folder


def test_hidden_positives_are_found_and_mended(collection, tmp_path, capsys, refusal):
    given = [
        "collection=beir", f"collection.path={collection}", "ranker=static", "vectors=random", "function=bm25,random",
        "training.max_epochs=2", "sampling.recorded=1", "seeds=1", "origin=random", "validation.origin=random",
        "local=true", "track=[]", f"cache={tmp_path / 'cache'}",
    ]  # fmt: skip
    study, audited = tmp_path / "study", tmp_path / "audit"
    assert command("study", *given, f"out={study}") == 0
    shown = pl.read_parquet(study / "shown.parquet")
    assert shown.columns == ["run", "fold", "query", "document", "function", "times", "margin", "score"]
    truth = {tuple(line.split()[:3:2]) for line in (collection / "truth.txt").read_text().splitlines()}
    assert command("audit", str(study), "budget=60", f"out={audited}") == 0
    asked = [line.split()[:3:2] for line in (audited / "runs" / "audit.run").read_text().splitlines()]
    assert len(asked) == 60
    judged = tmp_path / "judged.txt"
    judged.write_text("".join(f"{query} 0 {document} {int((query, document) in truth)}\n" for query, document in asked))
    assert command("audit", str(study), f"judgements={judged}", "budget=60", f"out={audited}") == 0
    rates = pl.read_csv(audited / "rates.csv")
    for method, low, high in rates.select("method", "low", "high").iter_rows():
        function = "bm25" if method.startswith("bm25") else "random"
        own = shown.filter(function=function)
        relevant = np.array([pair in truth for pair in own.select("query", "document").iter_rows()])
        assert low <= float((own["times"] * relevant).sum() / own["times"].sum()) <= high
    assert rates["rate"].to_list() == sorted(rates["rate"].to_list(), reverse=rates["method"][0].startswith("bm25"))
    assert {path.name for path in audited.iterdir()} >= {"guards.csv", "qrels.txt", "false_negatives.png"}
    # Of one function alone, from a table that people fill in.
    capsys.readouterr()
    hard = tmp_path / "hard"
    assert command("audit", str(study), "functions=[bm25]", "budget=30", f"out={hard}") == 0
    assert "fill in the column grade of" in capsys.readouterr().out
    table = pl.read_csv(hard / "sample_30_0.csv")
    assert table.columns == ["query", "document", "grade", "query_text", "text"]
    assert len(table) == 30
    own = shown.filter(function="bm25")
    assert set(table.select("query", "document").rows()) <= set(own.select("query", "document").rows())
    grades = [int(pair in truth) for pair in table.select("query", "document").rows()]
    table.with_columns(grade=pl.Series(grades)).write_csv(hard / "sample_30_0.csv")
    assert all(len(text.split()) == 7 for text in table["text"])
    filled = (hard / "sample_30_0.csv").read_bytes()
    assert command("audit", str(study), "functions=[bm25]", "budget=30", f"out={hard}") == 0
    assert (hard / "sample_30_0.csv").read_bytes() == filled, "what was filled in is lost"
    judged_hard = ["functions=[bm25]", f"judgements={hard / 'sample_30_0.csv'}", f"out={hard}"]
    assert command("audit", str(study), *judged_hard) == 0
    assert [method.split(" ")[0] for method in pl.read_csv(hard / "rates.csv")["method"]] == ["bm25"]
    assert "choose among bm25, random" in refusal("audit", str(study), "functions=[in_batch]", f"out={tmp_path / 'no'}")
    # Mended labels are no longer shown as negatives.
    mended = tmp_path / "mended"
    assert command("study", "--relabel", str(audited / "qrels.txt"), *given, f"out={mended}") == 0
    again = set(pl.read_parquet(mended / "shown.parquet").select("query", "document").iter_rows())
    found = {tuple(pair) for pair in asked} & truth
    assert found
    assert not again & found
    # In a bandit's order there is a run for each method and function.
    stale = f"out={tmp_path / 'greedy'}"
    for _ in range(2):
        assert command("audit", str(study), "order=bandit", stale) == 0
        assert len(list((tmp_path / "greedy" / "arms").iterdir())) == 2
    assert "give order=bandit" in refusal("audit", str(study), stale)
    message = refusal("audit", str(study), "order=bandit", f"out={audited}")
    assert message.endswith("order=bandit would mix with; choose another out=, or give order=sample")
    assert not (audited / "arms").exists()
    assert "arms: holds runs of other negatives" in refusal("audit", str(mended), "order=bandit", stale)
    others = f"judgements={collection / 'truth.txt'}"
    assert " of the sample; judge all" in refusal("audit", str(study), "budget=60", others, f"out={audited}")
    assert "the sample in " in refusal("audit", str(study), "budget=5", f"judgements={judged}", f"out={audited}")
    assert "is one folder that is named twice" in refusal("audit", str(study), f"{study}/", f"out={tmp_path / 'two'}")
    # Studies are named by the folders in which they differ, and a sample is that of its negatives.
    (tmp_path / "b=2").mkdir()
    (tmp_path / "b=2" / "study").symlink_to(mended)
    both = [str(study), str(tmp_path / "b=2" / "study")]
    assert "holds the sample of other negatives" in refusal("audit", *both, f"out={audited}")
    assert command("audit", *both, "order=bandit", f"out={tmp_path / 'two'}") == 0
    assert len(list((tmp_path / "two" / "arms").iterdir())) == 4
    # A grade of 1 does not count from grade 2.
    capsys.readouterr()
    assert command("audit", str(study), f"judgements={judged}", "relevant_from=2", f"out={audited}") == 0
    assert "\n0 of 60 judged are relevant" in capsys.readouterr().out


def test_a_mined_folder_is_audited_and_one_without_a_record_refused(collection, tmp_path, capsys, refusal):
    mined, audited = tmp_path / "mined", tmp_path / "audit"
    given = [
        "collection=beir", f"collection.path={collection}", "function=bm25", "count=2", f"cache={tmp_path / 'cache'}",
    ]  # fmt: skip
    assert command("mine", *given, f"out={mined}") == 0
    ids = pl.concat([pl.read_parquet(path) for path in (mined / "ids").iterdir()])
    pairs = {(row["query_id"], document) for row in ids.iter_rows(named=True) for document in row["document_ids"][1:]}
    assert "holds results of `pyrite mine`" in refusal("audit", str(mined), "budget=10", f"out={mined}")
    assert "holds other files (cache, mined)" in refusal("audit", str(mined), "budget=10", f"out={tmp_path}")
    assert command("audit", str(mined), "budget=10", f"out={audited}") == 0
    asked = {tuple(line.split()[:3:2]) for line in (audited / "runs" / "audit.run").read_text().splitlines()}
    assert len(asked) == 10
    assert asked <= pairs
    assert f"method=rank collection=beir collection.path={collection} out=" in capsys.readouterr().out
    judged = tmp_path / "judged.txt"
    lines = [f"{query} 0 {document} 1\n" for query, document in asked]
    refused = [
        (["".join(lines), "broken\n"], [], "judged.txt:11: broken line"),
        (["".join(lines[1:]), lines[0].replace(" 1\n", " -1\n")], [], "lacks 1 judgement of the sample (document "),
        (["a 0 b 1\n"], ["order=bandit"], "judges none of the negatives"),
    ]
    for content, options, says in refused:
        judged.write_text("".join(content))
        out = tmp_path / "greedy" if options else audited
        assert says in refusal("audit", str(mined), f"judgements={judged}", *options, f"out={out}")
    judged.write_text("".join([*lines, lines[0], "broken\n"]))
    options = ["budget=10", "strict=false", "encoding=latin-1"]
    assert command("audit", str(mined), f"judgements={judged}", *options, f"out={audited}") == 0
    printed = capsys.readouterr().out
    assert "broken line: 1\njudgements given again (the highest grade counts): 1\n" in printed
    assert pl.read_csv(audited / "rates.csv").select("method", "rate").rows() == [("mined", 1.0)]
    for path in (mined / "ids").iterdir():  # every pair fell short
        pl.read_parquet(path).clear().write_parquet(path)
    assert "mined: holds no negative" in refusal("audit", str(mined), f"out={tmp_path / 'none'}")
    out = f"out={tmp_path / 'audit'}"
    assert f"{tmp_path}: holds no study; name the out= of" in refusal("audit", str(tmp_path), out)
    for path in (mined / "ids").iterdir():
        path.unlink()
    assert f"is not finished; finish it with `pyrite mine --resume {mined}`" in refusal("audit", str(mined), out)
    write_config(Storage(str(tmp_path / "study")), {"study": {}, "overrides": []})
    assert "run it with sampling.recorded=1" in refusal("audit", str(tmp_path / "study"), out)
    write_config(Storage(str(tmp_path / "train")), {"run": "a"})
    assert "holds results of `pyrite train`; audit takes" in refusal("audit", str(tmp_path / "train"), out)
    assert "studies has no default" in refusal("audit", out)
    assert "nowhere: no such folder; name the out=" in refusal("audit", str(tmp_path / "nowhere"), out)


def test_faults_that_were_skipped_are_skipped_again(tmp_path, capsys):
    rows = [{"query": f"wing {word}", "positive": f"a wing is {word} here"} for word in "abcdefghijklmnopqrstuvwxyz"]
    (tmp_path / "pairs.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows) + "{broken\n")
    given = [f"collection.path={tmp_path / 'pairs.jsonl'}", "strict=false", f"cache={tmp_path / 'cache'}"]
    assert command("mine", *given, "function=bm25", "count=2", f"out={tmp_path / 'mined'}") == 0
    assert command("audit", str(tmp_path / "mined"), f"out={tmp_path / 'audit'}") == 0
    judged = f"pyrite judge runs={tmp_path / 'audit' / 'runs'} method=rank {' '.join(given[:2])} "
    assert judged in capsys.readouterr().out


@pytest.mark.parametrize(
    ("lines", "options"),
    [
        (["collection.path=a.csv strict=false function=bm25 seed=0", "collection.path=a.csv strict=false seed=1"],
         ["collection.path=a.csv", "strict=false"]),
        (["function=bm25 seed=0"], ["collection=pydocs"]),
        (["collection.path=a.csv", "collection.path=b.csv"], []),
    ],
)  # fmt: skip
def test_the_collection_of_a_study_is_that_of_its_runs(tmp_path, lines, options):
    """An experiment may name it, or nothing does: then it is that of a run without options."""
    storage = Storage(str(tmp_path))
    write_config(storage, {"verb": "study", "overrides": ["function=bm25"], "collections": {"0": "a"}})
    write_table(storage, "trials", pl.DataFrame({"overrides": lines}))
    assert collection_options(str(tmp_path)) == options


@pytest.mark.nightly
def test_mined_rows_of_any_form_have_the_same_margins(collection, tmp_path):
    """Of labelled pairs, a negative and its positive are in different rows."""
    given = ["collection=beir", f"collection.path={collection}", "function=bm25", "count=2", f"cache={tmp_path}"]
    shown = []
    for form in ("tuples", "triplets", "labelled_pairs"):
        assert command("mine", *given, f"rows={form}", f"out={tmp_path / form}") == 0
        shown.append(read_shown(str(tmp_path / form), "mined").sort("query", "document"))
    assert shown[0]["margin"].n_unique() > 2
    for other in shown[1:]:
        joined = other.join(shown[0], on=["query", "document", "function"])
        assert len(joined) >= len(shown[0])
        assert joined["margin"].to_list() == pytest.approx(joined["margin_right"].to_list())


def test_ids_with_blanks_are_refused_before_anything_is_judged(tmp_path, refusal):
    """A run can't hold them. `test_a_mined_folder_is_audited` is the quick test of the command."""
    corpus = [{"_id": f"doc {n}", "text": f"{word} {WORDS[n - 1]}"} for n, word in enumerate(WORDS)]
    queries = [{"_id": f"q{n}", "text": word} for n, word in enumerate(WORDS)]
    splits = {"train": range(8), "dev": range(8, 10), "test": range(10, 12)}
    qrels = {split: [(f"q{n}", f"doc {n}", 1) for n in numbers] for split, numbers in splits.items()}
    write_texts(tmp_path / "own", corpus, queries, qrels)
    given = ["collection=beir", f"collection.path={tmp_path / 'own'}", f"cache={tmp_path / 'cache'}"]
    mined, audited = tmp_path / "mined", tmp_path / "audit"
    assert command("mine", *given, "function=bm25", "count=1", f"out={mined}") == 0
    message = refusal("audit", str(mined), "budget=4", f"out={audited}")
    assert "has a blank in it" in message
    assert "a TREC file can't hold it: rename it" in message
    assert not audited.exists()


def test_methods_whose_names_differ_in_signs_are_judged_in_runs_of_their_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, document in (("m 1", "a"), ("m_1", "b")):
        row = {"query_id": "q", "document_ids": [["p", document]], "scores": [[2.0, 1.0]]}
        ids = pl.DataFrame(row | {"ranks": [[0, 1]], "functions": [[None, "bm25"]]})
        write_config(Storage(name), {"overrides": []})
        write_table(Storage(name), "ids/train-00000", ids)
    assert command("audit", "m 1", "m_1", "order=bandit", "out=audited") == 0
    runs = sorted(path.read_text().split()[2] for path in Path("audited/arms").iterdir())
    assert runs == ["a", "b"]


def test_guards_are_measured_on_the_negatives_that_have_a_score():
    """Of 50 the 25 with the highest scores are relevant; 50 more have no score, which a guard could drop by."""
    scored = pl.DataFrame({
        "method": "m", "query": "q", "document": [f"d{n}" for n in range(50)], "times": 1, "inclusion": 1.0,
        "margin": [-float(n) for n in range(50)], "relevant": [float(n < 25) for n in range(50)],
    })  # fmt: skip
    alone = guards_of(scored)
    assert alone.filter(pl.col("share") > 0.05)["relevant_dropped"].to_list() == pytest.approx([0.2, 0.48, 1.0])
    for missing in (None, float("nan")):
        unscored = scored.with_columns(
            document=pl.lit("u") + pl.col("document"), margin=pl.lit(missing, pl.Float64), relevant=pl.lit(0.0)
        )
        assert guards_of(pl.concat([scored, unscored])).equals(alone)
        assert guards_of(unscored).columns == alone.columns


def test_a_guard_drops_at_most_all_relevant_negatives():
    """Of the relevant ones judged, each stands for the inverse of its probability to be judged."""
    judged = {0: True, 3: False, 9: True, 15: True, 18: False}
    inclusion = {0: 0.1, 9: 0.5}
    scored = pl.DataFrame({
        "method": "m", "query": "q", "document": [f"d{n}" for n in range(20)], "times": 1,
        "inclusion": [inclusion.get(n, 0.25) for n in range(20)], "margin": [-float(n) for n in range(20)],
        "relevant": [judged.get(n) for n in range(20)],
    })  # fmt: skip
    assert guards_of(scored).select("share", "relevant_dropped").rows() == [
        (0.05, 10 / 16), (0.1, 10 / 16), (0.25, 10 / 16), (0.5, 12 / 16)
    ]  # fmt: skip
    none = guards_of(scored.with_columns(relevant=pl.lit(None, pl.Boolean)))
    assert none["relevant_dropped"].null_count() == len(none)


def test_a_line_counts_the_negatives_without_a_score(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    row = {"query_id": "q", "document_ids": [["p", "a", "b", "c"]], "scores": [[2.0, 1.0, None, 0.5]]}
    ids = pl.DataFrame(row | {"ranks": [[0, 1, 0, 2]], "functions": [[None, "bm25", "random", "bm25"]]})
    write_config(Storage("m"), {"overrides": []})
    write_table(Storage("m"), "ids/train-00000", ids)
    Path("judged.txt").write_text("q 0 a 1\nq 0 b 0\nq 0 c 0\n")
    assert command("audit", "m", "judgements=judged.txt", "out=audited") == 0
    assert "\nnegatives without a score left out of guards.csv: 1\n" in capsys.readouterr().out


def test_negatives_without_a_score_are_judged_last(tmp_path, monkeypatch):
    """The runs can be read in the order of their scores: a line without one has too few columns."""
    monkeypatch.chdir(tmp_path)
    for name, scores, expected in (
        ("some", [2.0, None, 1.0, float("nan"), 0.5], [("b", -1.0), ("d", -1.5), ("a", -2.5), ("c", -2.5)]),
        ("none", [None] * 5, [("a", 0.0), ("b", 0.0), ("c", 0.0), ("d", 0.0)]),
    ):
        row = {"query_id": "q", "document_ids": [["p", "a", "b", "c", "d"]], "scores": [scores]}
        ids = pl.DataFrame(row | {"ranks": [[0] * 5], "functions": [[None, *["random"] * 4]]})
        write_config(Storage(name), {"overrides": []})
        write_table(Storage(name), "ids/train-00000", ids)
        assert command("audit", name, "order=bandit", f"out=of_{name}") == 0
        [run] = Path(f"of_{name}/arms").iterdir()
        lines = [line.split(" ") for line in run.read_text().splitlines()]
        assert [(line[2], float(line[4])) for line in lines] == expected
        assert [(line[3], line[5]) for line in lines] == [(str(rank), f"{name}-random") for rank in range(1, 5)]
