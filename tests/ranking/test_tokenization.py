import json
import shutil
from pathlib import Path

import polars as pl
import pytest

from ranking import tokenization
from ranking.errors import BadInput
from ranking.rankers.bi_encoder import BiEncoder
from ranking.rankers.cross_encoder import CrossEncoder
from ranking.tokenization import Prompts, Subwords, read_tokenizer, subwords


def test_ids_are_the_tokenizers_plus_one_and_cut(small_bert):
    tokenizer = read_tokenizer(small_bert)
    texts = ["unbelievable tunnelling moles", "", "gold"]
    made = subwords(read_tokenizer(small_bert), pl.Series(texts), 5)
    expected = [tokenizer(text, add_special_tokens=False)["input_ids"][:5] for text in texts]
    assert expected[1] == []
    expected[1] = [tokenizer.unk_token_id]
    assert [made.take([row]).tokens.tolist() for row in range(3)] == [[token + 1 for token in ids] for ids in expected]
    assert made.lengths.tolist()[0] == 5


def test_chunks_leave_no_trace(small_bert, monkeypatch):
    texts = pl.Series([f"text {'and more ' * (number % 4)}{number}" for number in range(7)])
    whole = subwords(read_tokenizer(small_bert), texts, 6)
    monkeypatch.setattr(tokenization, "CHUNK", 2)
    parts = subwords(read_tokenizer(small_bert), texts, 6)
    assert parts.tokens.tolist() == whole.tokens.tolist()
    assert parts.offsets.tolist() == whole.offsets.tolist()


def test_a_collection(tiny, made_up):
    tokens = Subwords(made_up(), 3, 4).encode(tiny)
    assert tokens.documents.lengths.tolist() == [4] * 12
    assert tokens.queries.lengths.tolist() == [3, 3, 3, 3, 2, 3, 2, 3]
    names = read_tokenizer(made_up()).convert_ids_to_tokens((tokens.queries.take([4]).tokens - 1).tolist())
    assert names == ["hard", "mineral"]
    assert tokens.documents.tokens.min() > 0


def test_the_key_is_what_the_tokens_depend_on(small_bert, tmp_path):
    key = Subwords(small_bert, 8, 16).key()
    assert json.loads(json.dumps(key)) == key
    copied = tmp_path / "elsewhere"
    shutil.copytree(small_bert, copied, ignore=shutil.ignore_patterns("*.safetensors", "*.pt"))
    assert Subwords(str(copied), 8, 16).key() == key
    assert Subwords(small_bert, 9, 16).key() != key
    assert Subwords(small_bert, 8, 17).key() != key
    tokenizer = json.loads((copied / "tokenizer.json").read_text())
    tokenizer["normalizer"] = None
    (copied / "tokenizer.json").write_text(json.dumps(tokenizer))
    assert Subwords(str(copied), 8, 16).key() != key


def test_prompts_stand_before_texts_and_do_not_shorten_them(tiny, made_up):
    plain = Subwords(made_up(), 3, 4)
    prompted = Subwords(made_up(), 3, 4, Prompts(query="hard mineral "))
    (without, tokens) = (each.encode(tiny) for each in (plain, prompted))
    mineral = subwords(read_tokenizer(made_up()), pl.Series(["hard mineral"]), 9).tokens.tolist()
    for row in range(len(without.queries)):
        expected = mineral + without.queries.take([row]).tokens.tolist()
        assert tokens.queries.take([row]).tokens.tolist() == expected
    assert tokens.documents.tokens.tolist() == without.documents.tokens.tolist()
    assert Subwords(made_up(), 3, 4, Prompts()).key() == plain.key()
    assert len({json.dumps(each.key()) for each in (plain, prompted, Subwords(made_up(), 3, 4, Prompts("a")))}) == 3
    assert json.loads(json.dumps(prompted.key())) == prompted.key()


def test_a_home_folder(made_up, monkeypatch):
    folder = Path(made_up())
    monkeypatch.setenv("HOME", str(folder.parent))
    near = f"~/{folder.name}"
    assert read_tokenizer(near).get_vocab() == read_tokenizer(str(folder)).get_vocab()
    assert Subwords(near, 8, 16).key() == Subwords(str(folder), 8, 16).key()


@pytest.mark.parametrize("ranker", [CrossEncoder, BiEncoder])
def test_rankers_say_how_much_they_read(ranker, small_bert):
    asked = ranker.tokenization(checkpoint=small_bert, preset="small", max_query=7, max_document=None)
    assert (asked.checkpoint, asked.max_query, asked.max_document) == (small_bert, 7, 64)
    with pytest.raises(BadInput, match="preset"):
        ranker.tokenization(checkpoint=small_bert, preset="huge")


def test_passages_are_read_whole(small_bert):
    asked = CrossEncoder.tokenization(checkpoint=small_bert, max_document=50, passages=3, pooling="max")
    first = CrossEncoder.tokenization(checkpoint=small_bert, max_document=50, passages=3)
    assert (asked.max_document, first.max_document) == (150, 50)


@pytest.mark.parametrize("content", [None, "{nope"])
def test_a_folder_without_a_tokenizer(content, small_bert, tmp_path):
    shutil.copy(f"{small_bert}/config.json", tmp_path)
    if content:
        (tmp_path / "tokenizer.json").write_text(content)
    with pytest.raises(BadInput) as caught:
        read_tokenizer(str(tmp_path))
    assert str(tmp_path) in str(caught.value)
    assert "tokenizer" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_folder_of_checkpoints_names_one(small_bert, tmp_path):
    """As `weights/` of a training is, with a folder for each run."""
    shutil.copytree(small_bert, tmp_path / "weights" / "a-run")
    with pytest.raises(BadInput, match=r"weights: is a folder of 1 checkpoint, not one itself; name weights/a-run"):
        read_tokenizer(str(tmp_path / "weights"))
    with pytest.raises(BadInput, match=r"is a folder of 1 checkpoint, not one itself; name \S+/weights/a-run"):
        read_tokenizer(str(tmp_path))
    (tmp_path / "weights" / "a-run" / "config.json").unlink()
    (tmp_path / "weights" / "a-run" / "modules.json").write_text("[]")  # static vectors have no architecture to declare
    with pytest.raises(BadInput, match=r"name \S+/weights/a-run"):
        read_tokenizer(str(tmp_path))
