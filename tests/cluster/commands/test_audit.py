import json
import shlex
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from pyrite.analysis.statistics.audit_rates import guards_of
from pyrite.cluster.commands.audited import read_shown, reading_of
from pyrite.cluster.output.manifest import write_config
from pyrite.cluster.output.storage import Storage
from pyrite.cluster.output.tables import write_table
from pyrite.ranking.collections.cache import open_collection
from pyrite.ranking.collections.pairs import Pairs
from pyrite.ranking.errors import BadInput
from pyrite.ranking.trec_files import read_qrels
from tests.cluster.command_line import command
from tests.made_up import write_texts

WORDS = ["wing", "flow", "heat", "shock", "layer", "plate", "jet", "cone", "tail", "gust", "rotor", "panel"]

NO_MARGIN = "negatives without a score on their positive's scale"


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
    judged_hard = ["functions=[bm25]", f"judgements={hard / 'sample_30_0.csv'}", f"out={hard}"]
    empty = refusal("audit", str(study), *judged_hard, "strict=false")
    assert "sample_30_0.csv:2: 0 of 30 grades are filled in, and this is the first that is not; fill in all" in empty
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
    assert "; judge all, adding a grade" in refusal("audit", str(study), "budget=60", others, f"out={audited}")
    assert "the sample in " in refusal("audit", str(study), "budget=5", f"judgements={judged}", f"out={audited}")
    assert "is one folder that is named twice" in refusal("audit", str(study), f"{study}/", f"out={tmp_path / 'two'}")
    # Studies are named by the folders in which they differ, and a sample is that of its negatives.
    (tmp_path / "b=2").mkdir()
    (tmp_path / "b=2" / "study").symlink_to(mended)
    both = [str(study), str(tmp_path / "b=2" / "study")]
    assert "holds the sample of other negatives" in refusal("audit", *both, f"out={audited}")
    assert command("audit", *both, "order=bandit", f"out={tmp_path / 'two'}") == 0
    assert len(list((tmp_path / "two" / "arms").iterdir())) == 4
    # A grade of 1 does not count from grade 2, of which the assessors must be able to give one.
    capsys.readouterr()
    assert command("audit", str(study), "relevant_from=2", f"out={tmp_path / 'graded'}") == 0
    printed = capsys.readouterr().out
    assert printed.startswith("relevant from grade 2 on\n")
    assert "sample_300_0.csv, 2 for relevant and 0 for not" in printed
    assert "method=rank 'grades=[0,1,2]' relevant_from=2 collection=beir" in printed
    assert f"pyrite audit {study} relevant_from=2 out=" in printed
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
        (["".join(lines[1:]), lines[0].replace(" 1\n", " -1\n")], [], "lacks 1 judgement of the sample (the first: "),
        (
            ["query,document,grade\n", "a,b,1\n", '"a","c", \n', "a,d,\n"],
            [],
            "judged.txt:3: 1 of 3 grades are filled in",
        ),
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


def test_no_cell_of_the_table_to_fill_in_is_a_formula(tmp_path, capsys):
    """The apostrophe is no part of an id when the table is read; one that an id has itself stays."""
    ids = ["+d", "=d", "'d", "'=d", "'-d", "@d", "\uff1dd", "d"]
    corpus = [{"_id": name, "text": f"@SUM({n}) wing"} for n, name in enumerate(ids)] + [{"_id": "p", "text": "a wing"}]
    qrels = {split: [(query, "p", 1)] for split, query in (("train", "-q"), ("dev", "q1"), ("test", "q2"))}
    queries = [{"_id": "-q", "text": '=HYPERLINK("wing")'}, {"_id": "q1", "text": "wing"}, {"_id": "q2", "text": "a"}]
    write_texts(tmp_path / "own", corpus, queries, qrels)
    given = ["collection=beir", f"collection.path={tmp_path / 'own'}", "function=bm25", f"count={len(ids)}"]
    mined, audited = tmp_path / "mined", tmp_path / "audit"
    assert command("mine", *given, f"cache={tmp_path / 'cache'}", f"out={mined}") == 0
    assert command("audit", str(mined), f"out={audited}") == 0
    file = audited / f"sample_{len(ids)}_0.csv"
    table = pl.read_csv(file, infer_schema=False).fill_null("")
    cells = [cell for row in table.rows() for cell in row]
    assert not [cell for cell in cells if cell.startswith(("=", "+", "-", "@", "\uff1d"))]
    assert set(table["document"]) == {"'+d", "'=d", "'d", "''=d", "''-d", "'@d", "'\uff1dd", "d"}
    for columns in (table.columns, ["query", "document", "grade"]):
        table.with_columns(grade=(pl.col("document") == "'=d").cast(pl.Int8)).select(columns).write_csv(file)
        assert command("audit", str(mined), f"judgements={file}", f"out={audited}") == 0
        assert read_qrels(file).filter(grade=1).select("query", "document").rows() == [("-q", "=d")]
        assert set(read_qrels(file)["document"]) == set(ids)


