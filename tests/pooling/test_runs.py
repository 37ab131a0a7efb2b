import bz2
import gzip
import io
import json
import lzma
from collections.abc import Callable
from functools import partial
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest

from pyrite.pooling.pool import make_pool
from pyrite.pooling.runs import Runs, read_runs
from pyrite.ranking.errors import BadInput
from tests.made_up import write_files


@pytest.fixture
def folder(tmp_path) -> Callable[..., Path]:
    """Writes run files of lines `topic document rank score`, with the file's name for a tag unless another is given."""

    def write(tags: dict[str, str] | None = None, **files: str) -> Path:
        place = tmp_path / "runs"
        place.mkdir(exist_ok=True)
        for name, text in files.items():
            rows = [line.split() for line in text.split(",")]
            tag = (tags or {}).get(name, name)
            lines = [f"{topic} Q0 {document} {rank} {score} {tag}\n" for topic, document, rank, score in rows]
            (place / name).write_text("".join(lines))
        return place

    return write


RANKED = "1 d2 3 .5, 1 d9 1 .5, 1 d1 2 .9, 1 d10 4 .5"


@pytest.mark.parametrize(
    ("lines", "order", "expected"),
    [
        (RANKED, "score", ["d1", "d9", "d2", "d10"]),  # documents descending where scores are tied
        (RANKED, "rank", ["d9", "d1", "d2", "d10"]),
        ("1 d1 1 .1, 1 d3 1 .2, 1 d2 0 .3", "rank", ["d2", "d1", "d3"]),  # as the lines where ranks are tied
        (RANKED, "file", ["d2", "d9", "d1", "d10"]),
    ],
)
def test_orders(folder, lines, order, expected):
    assert in_order(read_runs(str(folder(a=lines)), order)) == {"1": expected}
    with pytest.raises(BadInput, match="no order 'best'"):
        read_runs(str(folder(a=lines)), "best")


def test_names_teams_and_topics(folder):
    place = folder(
        tags={"input.b": "zeta1", "c.run": "Beta2"},
        **{"input.b": "10 d1 1 1, 9 d1 1 1", "c.run": "x2 d1 1 1, 9 d1 1 1", "_3": "x10 d5 1 1"},
    )
    runs = read_runs(str(place))
    assert runs.names == ["Beta2", "_3", "zeta1"]  # byte order
    assert runs.teams == ["Beta", "_3", "zeta"]
    assert runs.topics == ["9", "10", "x10", "x2"]  # numbers by value, before all others
    assert not any(runs.notes.values())
    assert read_runs(str(place), groups=None).teams == runs.names


def test_judgements_beside_a_run_are_none_though_a_shell_lists_them(folder):
    place = folder(**{"a.run": "1 d1 1 1", "b.run.gz": "1 d2 1 1"})
    compressed = place / "b.run.gz"
    compressed.write_bytes(gzip.compress(compressed.read_bytes()))
    (place / "a.qrels").write_text("1 0 d1 1\n")
    (place / "b.qrels").write_text("1 0 d1 1\n")
    runs = read_runs(sorted(map(str, place.iterdir())))
    assert runs.names == ["a.run", "b.run.gz"]
    assert runs.notes["judgements beside a run, which are no run"] == 2
    with pytest.raises(BadInput, match="not a run"):
        read_runs([str(place / "a.qrels"), str(compressed)])


def test_two_files_of_one_tag_are_named_by_their_files(folder, tmp_path):
    place = folder(tags={"input.a": "same", "b.txt": "same"}, **{"input.a": "1 d1 1 1", "b.txt": "1 d2 1 1"})
    runs = read_runs(str(place))
    assert runs.names == ["a", "b"]
    assert runs.notes["runs named by their file, for want of a tag of their own"] == 2
    (place / "input.two.gz").write_bytes(gzip.compress(b"1 Q0 d1 1 1 x\n1 Q0 d2 1 1 y\n"))
    assert read_runs(str(place)).names == ["a", "b", "two"]
    other = write_files(tmp_path / "other", {"a": "1 Q0 d1 1 1 same\n"})
    assert read_runs([str(place), str(other)]).names == ["other/a", "runs/a", "runs/b", "runs/two"]
    write_files(tmp_path / "third", {"c": "1 Q0 d1 1 1 two\n"})
    with pytest.raises(BadInput, match="two runs are called 'two'"):
        read_runs([str(place), str(tmp_path / "third")])


