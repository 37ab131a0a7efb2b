import pytest
from hypothesis import given
from hypothesis import strategies as st

from pooling.judging.marking import Marking
from ranking.errors import BadInput


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
