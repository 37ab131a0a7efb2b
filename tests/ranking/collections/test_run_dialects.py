"""Runs and judgements of today: read as they are meant, or refused in one line. All ids are made up."""

import gzip
import json
import tarfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from pyrite.pooling.runs import read_runs
from pyrite.ranking.collections.faults import Faults
from pyrite.ranking.collections.judgement_files import qrels_rows, ungraded_lines
from pyrite.ranking.errors import BadInput
from pyrite.ranking.trec_files import read_qrels, read_run
from tests.made_up import write_files


def json_lines(rows: Iterable[dict[str, Any]]) -> str:
    return "".join(f"{json.dumps(row)}\n" for row in rows)


JUDGED = [("301", "2600008", 2), ("301", "2600036", 0), ("302", "2600008", 1)]
FIELDS = [dict(zip(("qid", "docid", "judgment"), row, strict=True)) for row in JUDGED]
QRELS = {
    "TREC": "".join(f"{q} 0 {d} {g}\n" for q, d, g in JUDGED),
    "a sample": "".join(f"{q} 0 {d} {n} {g}\n" for n, (q, d, g) in enumerate(JUDGED, 1)),
    "a sample by tabs": "".join(f"{q}\t0\t{d}\t{n}\t{g}\n" for n, (q, d, g) in enumerate(JUDGED, 1)),
    "grades and probabilities": "".join(f"{q} 0 {d} {g} 0.{n}\n" for n, (q, d, g) in enumerate(JUDGED, 1)),
    "prels": "".join(f"{q} {d} {g} {n} 0.{n}\n" for n, (q, d, g) in enumerate(JUDGED, 1)),
    "a model's name": "".join(f"{q} 0 {d} {g} gpt-4o\n" for q, d, g in JUDGED),
    "relevant": "query_id,doc_id,relevant\n" + "".join(f"{q},{d},{g}\n" for q, d, g in JUDGED),
    "is_relevant": "qid\tdocno\tis_relevant\n" + "".join(f"{q}\t{d}\t{g}\n" for q, d, g in JUDGED),
    "a header between blanks": "topic iteration docno rel\n" + "".join(f"{q} 0 {d} {g}\n" for q, d, g in JUDGED),
    "other columns": "annotator;qid;docid;label;time\n" + "".join(f"a;{q};{d};{g};1\n" for q, d, g in JUDGED),
    "lists of a model": json_lines(row | {"reasons": ["a", "b"], "usage": {"tokens": 3}} for row in FIELDS),
    "objects of a model": json_lines(
        {"query": {"qid": q, "text": "x"}, "candidate": {"docid": d}, "judgment": g} for q, d, g in JUDGED
    ),
    "answers of a model": json_lines(
        {"qid": q, "docid": d, "response": {"reason": "x", "relevance": g}} for q, d, g in JUDGED
    ),
    "a query per line": '{"301": {"2600008": 2, "2600036": 0}}\n{"302": {"2600008": 1}}\n',
    "answers by document": json.dumps({
        "301": {"2600008": {"grade": 2, "by": "m"}, "2600036": {"grade": 0}}, "302": {"2600008": {"relevance": 1}},
    }),
    "rarer names": "topic_no,docno,relevancy\n" + "".join(f"{q},{d},{g}\n" for q, d, g in JUDGED),
    "lists by query": json.dumps([
        {"query": {"qid": "301"}, "judgments": [{"docid": "2600008", "label": 2}, {"docid": "2600036", "label": 0}]},
        {"query": {"qid": "302"}, "judgments": [{"docid": "2600008", "label": 1}]},
    ]),
}  # fmt: skip


@pytest.mark.parametrize("form", QRELS)
def test_judgements_in_every_form_are_the_same(tmp_path, form):
    (tmp_path / "qrels").write_text(QRELS[form])
    assert read_qrels(tmp_path / "qrels").rows() == JUDGED