@pytest.mark.parametrize("written", [["data", "ids", "shards"], ["data", "ids"]])
def test_a_part_of_a_mining_is_not_taken_for_the_whole(collection, tmp_path, written, refusal):
    """Of two shards one was written; or its tables were, and not yet the note that it is done."""
    mined, out = tmp_path / "mined", f"out={tmp_path / 'audit'}"
    given = ["collection=beir", f"collection.path={collection}", "function=bm25", "shard=3", f"cache={tmp_path}/cache"]
    assert command("mine", *given, f"out={mined}") == 0
    kept = [file for folder in written for file in (mined / folder).glob("train-00000.*")] + [mined / "config.yaml"]
    for file in {file for file in mined.rglob("*") if file.is_file()} - {*kept}:
        file.unlink()
    says = f"mined: is not finished; finish it with `pyrite mine --resume {mined}`"
    of_pairs = ["collection=pairs", f"collection.path={mined}", "function=given", f"cache={tmp_path}/cache"]
    assert says in refusal("audit", str(mined), "budget=10", out)
    assert says in refusal("train", *of_pairs, "ranker=static", f"out={tmp_path / 'train'}")
    with pytest.raises(BadInput, match="is not finished"):
        open_collection(Pairs(mined), tmp_path / "own")
    assert command("mine", "--resume", str(mined)) == 0
    assert command("audit", str(mined), "budget=10", out) == 0
    for name in ("config.yaml", "README.md"):  # as a copy of the tables alone
        (mined / name).unlink()
    assert len(open_collection(Pairs(mined), tmp_path / "own").queries) == 6


