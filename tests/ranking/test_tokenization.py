"""Texts as subwords and as trigrams, and the lengths and prompts that a checkpoint was trained with."""

import json
import shutil
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pyrite.ranking import reading, tokenization
from pyrite.ranking.errors import BadInput
from pyrite.ranking.rankers.bi_encoder import BiEncoder
from pyrite.ranking.rankers.cross_encoder import CrossEncoder
from pyrite.ranking.rankers.inputs import RankerInputs
from pyrite.ranking.rankers.sentence_folder import SentenceFolder
from pyrite.ranking.rankers.transformer_ranker import LENGTHS
from pyrite.ranking.texts import Texts
from pyrite.ranking.tokenization import Prompts, Subwords, read_tokenizer, subwords
from pyrite.ranking.trigrams import Trigrams, bucket_of, collisions, trigrams_of


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
    read = Subwords(made_up(), 3, 4)
    tokens = read.encode(tiny)
    assert tokens.documents.lengths.tolist() == [5] * 12  # one more than is read of a text that is cut
    assert tokens.queries.lengths.tolist() == [4, 4, 4, 4, 2, 3, 2, 3]
    assert read.cut(tokens) == (
        "subwords: 4 of 8 queries have more than 3 and 12 of 12 documents have more than 4, and no more of them is read"
    )
    whole = Subwords(made_up(), 9, 9)
    assert whole.cut(whole.encode(tiny)) == ""
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


@pytest.mark.parametrize("name", ["merges.txt", "vocab.json", "spiece.model", "added_tokens.json"])
def test_a_vocabulary_of_any_form_changes_the_keys(name, tmp_path):
    folder, keys = tmp_path / "checkpoint", []
    folder.mkdir()
    (folder / "tokenizer_config.json").write_text("{}")
    for content in ("a b", "b c"):
        (folder / name).write_text(content)
        keys.append((Subwords(str(folder), 8, 16).key(), reading.Reading("subwords", subwords=str(folder)).key))
    assert keys[0][0] != keys[1][0]
    assert keys[0][1] != keys[1][1]
    (folder / "model.safetensors").write_text("weights")
    (folder / "README.md").write_text("a card")
    assert Subwords(str(folder), 8, 16).key() == keys[1][0]


def test_prompts_stand_before_texts_and_do_not_shorten_them(tiny, made_up):
    plain = Subwords(made_up(), 3, 4)
    prompted = Subwords(made_up(), 3, 4, Prompts(query="hard mineral "))
    (without, tokens) = (each.encode(tiny) for each in (plain, prompted))
    mineral = subwords(read_tokenizer(made_up()), pl.Series(["hard mineral"]), 9).tokens.tolist()
    for row in range(len(without.queries)):
        assert tokens.queries.take([row]).tokens.tolist() == mineral + without.queries.take([row]).tokens.tolist()
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
    asked = ranker.tokenization(checkpoint=small_bert, max_query=7, max_document=None)
    assert (asked.checkpoint, asked.max_query, asked.max_document) == (small_bert, 7, 510)
    with pytest.raises(BadInput, match=rf"{ranker.__name__}: max_query is 0; choose a whole number from 1 up"):
        ranker(small_bert, max_query=0)


def test_passages_are_read_whole(small_bert):
    asked = CrossEncoder.tokenization(checkpoint=small_bert, max_document=50, passages=3, pooling="max")
    first = CrossEncoder.tokenization(checkpoint=small_bert, max_document=50, passages=3)
    assert (asked.max_document, first.max_document) == (150, 50)
    with pytest.raises(BadInput, match=r"pooling=max: reads passages.*set ranker\.max_document"):
        CrossEncoder.tokenization(checkpoint=small_bert, passages=3, pooling="max")


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


KINDS = {"bi_encoder": BiEncoder, "cross_encoder": CrossEncoder, "decoder": CrossEncoder}


@pytest.fixture
def plain(made_up, decoder_checkpoint) -> Callable[[str], str]:
    """A checkpoint of somebody else's, for each kind of ranker."""
    return lambda kind: decoder_checkpoint(headed=True) if kind == "decoder" else made_up()


def lengths(kind: str, checkpoint: str, **options: Any) -> tuple[int, int]:
    """Subwords that a ranker reads of a query and of a document, as its tokenization has them too."""
    made = KINDS[kind](checkpoint, **options).start(RankerInputs(torch.Generator().manual_seed(0)))
    read = KINDS[kind].tokenization(checkpoint=checkpoint, **options)
    found = getattr(made, "lengths", None) or (made.max_query, made.max_document)
    assert found == (read.max_query, read.max_document)
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_a_trained_folder_is_read_as_it_was_trained(kind, plain, tmp_path):
    given, saved = plain(kind), str(tmp_path / "saved")
    positions = lengths(kind, given)[0]
    assert lengths(kind, given) == (positions, positions)
    assert lengths(kind, given, max_document=20) == (positions, 20)
    short = KINDS[kind](given, max_query=5, max_document=7).start(RankerInputs(torch.Generator().manual_seed(0)))
    short.save_pretrained(saved)
    assert lengths(kind, saved) == (5, 7)  # as trained
    assert lengths(kind, saved, max_document=9) == (5, 9)  # but what is asked for counts
    KINDS[kind](saved).start(RankerInputs(torch.Generator().manual_seed(0))).save_pretrained(str(tmp_path / "again"))
    assert lengths(kind, str(tmp_path / "again")) == (5, 7)