def test_a_file_that_is_named_twice_is_refused(folder, monkeypatch):
    place = folder(a="1 d1 1 1", b="1 d1 1 1")
    monkeypatch.chdir(place)
    for paths in (["a", "./a"], ["a", "b", str(place / "a")], [str(place), "a"]):
        with pytest.raises(BadInput, match=r"runs/a is named twice; name it once$"):
            read_runs(paths)


def test_the_table_of_teams(folder, tmp_path):
    place, groups = folder(a1="1 d1 1 1", a2="1 d1 1 1"), tmp_path / "groups"
    groups.write_text("a2\tx\n\na1, y\nunused z\n")
    runs = read_runs(str(place), groups=str(groups))
    assert runs.teams == ["y", "x"]
    assert runs.notes["names in the table of groups that are none of the runs"] == 1
    groups.write_text("a1,x\na2,y\n", encoding="utf-8-sig")  # as Excel writes "CSV UTF-8"
    assert read_runs(str(place), groups=str(groups)).teams == ["x", "y"]
    groups.write_text("a1 x\na2 x\na1 x\na2 y\n")
    with pytest.raises(BadInput, match="groups:4: the run 'a2' is given two teams, x and y; give each run one line"):
        read_runs(str(place), groups=str(groups))
    groups.write_text("a1 x\n")
    with pytest.raises(BadInput, match="groups: no team for the run 'a2'"):
        read_runs(str(place), groups=str(groups))
    groups.write_text("a1 x\na2 y z\n")
    with pytest.raises(BadInput, match="groups:2: not two columns, but 3"):
        read_runs(str(place), groups=str(groups))
    with pytest.raises(BadInput, match="can't be read"):
        read_runs(str(place), groups=str(tmp_path / "absent"))


def test_a_document_named_again_is_counted_once(folder):
    place = folder(a="1 d1 1 .3, 1 d2 2 .2, 1 d1 3 .9, 2 d1 1 1")
    runs = read_runs(str(place), "file")
    assert in_order(runs) == {"1": ["d1", "d2"], "2": ["d1"]}
    assert runs.notes["lines that name a document again"] == 1
    # By score its best line stands.
    assert in_order(read_runs(str(place)))["1"] == ["d1", "d2"]


def test_only_the_deepest_are_kept(folder):
    runs = read_runs(str(folder(a=RANKED)), deepest=2)
    assert in_order(runs) == {"1": ["d1", "d9"]}
    assert not any(count for note, count in runs.notes.items() if "rise from one rank" not in note)


def test_other_encodings(folder):
    place = folder(a="1 d1 1 1")
    (place / "a").write_bytes("1 Q0 d1 1 1 Zürich\n".encode("latin-1"))
    with pytest.raises(BadInput, match=r"runs/a:1: wrong encoding"):
        read_runs(str(place))
    assert read_runs(str(place), encoding="latin-1").names == ["Zürich"]


def test_nothing_to_read(folder, tmp_path):
    empty = write_files(tmp_path / "empty", {})
    with pytest.raises(BadInput, match="empty: no runs in it"):
        read_runs(str(empty))
    (empty / ".hidden").write_text("not a run")
    with pytest.raises(BadInput, match="no runs in it"):
        read_runs(str(empty))
    with pytest.raises(BadInput, match="no such file"):
        read_runs(str(tmp_path / "absent"))
    place = folder(a="1 d1 1 1")
    (place / "a").write_text("\n \n")
    with pytest.raises(BadInput, match=r"runs: no lines in any of the runs"):
        read_runs(str(place))
    (place / "a").write_text("broken\n")
    with pytest.raises(BadInput, match=r"runs: no readable lines in any of the runs"):
        read_runs(str(place), strict=False)
    with pytest.raises(BadInput, match=r"runs/a: no readable lines in it"):
        read_runs([str(place / "a")], strict=False)


def test_files_by_name_are_as_their_folder(folder):
    place = folder(a=RANKED, b="2 d1 1 1")
    in_folder = read_runs(str(place))
    for by_name in (read_runs([str(place / "b"), str(place / "a")]), read_runs(str(place / "[ab]"))):
        assert by_name.names == in_folder.names
        assert by_name.table.equals(in_folder.table)
    with pytest.raises(BadInput, match=rf"no runs in it; name the folder in it: {place}"):
        read_runs(str(place.parent))