def test_faults_that_were_skipped_are_skipped_again(tmp_path, capsys):
    rows = [{"query": f"wing {word}", "positive": f"a wing is {word} here"} for word in "abcdefghijklmnopqrstuvwxyz"]
    (tmp_path / "pairs.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows) + "{broken\n")
    given = [f"collection.path={tmp_path / 'pairs.jsonl'}", "strict=false", f"cache={tmp_path / 'cache'}"]
    assert command("mine", *given, "function=bm25", "count=2", f"out={tmp_path / 'mined'}") == 0
    assert command("audit", str(tmp_path / "mined"), f"out={tmp_path / 'audit'}") == 0
    judged = f"pyrite judge runs={tmp_path / 'audit' / 'runs'} method=rank {' '.join(given[:2])} "
    assert judged in capsys.readouterr().out


@pytest.mark.parametrize(
    ("line", "options"),
    [
        ("collection.path=a.csv strict=false function=bm25 seed=0", ["collection.path=a.csv", "strict=false"]),
        ("function=bm25 seed=0", ["collection=pydocs"]),
    ],
)
def test_the_collection_of_a_study_is_that_of_its_runs(tmp_path, line, options):
    """An experiment may name it, or nothing does: then it is that of a run without options."""
    storage = Storage(str(tmp_path))
    write_config(storage, {"verb": "study", "overrides": ["function=bm25"], "collections": {"0": "a"}})
    assert list(map(shlex.split, reading_of(storage, [line]))) == [options]


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


@pytest.mark.parametrize("place", [".", "../m1/", "sub/.."])
def test_a_mining_has_the_name_of_its_folder(tmp_path, monkeypatch, place):
    mined_of(str(tmp_path / "m1"), {}, [], "a")
    (tmp_path / "m1" / "sub").mkdir()
    monkeypatch.chdir(tmp_path / "m1")
    assert read_shown(place)["method"].to_list() == ["m1"]


def test_what_is_relevant_is_what_the_study_took_as_relevant(tmp_path, monkeypatch, capsys, refusal):
    monkeypatch.chdir(tmp_path)
    for name, overrides in (("graded", ["encoding.relevant_from=2", "seed=0"]), ("binary", ["seed=0"])):
        row = {"query_id": "q", "document_ids": [["p", "a", "b"]], "scores": [[3.0, 2.0, 1.0]]}
        ids = pl.DataFrame(row | {"ranks": [[0, 1, 2]], "functions": [[None, "bm25", "bm25"]]})
        write_config(Storage(name), {"overrides": overrides})
        write_table(Storage(name), "ids/train-00000", ids)
    Path("judged.txt").write_text("q 0 a 1\nq 0 b 2\n")
    for name, says in (("graded", "1 of 2 judged are relevant"), ("binary", "2 of 2 judged are relevant")):
        assert command("audit", name, "judgements=judged.txt", f"out=of_{name}") == 0
        assert says in capsys.readouterr().out
    assert "graded, binary: documents are relevant from the grades 1 and 2 on, by run; choose one for" in refusal(
        "audit", "graded", "binary", "out=both"
    )
    assert command("audit", "graded", "binary", "relevant_from=1", "judgements=judged.txt", "out=both") == 0


def test_guards_are_measured_on_the_negatives_that_have_a_score():
    """Of 50 the 25 with the highest scores are relevant; 50 more have no score, which a guard could drop by."""
    scored = pl.DataFrame({
        "method": "m", "query": "q", "document": [f"d{n}" for n in range(50)], "times": 1, "inclusion": 1.0,
        "margin": [-float(n) for n in range(50)], "relevant": [float(n < 25) for n in range(50)], "scale": "all",
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
        "relevant": [judged.get(n) for n in range(20)], "scale": "all",
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
    assert f"\n{NO_MARGIN}, left out of guards.csv: 1\n" in capsys.readouterr().out
    assert pl.read_csv("audited/guards.csv")["function"].unique().to_list() == ["all"]


@pytest.mark.parametrize("version", ["now", "before", "by a ranker"])
def test_guards_compare_scores_of_one_function(version, tmp_path, monkeypatch, capsys):
    """Of the run's negatives the relevant one is .1 above the positive; BM25's are all far above .9."""
    monkeypatch.chdir(tmp_path)
    row = {"query_id": "q", "document_ids": [["p", "a", "b", "c", "d"]], "scores": [[9.0, 8.0, 7.0, 1.0, 0.3]]}
    row |= {"ranks": [[0, 1, 2, 1, 2]], "functions": [[None, "bm25", "bm25", "run_file", "run_file"]]}
    if version == "now":
        row |= {"positive_scores": [[9.0, 9.0, 9.0, 0.9, 0.9]], "comparable": [[True, True, True, False, False]]}
    write_config(Storage("m"), {"overrides": []})
    write_table(Storage("m"), "ids/train-00000", pl.DataFrame(row))
    Path("m/README.md").write_text(f"\n- scores: {'ranker' if version == 'by a ranker' else 'function'}\n")
    Path("judged.txt").write_text("q 0 c 1\nq 0 a 0\nq 0 b 0\nq 0 d 0\n")
    assert command("audit", "m", "judgements=judged.txt", "out=audited") == 0
    assert (f"\n{NO_MARGIN}, left out of guards.csv: 4\n" in capsys.readouterr().out) == (version == "before")
    guards = pl.read_csv("audited/guards.csv").select("function", "share", "margin", "relevant_dropped").rows()
    assert guards == {
        "now": [("bm25", 0.5, -1.0, None), ("run_file", 0.5, pytest.approx(0.1), 1.0)], "before": [],
        "by a ranker": [("all", 0.25, -1.0, 0.0), ("all", 0.5, -2.0, 0.0)],
    }[version]  # fmt: skip
    assert command("audit", "m", "order=bandit", "out=arms") == 0
    assert (f"{NO_MARGIN}, which come last: 4\n" in capsys.readouterr().out) == (version == "before")


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


def mined_of(folder: str, content: dict[str, str], overrides: list[str], document: str) -> None:
    """Write a mined set with one negative of a query q, of a collection with the id of the same name."""
    row = {"query_id": "q", "document_ids": [["p", document]], "scores": [[2.0, 1.0]]}
    write_config(Storage(folder), {"verb": "mine", "overrides": overrides, "collections": content})
    write_table(
        Storage(folder), "ids/train-00000", pl.DataFrame(row | {"ranks": [[0, 1]], "functions": [[None, "bm25"]]})
    )
    Storage(folder).write("README.md", b"")


def test_collections_are_audited_one_at_a_time(tmp_path, monkeypatch, capsys, refusal):
    """Equal ids are of different texts. Other judgements and words of one collection leave its ids as they are."""
    monkeypatch.chdir(tmp_path)
    corpus = [{"_id": name, "text": f"text of {name}"} for name in "de"]
    qrels = {split: [(query, "d", 1)] for split, query in (("train", "q"), ("test", "q2"))}
    write_texts(Path("a/x"), corpus, [{"_id": "q", "text": "which?"}, {"_id": "q2", "text": "what?"}], qrels)
    mined_of("m1", {"f" * 16: "x"}, ["collection.path=a/x"], "d")
    mined_of("m2", {"e" * 16: "x"}, ["collection.path=b/x"], "d")
    mined_of("m3", {"d" * 16: "x"}, ["collection.path=a/x", "collection.tokenizer=characters", "relabel=r.txt"], "e")
    mined_of("m4", {"f" * 16: "y"}, ["collection.path=copy/y"], "e")
    mined_of("m5", {"c" * 16: "z"}, ["collection.path=z"], "e")
    for studies in (["m1", "m3"], ["m1", "m4"]):
        out = "-".join(studies)
        assert command("audit", *studies, f"out={out}") == 0
        table = pl.read_csv(f"{out}/sample_2_0.csv").select("query", "document", "text", "query_text").sort("document")
        assert table.rows() == [("q", name, f"text of {name}", "which?") for name in "de"]
    for order in ("sample", "bandit"):
        message = refusal("audit", "m1", "m5", "m3", f"order={order}", "out=both")
        assert "m1, m5, m3: shows negatives of 2 collections (x, z), which may have equal ids; audit each" in message
        assert not Path("both").exists()
    message = refusal("audit", "m1", "m2", "out=both")
    assert "(x-eeeeeeee, x-ffffffff)" in message
    assert "audit each alone, with collections=x-eeeeeeee and its own out=" in message
    Path("judged.txt").write_text("q 0 d 1\n")
    capsys.readouterr()
    chosen = ["m1", "m2", "collections=x-eeeeeeee", "order=bandit", "out=alone"]
    assert command("audit", *chosen) == 0
    printed = capsys.readouterr().out
    assert " collection.path=b/x out=" in printed
    assert " collections=x-eeeeeeee order=bandit " in printed
    assert [path.name for path in Path("alone/arms").iterdir()] == ["m2-bm25.run"]
    assert command("audit", *chosen, "judgements=judged.txt") == 0
    assert "choose among x, z" in refusal("audit", "m1", "m5", "collections=[w]", "out=none")


def shown_of(folder: Path, overrides: list[str]) -> None:
    """Make a study's record one of four queries with two negatives each, by a run with these overrides."""
    trials = pl.read_parquet(folder / "trials.parquet").head(1)
    lines = pl.Series([" ".join(["function=bm25", *overrides])])
    trials.with_columns(overrides=lines).write_parquet(folder / "trials.parquet")
    pl.DataFrame({
        "run": trials["run"][0], "query": [f"q{n // 2}" for n in range(8)], "document": [f"d{n}" for n in range(8)],
        "function": "bm25", "times": 1, "margin": 0.5, "score": 1.0,
    }).write_parquet(folder / "shown.parquet")  # fmt: skip


def test_an_interval_is_exact_only_if_all_queries_are_recorded(collection, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    given = [
        "collection=beir", f"collection.path={collection}", "ranker=static", "vectors=random", "function=bm25",
        "training.max_epochs=1", "seeds=1", "origin=random", "validation.origin=random", "local=true", "track=[]",
        f"cache={tmp_path / 'cache'}",
    ]  # fmt: skip
    assert command("study", *given, "out=study") == 0
    Path("judged.txt").write_text("".join(f"q{n // 2} 0 d{n} {int(n < 2)}\n" for n in range(8)))
    for name, overrides, line in (
        ("all", ["sampling.recorded=1"], None),
        ("all at once", ["sampling={recorded:1}"], None),
        ("some", ["sampling.recorded=.25"], ": negatives of 25% of the training queries (sampling.recorded); the "),
        ("unknown", [], ": the share of the training queries that was recorded is not known; the intervals assume"),
    ):
        shown_of(Path("study"), overrides)
        capsys.readouterr()
        assert command("audit", "study", "judgements=judged.txt", f"out={name}") == 0
        printed = " ".join(capsys.readouterr().out.split())
        assert ("training queries" in printed) == (line is not None)
        assert (line or "") in printed
        [(low, high)] = pl.read_csv(f"{name}/rates.csv").select("low", "high").rows()
        assert (low == high == 0.25) if line is None else (low < 0.05 and high > 0.75)
