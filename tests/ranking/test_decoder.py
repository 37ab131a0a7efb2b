"""Decoders as rerankers and as embedders, with a Llama and a Mistral of a few numbers."""

from functools import partial

import numpy as np
import pytest
import torch
import transformers
from torch import Tensor

from pyrite.ranking.collections.collection import Collection
from pyrite.ranking.rankers.bi_encoder import BiEncoder
from pyrite.ranking.rankers.cross_encoder import CrossEncoder
from pyrite.ranking.rankers.inputs import RankerInputs
from pyrite.ranking.scoring import score_candidates
from tests.ranking.checkpoints import TEMPLATE
from tests.ranking.trained import (
    LISTS,
    QUERIES,
    SHORT,
    from_checkpoint,
    generator,
    texts_for,
)

ranker = partial(from_checkpoint, CrossEncoder, template=TEMPLATE)
encoded = partial(texts_for, CrossEncoder, template=TEMPLATE)


def filled(tiny: Collection, query: int, document: int) -> str:
    return TEMPLATE.format(query=tiny.queries["text"][query], document=tiny.documents["text"][document])


@pytest.mark.parametrize(("kind", "tied"), [("llama", False), ("mistral", True)])
def test_a_words_logit_is_that_of_transformers(kind, tied, decoder_checkpoint, read_as, tiny):
    folder = decoder_checkpoint(kind, tied=tied)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    yes, no = tokenizer.convert_tokens_to_ids(["yes", "no"])
    wanted = np.zeros(LISTS.shape)
    for place, document in np.ndenumerate(LISTS):
        with torch.no_grad():
            logits = model(**tokenizer(filled(tiny, place[0], int(document)), return_tensors="pt")).logits[0, -1]
        wanted[place] = float(logits[yes] - logits[no])
    for budget in (None, 1):
        made = ranker(folder, words=["yes", "no"], budget=budget)
        np.testing.assert_allclose(
            score_candidates(made, encoded(read_as, folder), QUERIES, LISTS), wanted, rtol=1e-3, atol=1e-4
        )
    assert wanted.std() > 0.01


def test_a_heads_score_is_that_of_transformers_and_a_folder_brings_it_back(decoder_checkpoint, read_as, tiny, tmp_path):
    folder = decoder_checkpoint(headed=True)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder, num_labels=1).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    wanted = np.zeros(LISTS.shape)
    for place, document in np.ndenumerate(LISTS):
        with torch.no_grad():
            wanted[place] = float(model(**tokenizer(filled(tiny, place[0], int(document)), return_tensors="pt")).logits)
    made = ranker(folder)
    assert made.drawn == []
    scores = score_candidates(made, encoded(read_as, folder), QUERIES, LISTS)
    np.testing.assert_allclose(scores, wanted, rtol=1e-3, atol=1e-4)
    made.save_pretrained(str(tmp_path / "saved"))
    again = from_checkpoint(CrossEncoder, str(tmp_path / "saved"))
    np.testing.assert_array_equal(score_candidates(again, encoded(read_as, folder), QUERIES, LISTS), scores)


def last(folder: str, texts: list[str]) -> Tensor:
    model = transformers.AutoModel.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    with torch.no_grad():
        return torch.stack([model(**tokenizer(each, return_tensors="pt")).last_hidden_state[0, -1] for each in texts])


def test_an_embedder_takes_the_last_token(decoder_checkpoint, read_as, tiny, tmp_path):
    folder = decoder_checkpoint("mistral")
    made = BiEncoder(folder, **SHORT, pooling="last", similarity="dot").start(RankerInputs(generator()))
    texts = read_as(BiEncoder.tokenization(checkpoint=folder, **SHORT))
    wanted = last(folder, tiny.documents["text"].to_list())
    with torch.no_grad():
        torch.testing.assert_close(made.represent_documents(texts.documents), wanted, atol=1e-5, rtol=1e-4)
    made.save_pretrained(str(tmp_path / "saved"))
    assert BiEncoder(str(tmp_path / "saved")).start(RankerInputs(generator())).pooling == "last"
    config = tmp_path / "saved" / "1_Pooling" / "config.json"
    written = config.read_text()
    config.write_text('{"embedding_dimension": 16, "pooling_mode": "lasttoken"}')  # as the newest versions write it
    assert BiEncoder(str(tmp_path / "saved")).start(RankerInputs(generator())).pooling == "last"
    config.write_text(written)
    theirs = pytest.importorskip("sentence_transformers").SentenceTransformer(str(tmp_path / "saved"), device="cpu")
    found = theirs.encode(tiny.documents["text"].to_list(), convert_to_tensor=True)
    torch.testing.assert_close(found, wanted, atol=1e-5, rtol=1e-4)