def test_ties_are_counted_by_what_orders_the_run(tmp_path):
    lines = ["1 Q0 a 1 3 t", "1 Q0 b 2 3 t", "1 Q0 c 3 2 t", "2 Q0 a 1 3 t", "2 Q0 b 1 1 t"]
    (tmp_path / "run").write_text("\n".join(lines) + "\n")
    counted = {
        order: [count for said, count in read_runs(str(tmp_path), order).notes.items() if said.startswith("lines tied")]
        for order in ("score", "rank", "file")
    }
    assert counted == {"score": [1], "rank": [1], "file": [0]}


RANKING = [("7", "d3", 2.5), ("7", "d1", 1.25), ("7", "d2", 0.5), ("8", "d2", 9.0), ("8", "d4", 3.0)]
TREC = "".join(f"{query} Q0 {document} {rank} {score} sys\n" for rank, (query, document, score) in enumerate(RANKING))
ZSTD = partial(pa.compress, codec="zstd", asbytes=True)
Written = Callable[..., str]


@pytest.fixture
def written(tmp_path) -> Written:
    def write(content: str | bytes, name: str = "sys", encoding: str = "utf-8") -> str:
        (tmp_path / "runs").mkdir(exist_ok=True)
        raw = content.encode(encoding) if isinstance(content, str) else content
        (tmp_path / "runs" / name).write_bytes(raw)
        return str(tmp_path / "runs")

    return write


def in_order(runs: Runs) -> dict[str, list[str]]:
    """The documents of each topic by their places, which are 0, 1 and so on."""
    table = runs.table.sort("run", "topic", "place")
    assert table.filter(pl.col("place") != pl.int_range(pl.len()).over("run", "topic")).is_empty()
    return {topic: table.filter(pl.col("topic") == topic)["document"].to_list() for topic in runs.topics}


NESTED = {query: {d: s for q, d, s in reversed(RANKING) if q == query} for query in ("7", "8")}
FORMS = {
    "TREC": TREC,
    "tabs": TREC.replace(" ", "\t"),
    "form feeds": TREC.replace(" ", "\f \v"),
    "two tabs, otherwise blanks": TREC.replace(" Q0 ", "\tQ0\t"),
    "three tabs, otherwise blanks": "".join(
        f"{q}\tQ0\t{d}\t{rank} {s} sys\n" for rank, (q, d, s) in enumerate(RANKING)
    ),
    "comments": f"# made by hand\n{TREC}# the end",
    "text after the tag": TREC.replace(" sys", " sys and more"),
    "ranks as floats": TREC.replace(" 1 1.25", " 1.0 1.25"),
    "ranks as words": "".join(f"{q} Q0 {d} NA {s} sys\n" for q, d, s in RANKING),
    "ranks all 0": "".join(f"{q} Q0 {d} 0 {s} sys\n" for q, d, s in reversed(RANKING)),
    "MS MARCO": "".join(f"{q}\t{d}\t{rank}\n" for rank, (q, d, _) in enumerate(RANKING, 1)),
    "a table with commas": "qid,docid,docno,rank,score,query\n"
    + "".join(f'{q},{rank},{d},{rank},{s},"one, two"\n' for rank, (q, d, s) in enumerate(RANKING)),
    "a table with tabs": "topic\tdocno\tscore\n" + "".join(f"{q}\t{d}\t{s}\n" for q, d, s in RANKING),
    "JSON": json.dumps(NESTED),
    "rankings of JSON": json.dumps({query: list(reversed(of_query)) for query, of_query in NESTED.items()}),
    "Tevatron": "".join(f"{q}\t{d}\t{s}\n" for q, d, s in RANKING),
    "ColBERT": "".join(f"{q}\t{d}\t{rank}\t{s}\n" for rank, (q, d, s) in enumerate(RANKING)),
    "commas without a header": TREC.replace(" ", ","),
    "an old Mac": TREC.replace("\n", "\r"),
}


def test_a_run_in_parquet(written):
    content = io.BytesIO()
    names = ["q_id", "doc_id", "score"]
    pl.DataFrame(list(reversed(RANKING)), names, orient="row").write_parquet(content)
    runs = read_runs(written(content.getvalue(), "sys.parquet"))
    assert runs.names == ["sys"]
    assert in_order(runs) == {"7": ["d3", "d1", "d2"], "8": ["d2", "d4"]}


def test_topics_may_share_their_only_document_and_ids_have_blanks_between_tabs(written):
    assert in_order(read_runs(written("7 d1 1 2.5\n8 d1 1 1.5\n"))) == {"7": ["d1"], "8": ["d1"]}
    runs = read_runs(written("7\tthe third of 5 texts\t2.5\n7\tthe first\t1.5\n"))
    assert in_order(runs) == {"7": ["the third of 5 texts", "the first"]}