@pytest.mark.parametrize("form", QRELS)
def test_other_files_than_tables_that_are_not_filled_in_have_no_line_without_a_grade(tmp_path, form):
    (tmp_path / "qrels").write_text(QRELS[form])
    assert not ungraded_lines(tmp_path / "qrels")[0]


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_lines_without_a_grade_are_found(tmp_path, separator):
    rows = [
        ("query", "document", "grade", "text"),
        ("q", "d", "", '"two\nlines"'),
        ("q", "e", "1", "x"),
        ("q", "f", " ", ""),
    ]
    (tmp_path / "table.csv").write_text("".join(f"{separator.join(row)}\n" for row in rows))
    lines, count = ungraded_lines(tmp_path / "table.csv")
    assert (len(lines), count) == (2, 3)
    assert lines[0] == 2


def test_forms_that_may_be_mistaken_are_counted(tmp_path):
    for form, note in (("a sample", "its stratum, the fifth the grade"), ("a model's name", "fifth column")):
        faults = Faults()
        (tmp_path / "qrels").write_text(QRELS[form])
        read_qrels(tmp_path / "qrels", faults=faults)
        [(said, count)] = faults.notes.items()
        assert note in said
        assert count == len(JUDGED)


@pytest.mark.parametrize("form", ["{q}  {d}  0 0\n", "     {q}     {d}\t0\t0.000000\n"])
def test_files_of_smart_hold_relevant_documents(tmp_path, form):
    (tmp_path / "qrels").write_text("".join(form.format(q=q, d=d) for q, d, _ in JUDGED))
    faults = Faults()
    assert read_qrels(tmp_path / "qrels", faults=faults).rows() == [(q, d, 1) for q, d, _ in JUDGED]
    assert faults.notes == {"judgements in SMART's form (all documents in it are relevant)": 3}


def test_judgements_that_pyrite_judge_exports_are_read(tmp_path):
    rows = [
        ("301", "=d1", 1, "ann", "t", 'two\n"lines"'),
        ("301", "d2", None, "ann", "t", ""),
        ("302", "d3", 0, "bo", "t", ""),
        ("302", "\uff20d4", 0, "bo", "t", ""),
        ("302", "'d5", 0, "bo", "t", ""),
    ]
    names = ["topic", "document", "grade", "assessor", "time", "note"]
    frame = pl.DataFrame(rows, names, orient="row")
    frame.with_columns(document=pl.col("document").str.replace("^([=\uff20])", "'$1")).write_csv(
        tmp_path / "judgements.csv"
    )
    faults = Faults()
    assert read_qrels(tmp_path / "judgements.csv", faults=faults).rows() == [
        ("301", "=d1", 1), ("302", "d3", 0), ("302", "\uff20d4", 0), ("302", "'d5", 0),
    ]  # fmt: skip
    assert faults.notes == {"judgements without a grade (the assessor could not judge), left out": 1}


REFUSED = {
    "a column that is missing": ("query_id,doc_id,stars\n301,d1,1\n", r":1: not judgements: the header has no column "
                                 r"of the grade .*it has query_id, doc_id, stars; call one of them grade"),
    "one known name": ("number,docno,note\n301,d1,1\n", r":1: not judgements: the header has no column of the query"),
    "a run": ("301 Q0 d1 1 2.5 me\n301 Q0 d2 2 1.5 me\n", ":1: not judgements: its columns are those of a run"),
    "an answer without a grade": ('{"qid": "1", "docid": "2"}\n', r":1: broken line: no grade: it has query, document"),
    "no form": ("301 d1\n302 d2\n", r":1: .*not 4 columns .*names the 2 columns \(query, document\)"),
    "words": ("301 0 d1 relevant\n301 0 d2 not\n", ":1: broken line: grade 'relevant' is not a whole number"),
    "six columns": ("301 0 d1 1 # seen\n", r":1: .*the 6 columns \(query, document, grade; call the others as you li"),
}  # fmt: skip


@pytest.mark.parametrize("form", REFUSED)
def test_what_are_no_judgements_is_named(tmp_path, form):
    text, says = REFUSED[form]
    (tmp_path / "qrels").write_text(text)
    with pytest.raises(BadInput, match=rf"qrels{says}"):
        read_qrels(tmp_path / "qrels")


