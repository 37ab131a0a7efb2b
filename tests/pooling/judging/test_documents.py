import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pooling.judging.documents import PooledDocuments, pooled, read_texts, write_texts
from pooling.judging.marking import Marking
from pooling.pool import Pool
from ranking.errors import BadInput


def test_texts_of_the_pool_are_gathered_and_kept(tmp_path, pool_of):
    pool: Pool = pool_of([[[0, 1], [1, 2]]], [[0, 0, 0]])
    frames = [
        pl.DataFrame({"id": ["d001", "x"], "text": ["one", "other"], "category": [None, None]}),
        pl.DataFrame({"id": ["d001", "d002"], "text": ["one again", ""], "category": [None, None]}),
    ]
    path = tmp_path / "new" / "texts.arrow"
    assert read_texts(path) is None
    texts = PooledDocuments(write_texts(path, pooled(frames, pool)))
    assert [texts.text(name) for name in ("d000", "d001", "d002", "x")] == [None, "one", "", None]
    assert texts.missing(pool) == 1
    again = read_texts(path)
    assert again.select("id", "text").rows() == [("d001", "one"), ("d001", "one again"), ("d002", "")]
    path.write_bytes(b"half")
    assert read_texts(path) is None
    assert [file.name for file in path.parent.iterdir()] == ["texts.arrow"]


def marked(query: str, text: str, stemming: str | None = "english") -> list[str]:
    return [piece for piece, is_term in Marking(query, stemming).pieces(text) if is_term]


def test_words_are_marked_by_their_stems():
    text = "The MOLE digs; moles' tunnelling, tunnels_and (Tunnel-vision)! molehill"
    assert marked("moles in the tunnels", text) == ["MOLE", "moles", "tunnelling", "tunnels", "Tunnel"]
    assert marked("moles in the tunnels", text, None) == ["moles", "tunnels"]
    assert marked("who is the who", "who is it") == ["who", "is"]  # stop words alone are all there is to go by
    assert marked("", "who is it") == []
    assert marked("İstanbul ÉCOLE", "istanbul é\u0301cole École") == ["École"]
    with pytest.raises(BadInput, match="no stemmer for 'klingon'"):
        Marking("x", "klingon")


@given(st.text(alphabet=st.sampled_from("aAbB é\u0301_-<>&İß\n9"), max_size=60), st.text(max_size=10))
def test_the_pieces_are_the_text(text, query):
    marking = Marking(f"{query} ab a9", "english")
    pieces = marking.pieces(text)
    assert "".join(piece for piece, _ in pieces) == text
    assert all(piece for piece, _ in pieces)
