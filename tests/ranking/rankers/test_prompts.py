"""Prompts by name, and by text."""

import pytest

from ranking.errors import BadInput
from ranking.rankers.sentence_folder import SentenceFolder
from ranking.tokenization import Prompts

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