def test_the_remedies_of_columns_work(tmp_path):
    (tmp_path / "qrels").write_text("query_id,doc_id,grade\n301,d1,1\n")
    assert read_qrels(tmp_path / "qrels").rows() == [("301", "d1", 1)]
    (tmp_path / "qrels").write_text("query document grade\n301 d1 1\n")
    assert read_qrels(tmp_path / "qrels").rows() == [("301", "d1", 1)]
    (tmp_path / "qrels").write_text("query document\n301 d1\n")
    assert read_qrels(tmp_path / "qrels").rows() == [("301", "d1", 1)]
    (tmp_path / "qrels").write_text("query iteration document grade hash what\n301 0 d1 1 # seen\n")
    assert read_qrels(tmp_path / "qrels").rows() == [("301", "d1", 1)]
    (tmp_path / "run").write_text("301 Q0 d1 1 2.5\n")
    with pytest.raises(BadInput, match=r"names the 5 columns \(query, document, score; call the others as you like\)"):
        read_run(tmp_path / "run")
    (tmp_path / "run").write_text("query it document rank score\n301 Q0 d1 1 2.5\n")
    assert read_run(tmp_path / "run").rows() == [("301", "d1", 1, 2.5, "run")]
    (tmp_path / "run").write_text("query document score tag rank\n301 d1 2.5 me 1\n")
    assert read_run(tmp_path / "run").rows() == [("301", "d1", 1, 2.5, "me")]


@pytest.mark.parametrize("ids", ["#301", "301"])
def test_comments_and_ids_that_begin_with_a_hash(tmp_path, ids):
    (tmp_path / "qrels").write_text(f"{ids} 0 d1 1\n{ids} 0 #2 0\n")
    assert read_qrels(tmp_path / "qrels").rows() == [(ids, "d1", 1), (ids, "#2", 0)]
    (tmp_path / "qrels").write_text("# by hand\n301 0 d1 1\n#301 0 d2 0\n")
    faults = Faults()
    assert pl.concat(qrels_rows(tmp_path / "qrels", faults)).rows() == [("301", "d1", 1, 2)]
    assert faults.notes == {"lines that begin with # and would be rows without it (left out)": 1}


# Runs

RANKED = [("301", "d3", 2.5), ("301", "d1", 1.5), ("302", "d2", 9.0)]
TREC = "".join(f"{q} Q0 {d} {n} {s} {{tag}}\n" for n, (q, d, s) in enumerate(RANKED))
RUNS = {
    "TIRA": json_lines(
        {"qid": q, "query": "stone bridges", "docno": d, "docid": 7, "text": "x", "score": s, "rank": 1}
        for q, d, s in RANKED
    ),
    "ir_datasets": json_lines({"query_id": q, "query": "x", "doc_id": d, "score": s} for q, d, s in RANKED),
    "ranks alone": json_lines({"qid": q, "docid": d, "rank": n} for n, (q, d, _) in enumerate(RANKED)),
    "requests of a reranker": json_lines(
        {
            "query": {"qid": query, "text": "x"},
            "candidates": [{"docid": d, "score": s, "doc": {"contents": "x"}} for q, d, s in RANKED if q == query],
        }
        for query in ("301", "302")
    ),
}  # fmt: skip


def in_order(path: Path) -> list[tuple[str, str]]:
    return read_runs(str(path)).table.sort("topic", "place").select("topic", "document").rows()


@pytest.mark.parametrize("form", RUNS)
def test_runs_of_json_lines_are_by_their_ids(tmp_path, form):
    folder = write_files(tmp_path / "runs", {"sys.jsonl": RUNS[form]})
    assert in_order(folder) == [(q, d) for q, d, _ in RANKED]
    assert read_runs(str(folder)).names == ["sys"]


EVALUATED = {
    "trec_eval": "map                   \tall\t0.4321\nP_10                  \tall\t0.5000\n",
    "trec_eval, all": "runid                 \tall\tme\nnum_q                 \tall\t50\nmap          \tall\t0.1\n",
    "trec_eval -q": "map\t301\t0.5\nP_10\t301\t0.4\nndcg_cut_10\t301\t0.1\niprec_at_recall_0.10\tall\t0.4\n",
    "ir_measures": "AP\t0.31\nnDCG@10\t0.4\n",
    "ir_measures -q": "301\tnDCG@10\t0.5\n301\tAP(rel=2)@100\t0.5\n",
}