@pytest.mark.parametrize("scores", [(1, 0, 0), (0, 2, 1, 1), (1, 3, 2, 0, 1), (0, 0, 0, 1)])
def test_whole_numbers_that_do_not_rise_are_scores(written, scores):
    lines = [f"{query} d{number} {score}\n" for query in (7, 8) for number, score in enumerate(scores)]
    runs = read_runs(written("".join(lines)))
    best = sorted(range(len(scores)), key=lambda number: (scores[number], f"d{number}"), reverse=True)
    assert in_order(runs)["8"] == [f"d{number}" for number in best]
    assert not runs.notes["runs without scores (ordered by their ranks)"]


def test_ranks_are_known_beside_broken_and_repeated_lines(written):
    lines = [f"{query} d{rank} {rank}\n" * 2 for query in (7, 8) for rank in range(1, 40)]
    runs = read_runs(written("".join([*lines, "7 d50\n"])), strict=False)
    assert in_order(runs)["8"][:3] == ["d1", "d2", "d3"]


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_read_as_the_same_ranking(written, form):
    runs = read_runs(written(FORMS[form]))
    assert in_order(runs) == {"7": ["d3", "d1", "d2"], "8": ["d2", "d4"]}
    assert runs.names == ["sys"]
    assert runs.notes["broken lines left out"] == 0
    assert runs.notes["runs without scores (ordered by their ranks)"] == (form == "MS MARCO")


def test_distances_are_named(written):
    folder = written("7 Q0 a 1 .1 s\n7 Q0 b 2 .2 s\n7 Q0 c 3 .3 s\n")
    assert in_order(read_runs(folder))["7"] == ["c", "b", "a"]
    [count] = [count for note, count in read_runs(folder).notes.items() if "order=rank" in note]
    assert count == 1
    assert in_order(read_runs(folder, order="rank"))["7"] == ["a", "b", "c"]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-8-sig"])
def test_wide_encodings_are_read_by_their_mark(written, encoding):
    text = TREC.replace("d1", "döc")
    marked = text if encoding in ("utf-16", "utf-32", "utf-8-sig") else f"\ufeff{text}"
    assert in_order(read_runs(written(marked, encoding=encoding)))["7"] == ["d3", "döc", "d2"]


@pytest.mark.parametrize(
    ("suffix", "pack"), [("gz", gzip.compress), ("bz2", bz2.compress), ("xz", lzma.compress), ("zst", ZSTD)]
)
def test_compressed_runs_are_known_by_their_bytes(written, suffix, pack):
    packed = pack(TREC.replace(" sys", "").replace("\n", " x\n").encode())
    assert in_order(read_runs(written(packed, "no suffix")))["8"] == ["d2", "d4"]
    path = Path(written(packed[:-9], f"cut.{suffix}")) / f"cut.{suffix}"
    with pytest.raises(BadInput, match=rf"cut\.{suffix}:?\d*: truncated or damaged"):
        read_runs(str(path))
    path.write_text(TREC)
    with pytest.raises(BadInput, match=r"not a \w+ file"):
        read_runs(str(path))


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("7 Q0 d9 4 1.0", r"sys:1: broken line: not 6 columns \(query, q0, document, rank, score, tag\)"),
        ("7 Q0 d\x009 4 1.0 sys", "sys:1: broken line: a NUL character in an id"),
    ],
)
def test_what_can_not_be_read_is_refused_with_its_line_or_counted(written, line, says):
    folder = written(f"{line}\n{TREC}")
    with pytest.raises(BadInput, match=says):
        read_runs(folder)
    runs = read_runs(folder, strict=False)
    assert in_order(runs)["7"] == ["d3", "d1", "d2"]
    assert runs.notes["broken lines left out"] == 1


QRELS = {
    "names": ("7 0 d1 1\n7 0 d2 0\n", "sys:1: not a run: its columns are those of judg.*; is this a qrels file"),
    "tabs": ("7\t0\ta b\t1\n7\t0\td2\t0\n", "sys:1: not a run: its columns are those of judg.*; is this a qrels file"),
    "numbers": ("# Q\n7 0 31 1\n7 0 52 0\n", "sys:2: not a run: its columns are those of judg.*; is this a qrels file"),
    "a header": ("topic iter docno rel\n7 0 d1 1\n", "sys:1: not a run: its header names grades and no scores"),
    "a table": ("qid,docno,label\n7,d1,1\n", "sys:1: not a run: its header names grades and no scores"),
    "beir": ("query-id\tcorpus-id\tscore\n7\td1\t1\n7\td2\t0\n", "sys:1: not a run: its header is that of BEIR's"),
}


