"""Lengths that a checkpoint was trained with, there and back, and prompts by name and by text."""

import json
from collections.abc import Callable
from typing import Any

import pytest
import torch

from ranking.errors import BadInput
from ranking.rankers.bi_encoder import BiEncoder
from ranking.rankers.cross_encoder import CrossEncoder
from ranking.rankers.decoder import Decoder
from ranking.rankers.sentence_folder import SentenceFolder
from ranking.rankers.text_lengths import FILE
from ranking.tokenization import Prompts

KINDS = {"bi_encoder": BiEncoder, "cross_encoder": CrossEncoder, "decoder": Decoder}


@pytest.fixture
def plain(made_up, decoder_checkpoint) -> Callable[[str], str]:
    """A checkpoint of somebody else's, for each kind of ranker."""
    return lambda kind: decoder_checkpoint(headed=True) if kind == "decoder" else made_up()


def lengths(kind: str, checkpoint: str, **options: Any) -> tuple[int, int]:
    """Subwords that a ranker reads of a query and of a document, as its tokenization has them too."""
    made = KINDS[kind](torch.Generator().manual_seed(0), checkpoint, **options)
    read = KINDS[kind].tokenization(checkpoint=checkpoint, **options)
    found = getattr(made, "lengths", None) or (made.max_query, made.max_document)
    assert found == (read.max_query, read.max_document)
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_a_trained_folder_is_read_as_it_was_trained(kind, plain, tmp_path):
    given, saved = plain(kind), str(tmp_path / "saved")
    assert lengths(kind, given, preset="tiny", max_document=20) == (12, 20)
    short = KINDS[kind](torch.Generator().manual_seed(0), given, preset="tiny", max_query=5, max_document=7)
    short.save_pretrained(saved)
    assert lengths(kind, saved, preset="tiny") == (5, 7)  # as trained, whatever the preset
    assert lengths(kind, saved, preset="tiny", max_document=9) == (5, 9)  # but what is asked for counts
    again = KINDS[kind](torch.Generator().manual_seed(0), saved)
    again.save_pretrained(str(tmp_path / "again"))
    assert lengths(kind, str(tmp_path / "again")) == (5, 7)


@pytest.mark.parametrize("content", [[5, 7], {"max_query": 5}, {"max_query": 5, "max_document": 0}])
def test_a_file_of_something_else_is_refused(content, plain, tmp_path):
    made = KINDS["bi_encoder"](torch.Generator().manual_seed(0), plain("bi_encoder"), preset="tiny")
    made.save_pretrained(str(tmp_path))
    (tmp_path / FILE).write_text(json.dumps(content))
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