@pytest.mark.parametrize("form", EVALUATED)
def test_outputs_of_evaluations_are_no_runs(tmp_path, form):
    folder = write_files(tmp_path / "runs", {"a": TREC.format(tag="a"), "results": EVALUATED[form]})
    with pytest.raises(BadInput, match=r"results:1: not a run: its lines are measures"):
        read_runs(str(folder))
    runs = read_runs(str(folder), strict=False)
    assert (runs.names, runs.topics) == (["a"], ["301", "302"])
    assert runs.notes["files left out that are no runs"] == 1


def test_topics_may_be_called_like_letters(tmp_path):
    folder = write_files(tmp_path / "runs", {"a": "p1\td1\t2.5\nr2\td2\t1.5\nmap2\td2\t1.5\n"})
    assert read_runs(str(folder)).topics == ["map2", "p1", "r2"]


def test_a_file_with_several_systems_is_a_run_of_each(tmp_path):
    both = TREC.format(tag="one") + TREC.format(tag="two")
    runs = read_runs(str(write_files(tmp_path / "runs", {"all": both, "other": TREC.format(tag="three")})))
    assert runs.names == ["one", "three", "two"]
    assert runs.notes["files with the runs of several systems, each of which is read"] == 1
    assert len(runs.table) == 3 * len(RANKED)
    table = pl.DataFrame(
        [(*row, tag) for row in RANKED for tag in ("x", "y")], ["qid", "docno", "score", "system"], orient="row"
    )
    table.write_csv(tmp_path / "runs" / "all")
    assert read_runs(str(tmp_path / "runs")).names == ["three", "x", "y"]


@pytest.mark.parametrize("pattern", ["runs", "runs/*/*"])
def test_a_folder_per_team_is_its_team(tmp_path, monkeypatch, pattern):
    for team, files in (("alpha", ["run1.gz", "run2.gz"]), ("beta", ["run1.gz"])):
        (tmp_path / "runs" / team).mkdir(parents=True)
        for file in files:
            (tmp_path / "runs" / team / file).write_bytes(gzip.compress(TREC.format(tag="STANDARD").encode()))
    runs = read_runs(str(tmp_path / pattern))
    assert runs.names == ["alpha/run1", "alpha/run2", "beta/run1"]
    assert runs.teams == ["alpha", "alpha", "beta"]
    assert runs.notes["runs whose team is their folder"] == 3
    (tmp_path / "groups").write_text("alpha/run1 x\nalpha/run2 y\nbeta/run1 x\n")
    assert read_runs(str(tmp_path / pattern), groups=str(tmp_path / "groups")).teams == ["x", "y", "x"]


def test_links_backups_and_archives_are_no_runs(tmp_path):
    texts = dict.fromkeys(
        ("a", "a~", "b.bak", "#a#", "a.swp", "c.tar.gz", "d.zip", "a.eval", "run.log"), TREC.format(tag="a")
    )
    folder = write_files(tmp_path / "runs", texts)
    (folder / "gone").symlink_to(folder / "nowhere")
    runs = read_runs(str(folder), strict=False)
    assert (runs.names, runs.notes["files left out that are no runs"]) == (["a"], 9)
    with pytest.raises(BadInput, match="is no run, by its name; move it out of the folder, or set strict=false"):
        read_runs(str(folder))
    for name in texts:
        if name != "a":
            (folder / name).unlink()
    with pytest.raises(BadInput, match=r"gone: no such file; move it out of the folder, or set strict=false"):
        read_runs(str(folder))


def test_negative_ranks_are_counted(tmp_path):
    folder = write_files(tmp_path / "runs", {"a": "1 Q0 d1 -1 3 a\n1 Q0 d2 -2 2 a\n"})
    [count] = [count for note, count in read_runs(str(folder), order="rank").notes.items() if "negative ranks" in note]
    assert count == 1
    assert not any("negative" in note and count for note, count in read_runs(str(folder)).notes.items())


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:xz"])
def test_archives_of_tar_are_known_by_their_bytes(tmp_path, mode):
    (tmp_path / "a").write_text("301 Q0 d1 1 2.5 me\n")
    with tarfile.open(tmp_path / "run", mode) as archive:  # type: ignore[call-overload]
        archive.add(tmp_path / "a", "a")
    with pytest.raises(BadInput, match="run: is a tar archive; unpack it with tar -xf"):
        read_run(tmp_path / "run")