@pytest.mark.parametrize("form", QRELS)
def test_judgements_among_runs_are_refused_or_left_out(written, form):
    text, says = QRELS[form]
    folder = written(text)
    with pytest.raises(BadInput, match=says):
        read_runs(folder)
    written(TREC, "other")
    runs = read_runs(folder, strict=False)
    assert runs.names == ["sys"]  # by its tag
    assert in_order(runs) == {"7": ["d3", "d1", "d2"], "8": ["d2", "d4"]}
    assert runs.notes["files left out that are no runs"] == 1


def test_ranks_of_four_columns_are_whole_numbers(written):
    folder = written("7 d1 1 2.5\n7 d2 two 1.5\n")
    with pytest.raises(BadInput, match="sys:2: broken line: rank 'two' is not a whole number"):
        read_runs(folder)
    assert in_order(read_runs(folder, strict=False)) == {"7": ["d1"]}


def test_text_after_the_tag_is_counted(written):
    runs = read_runs(written("7 Q0 d1 1 3 sys\n7 Q0 d2 2 2 sys \n7 Q0 d3 3 1 sys and more\n"))
    assert runs.notes["lines with text after their last column, which is not read"] == 1


@pytest.mark.parametrize("content", ["{", '{"7": 5}', '{"7": {"d1": "high"}}'])
def test_json_of_another_shape_is_refused(written, content):
    with pytest.raises(BadInput, match="sys"):
        read_runs(written(content))


def test_ranks_must_be_numbers_only_if_they_order_the_run(written):
    folder = written(FORMS["ranks as words"])
    assert in_order(read_runs(folder, order="file"))["8"] == ["d2", "d4"]
    with pytest.raises(BadInput, match="sys:1: broken line: the rank is not a whole number"):
        read_runs(folder, order="rank")
    assert in_order(read_runs(written("7 Q0 b 2.0 9 s\n7 Q0 a 1.0 1 s\n"), order="rank")) == {"7": ["a", "b"]}


def test_an_empty_file_is_a_run_that_found_nothing(written):
    written(TREC)
    for content, name in (("", "nothing"), ("\n \n", "blanks"), ("# no results\n", "comment")):
        folder = written(content, name)
    runs = read_runs(folder)
    assert runs.names == ["blanks", "comment", "nothing", "sys"]
    assert runs.notes["empty runs"] == 3
    pool = make_pool(runs, None)
    assert pool.topics[0].pool.lengths.tolist() == [0, 0, 0, 3]


def test_files_that_are_no_runs_are_refused_or_left_out_and_counted(written):
    for name in ("README.md", "Thumbs.db", "LICENSE"):
        folder = written(b"\xd0\xcf\x11\xe0 no run", name)
    written(b"\x89PNG\r\n\x1a\n\xff\xfe", "figure.png")
    written("# hidden", ".DS_Store")
    written(TREC)
    with pytest.raises(BadInput, match=r"LICENSE: is no run, by its name; .*strict=false"):
        read_runs(folder)
    runs = read_runs(folder, strict=False)
    assert runs.names == ["sys"]
    assert runs.notes["files left out that are no runs"] == 4
    named = f"{written('7 Q0 d 1 2 x', 'README')}/README"  # by the user
    assert in_order(read_runs(named)) == {"7": ["d"]}


def test_ties_of_single_precision_alone_are_counted_with_the_remedy(written):
    folder = written("7 Q0 d1 1 12345678.1 sys\n7 Q0 d2 2 12345678.0 sys\n7 Q0 d3 3 1 sys\n7 Q0 d4 4 1 sys\n")
    [(note, count)] = [(note, count) for note, count in read_runs(folder).notes.items() if "order_precision" in note]
    assert count == 1
    assert in_order(read_runs(folder)) == {"7": ["d2", "d1", "d4", "d3"]}  # equal as float32: by document, descending
    exact = read_runs(folder, precision="double")
    assert exact.notes[note] == 0
    assert in_order(exact) == {"7": ["d1", "d2", "d4", "d3"]}


def test_folders_and_broken_links_beside_runs_are_told(written):
    folder = Path(written(TREC))
    (folder / "more").mkdir()
    assert read_runs(str(folder)).notes["folders within the folder of runs, which are not read"] == 1
    (folder / "b").symlink_to(folder / "nowhere")
    with pytest.raises(BadInput, match=r"/b: no such file"):
        read_runs(str(folder))