@pytest.mark.parametrize("content", [[5, 7], {"max_query": 5}, {"max_query": 5, "max_document": 0}])
def test_a_file_of_something_else_is_refused(content, plain, tmp_path):
    made = KINDS["bi_encoder"](plain("bi_encoder")).start(RankerInputs(torch.Generator().manual_seed(0)))
    made.save_pretrained(str(tmp_path))
    (tmp_path / LENGTHS).write_text(json.dumps(content))
    with pytest.raises(BadInput, match=r"two lengths|text_lengths\.json is no object"):
        lengths("bi_encoder", str(tmp_path))


FOLDER = SentenceFolder("x", "x", prompts=Prompts("Q ", "D "), named={"query": "Q ", "web": "Search: ", "none": None})


def test_a_prompt_is_named_or_written_out():
    assert FOLDER.with_prompts(None, None) == FOLDER
    assert FOLDER.with_prompts("web", None).prompts == Prompts("Search: ", "D ")
    assert FOLDER.with_prompts("query: ", "").prompts == Prompts("query: ", "")
    assert FOLDER.with_prompts("none", None).prompts == Prompts("", "D ")
    with pytest.raises(BadInput, match=r"query_prompt: declares no prompt 'qurey'.*query, web"):
        FOLDER.with_prompts("qurey", None)
    assert FOLDER.with_prompts(None, "qurey ").prompts == Prompts("Q ", "qurey ")  # a text, by its space
    assert SentenceFolder("x", "x").with_prompts("Frage", None).prompts == Prompts("Frage", "")
    assert SentenceFolder("x", "x").with_prompts(None, "passage: ").prompts == Prompts("", "passage: ")


LETTERS = st.text("abcé字🙂कि", min_size=1, max_size=5)  # the last two are a letter and its mark


def number(trigram: str) -> int:
    """Three letters as one number, by their code points."""
    return int("".join(f"{ord(letter):021b}" for letter in trigram), 2)


def spelled(words: list[str]) -> list[list[str]]:
    """What `trigrams_of` says, as letters."""
    trigrams, offsets = trigrams_of(pl.Series(words, dtype=pl.String))
    letters = [
        "".join(chr((int(trigram) >> shift) & (2**21 - 1)) for shift in (42, 21, 0)) for trigram in trigrams.tolist()
    ]
    return [letters[start:end] for start, end in pairwise(offsets.tolist())]


def bags(texts: list[str | None], buckets: int = 1_000_000, limit: int = 50) -> list[list[int]]:
    found = Trigrams(buckets, limit, limit).bags(pl.DataFrame({"text": texts}, schema={"text": pl.String}), limit)
    return [found.tokens[start:end].tolist() for start, end in pairwise(found.offsets.tolist())]


def by_hand(trigrams: list[str], buckets: int = 1_000_000) -> list[int]:
    return sorted((bucket_of(np.array([number(t) for t in trigrams], np.uint64), buckets) + 1).tolist())


@given(st.lists(LETTERS, max_size=6))
def test_words_are_taken_apart_each_by_itself(words):
    marked = [f"#{word}#" for word in words]
    assert spelled(words) == [[word[place : place + 3] for place in range(len(word) - 2)] for word in marked]


