"""Queries without a word in any document are counted, with the remedy of their script."""

import pytest

from tests.cluster.command_line import command


@pytest.mark.parametrize(
    ("text", "remedy"),
    [("zzz qqq", "function=[bm25,random]"), ("東京の天気", "collection.tokenizer=characters"), ("xx ไทย", "tokenizer")],
)
def test_queries_without_a_known_word_get_the_remedy_of_their_script(text, remedy, tmp_path, own_cache, capsys):
    rows = ["query,passage", *(f"{text} {number}x,moles dig long tunnels {number}" for number in range(40))]
    (tmp_path / "pairs.csv").write_text("\n".join(rows))
    options = [f"collection.path={tmp_path / 'pairs.csv'}", "function=random", "ranker=static", "scale=tiny"]
    assert command("train", *options, "vectors=random", "encoding.min_count=1") == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "queries share no word with any document" in said
    assert remedy in said
