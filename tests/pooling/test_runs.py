import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

from pooling.runs import Runs, read_runs
from ranking.errors import BadInput


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


def lists(runs: Runs) -> dict[tuple[str, str], list[str]]:
    """The documents of each run and topic, in their order."""
    out: dict[tuple[str, str], list[str]] = {}
    for run, topic, document, place in runs.table.select("run", "topic", "document", "place").iter_rows():
        documents = out.setdefault((runs.names[run], topic), [])
        assert place == len(documents)
        documents.append(document)
    return out


RANKED = "1 d2 3 .5, 1 d9 1 .5, 1 d1 2 .9, 1 d10 4 .5"


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("score", ["d1", "d9", "d2", "d10"]),  # documents descending where scores are tied
        ("rank", ["d9", "d1", "d2", "d10"]),
        ("file", ["d2", "d9", "d1", "d10"]),
    ],
)
def test_orders(folder, order, expected):
    assert lists(read_runs(str(folder(a=RANKED)), order)) == {("a", "1"): expected}


def test_tied_ranks_keep_the_order_of_the_lines(folder):
    assert lists(read_runs(str(folder(a="1 d1 1 .1, 1 d3 1 .2, 1 d2 0 .3")), "rank")) == {
        ("a", "1"): ["d2", "d1", "d3"]
    }


def test_an_unknown_order(folder):
    with pytest.raises(BadInput, match="no order 'best'"):
        read_runs(str(folder(a=RANKED)), "best")


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


def test_two_files_of_one_tag_are_named_by_their_files(folder, tmp_path):
    place = folder(tags={"input.a": "same", "b.txt": "same"}, **{"input.a": "1 d1 1 1", "b.txt": "1 d2 1 1"})
    runs = read_runs(str(place))
    assert runs.names == ["a", "b"]
    assert runs.notes["runs named by their file, for want of a tag of their own"] == 2
    (place / "input.two.gz").write_bytes(gzip.compress(b"1 Q0 d1 1 1 x\n1 Q0 d2 1 1 y\n"))
    assert read_runs(str(place)).names == ["a", "b", "two"]
    other = tmp_path / "other"
    other.mkdir()
    (other / "a").write_text("1 Q0 d1 1 1 same\n")
    with pytest.raises(BadInput, match="two runs are called 'a'"):
        read_runs([str(place), str(other)])


def test_the_table_of_teams(folder, tmp_path):
    place, groups = folder(a1="1 d1 1 1", a2="1 d1 1 1"), tmp_path / "groups"
    groups.write_text("a2\tx\n\na1, y\nunused z\n")
    runs = read_runs(str(place), groups=str(groups))
    assert runs.teams == ["y", "x"]
    assert runs.notes["names in the table of groups that are none of the runs"] == 1
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
    assert lists(runs) == {("a", "1"): ["d1", "d2"], ("a", "2"): ["d1"]}
    assert runs.notes["lines that name a document again"] == 1
    # By score its best line stands.
    assert lists(read_runs(str(place)))["a", "1"] == ["d1", "d2"]


def test_only_the_deepest_are_kept(folder):
    runs = read_runs(str(folder(a=RANKED)), deepest=2)
    assert lists(runs) == {("a", "1"): ["d1", "d9"]}
    assert not any(count for note, count in runs.notes.items() if "rise from one rank" not in note)


def test_other_encodings(folder):
    place = folder(a="1 d1 1 1")
    (place / "a").write_bytes("1 Q0 d1 1 1 Zürich\n".encode("latin-1"))
    with pytest.raises(BadInput, match=r"runs/a:1: wrong encoding"):
        read_runs(str(place))
    assert read_runs(str(place), encoding="latin-1").names == ["Zürich"]


def test_nothing_to_read(folder, tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
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