def splitmix(value: int) -> int:
    """The finaliser of splitmix64, in numbers without an end."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        value = (value ^ (value >> shift)) * factor % 2**64
    return value ^ (value >> 31)


@given(st.lists(st.integers(0, 2**63 - 1), max_size=5), st.integers(1, 10**6))
def test_buckets_are_those_of_the_hash(trigrams, buckets):
    given_ones = np.array(trigrams, np.uint64)
    before = given_ones.copy()
    found = bucket_of(given_ones, buckets)
    assert found.tolist() == [splitmix(trigram) % buckets for trigram in trigrams]
    assert found.dtype == np.int64
    np.testing.assert_array_equal(given_ones, before)


@given(st.lists(st.integers(0, 30), max_size=20), st.integers(1, 12))
def test_collisions_are_counted_as_one_counts_them(trigrams, buckets):
    places = Counter(splitmix(trigram) % buckets for trigram in set(trigrams))
    shared = sum(count for count in places.values() if count > 1)
    assert collisions(np.array(trigrams, np.uint64), buckets) == (len(set(trigrams)), shared)


def test_a_bag_holds_each_trigram_as_often_as_it_occurs_in_ascending_order():
    once, twice = bags(["Cat!", "a cat, the CAT"])
    assert once == by_hand(["#ca", "cat", "at#"])
    assert twice == by_hand(["#a#", "#ca", "cat", "at#", "#th", "the", "he#", "#ca", "cat", "at#"])
    assert min(once) > 0


@pytest.mark.parametrize("texts", [["", "?!", None], ["", "cat", None, "...", "cat"], ["cat"], []])
def test_a_text_without_words_has_the_trigram_of_none(texts):
    assert bags(texts) == [by_hand(["#ca", "cat", "at#"]) if text == "cat" else [1] for text in texts]


def test_chunks_change_nothing(tiny, monkeypatch):
    whole = Trigrams(500, 4, 6).encode(tiny)
    monkeypatch.setattr(reading, "CHUNK", 5)
    parts = Trigrams(500, 4, 6).encode(tiny)
    for one, other in ((whole.documents, parts.documents), (whole.queries, parts.queries)):
        np.testing.assert_array_equal(one.tokens, other.tokens)
        np.testing.assert_array_equal(one.offsets, other.offsets)


def test_a_collection_by_its_words(tiny):
    """Every text of it, taken apart in plain Python."""
    tokens = Trigrams(500, 3, 5).encode(tiny)
    for frame, found, limit in ((tiny.documents, tokens.documents, 5), (tiny.queries, tokens.queries, 3)):
        assert isinstance(found, Texts)
        assert (found.tokens.dtype, found.offsets.dtype) == (np.int32, np.int64)
        assert 1 <= found.tokens.min() <= found.tokens.max() <= 500
        for row, text in enumerate(frame["text"]):
            marked = [f"#{word}#" for word in text.lower().split()[:limit]]
            trigrams = [word[place : place + 3] for word in marked for place in range(len(word) - 2)]
            assert found.tokens[found.offsets[row] : found.offsets[row + 1]].tolist() == by_hand(trigrams, 500)


def test_a_row_reads_its_own_prompt(made_up, tiny):
    prompts = [None, "gold owls ", "gold owls ", None, *["mineral "] * 4]
    queries = tiny.queries.with_columns(prompt=pl.Series(prompts))
    prompted = tiny.changed(queries=queries)
    plain = Subwords(made_up(), 20, 20).of_queries(tiny)
    found = Subwords(made_up(), 20, 20).of_queries(prompted)
    tokenizer = read_tokenizer(made_up())
    for row, prompt in enumerate(prompts):
        text = (prompt or "") + tiny.queries["text"][row]
        expected = tokenizer(text, add_special_tokens=False)["input_ids"]
        assert [token - 1 for token in found.take(np.array([row])).tokens.tolist()] == expected
    assert plain.take(np.array([0])).tokens.tolist() == found.take(np.array([0])).tokens.tolist()


@pytest.mark.parametrize("kind", [BiEncoder, CrossEncoder])
def test_a_prompt_of_rows_takes_nothing_from_their_queries(kind, made_up, tiny):
    """Queries after a prompt of their rows are read as after the same prompt of the ranker, which may be longer."""
    prompt, queries, options = "gold owls gold owls gold ", tiny.queries, {"max_query": 3, "max_document": 6}
    found = []
    for of_ranker, of_rows in ((prompt, None), (None, prompt), ("dig " * 9, prompt)):
        rows = queries if of_rows is None else queries.with_columns(prompt=pl.Series([of_rows] * 8))
        chosen = {"checkpoint": made_up(), **options, "query_prompt": of_ranker}
        tokenization = kind.tokenization(**chosen)
        tokens = tokenization.encode(tiny.changed(queries=rows))
        ranker = kind(**chosen).start(RankerInputs(torch.Generator().manual_seed(0)))
        found.append((ranker.represent_queries(tokens.queries), tokens.queries.lengths.tolist()))
        if kind is BiEncoder:
            assert tokenization.cut(tokens).startswith("subwords: 4 of 8 queries have more than 3 and")
    for vectors, lengths in found[1:]:
        assert lengths == found[0][1]
        torch.testing.assert_close(vectors, found[0][0])


def test_prompts_of_rows_are_left_out_of_a_mean_that_leaves_prompts_out(made_up, tiny, tmp_path):
    """Each row's own prompt, of any length, as the ranker's."""
    folder = tmp_path / "theirs"
    BiEncoder(made_up()).start(RankerInputs(torch.Generator())).save_pretrained(str(folder))
    file = folder / "1_Pooling" / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"include_prompt": False}))
    prompts = ["gold owls ", "mineral ", "", None] * 2

    def vectors(queries: pl.DataFrame, prompt: str | None) -> torch.Tensor:
        chosen = {"checkpoint": str(folder), "max_query": 3, "max_document": 6, "query_prompt": prompt}
        tokens = BiEncoder.tokenization(**chosen).encode(tiny.changed(queries=queries))
        ranker = BiEncoder(**chosen).start(RankerInputs(torch.Generator())).eval()
        both = ranker.represent(tokens.queries, tokens.documents)[0]
        torch.testing.assert_close(both, ranker.represent_queries(tokens.queries))
        return both

    found = vectors(tiny.queries.with_columns(prompt=pl.Series(prompts)), "dig ")
    for row, prompt in enumerate(prompts):
        torch.testing.assert_close(found[row], vectors(tiny.queries, "dig " if prompt is None else prompt)[row])
