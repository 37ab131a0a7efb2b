"""Names and paths that are meant by misspelt ones."""

import pytest

from pyrite.ranking.collections.row_files import row_files
from pyrite.ranking.errors import BadInput
from pyrite.ranking.similar import similar, similar_path


@pytest.mark.parametrize(
    ("name", "known", "expected"),
    [
        ("bm52", ["bm25", "random"], "bm25"),
        ("Bi-Encoder", ["cross_encoder", "bi_encoder"], "bi_encoder"),
        ("zebra", ["bm25", "random"], None),
        ("bm25", [], None),
    ],
)
def test_the_most_similar_name(name, known, expected):
    assert similar(name, known) == expected


def test_less_similar_names_are_left_out_on_demand():
    assert similar("medquard", ["medquest"]) == "medquest"
    assert similar("medquard", ["medquest"], 0.75) is None


def test_the_file_beside_a_missing_one(tmp_path):
    (tmp_path / "pairs.csv").write_text("query,passage\n")
    assert similar_path(tmp_path / "pair.csv") == f"did you mean {tmp_path / 'pairs.csv'}?"
    assert similar_path(tmp_path / "other.txt") == "check the path"
    assert similar_path(tmp_path / "nowhere" / "pairs.csv") == "check the path"
    (tmp_path / "link.csv").symlink_to("absent.csv")
    assert similar_path(tmp_path / "link.csv") == "it is a link to absent.csv, which is not there"
    with pytest.raises(BadInput, match=r"no such file or folder; did you mean .*pairs\.csv\?"):
        row_files(tmp_path / "pair.csv")
