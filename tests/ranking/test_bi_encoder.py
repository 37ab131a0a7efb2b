import json
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from torch import Tensor
from torch.nn import functional as F

from pyrite.ranking.errors import BadInput
from pyrite.ranking.optimization import Optimization
from pyrite.ranking.rankers.bi_encoder import BiEncoder
from pyrite.ranking.rankers.sentence_folder import SentenceFolder
from pyrite.ranking.scoring import score_candidates
from pyrite.ranking.texts import Texts
from pyrite.ranking.tokenization import Prompts, Subwords
from tests.ranking.checkpoints import KINDS
from tests.ranking.trained import (
    LISTS,
    NEGATIVES,
    QUERIES,
    SHORT,
    assert_in_layers,
    from_checkpoint,
    gradients,
    in_training,
    steps,
    texts_for,
)

ranker, encoded = partial(from_checkpoint, BiEncoder), partial(texts_for, BiEncoder)


@torch.no_grad()
def vectors(made: BiEncoder, texts: Texts, queries: bool = False) -> Tensor:
    return made.represent_queries(texts) if queries else made.represent_documents(texts)


@pytest.mark.by_day(2)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("pooling", ["mean", "cls"])
@pytest.mark.parametrize("similarity", ["cosine", "dot"])
def test_vectors_are_those_of_transformers_pooled_plainly(kind, pooling, similarity, made_up, read_as, tiny):
    checkpoint = made_up(kind)
    made = ranker(checkpoint, pooling=pooling, similarity=similarity)
    model = transformers.AutoModel.from_pretrained(checkpoint).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(checkpoint)
    texts = encoded(read_as, checkpoint)
    expected = []
    for text in tiny.documents["text"]:
        with torch.no_grad():
            states = model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0]
        expected.append(states.mean(0) if pooling == "mean" else states[0])
    wanted = torch.stack(expected)
    wanted = F.normalize(wanted, dim=1) if similarity == "cosine" else wanted
    found = vectors(made, texts.documents)
    assert found.dtype == torch.float32
    assert found.shape == (12, made.dimension)
    torch.testing.assert_close(found, wanted, atol=1e-6, rtol=1e-5)
    asked = vectors(made, texts.queries.take(QUERIES), queries=True)
    scores = score_candidates(made, texts, QUERIES, LISTS)
    products = torch.einsum("qd,qmd->qm", asked, wanted[torch.from_numpy(LISTS).long()])
    np.testing.assert_allclose(scores, {"cosine": 20, "dot": 1}[similarity] * products.numpy(), rtol=1e-4, atol=1e-4)


@pytest.mark.by_day(1)
@pytest.mark.parametrize("kind", KINDS)
def test_neither_buckets_nor_other_texts_matter(kind, made_up, read_as):
    texts = encoded(read_as, made_up(kind)).documents
    together = vectors(ranker(made_up(kind)), texts)
    for budget in (1, 30):
        torch.testing.assert_close(vectors(ranker(made_up(kind), budget=budget), texts), together, atol=1e-6, rtol=0)
    alone = torch.cat([vectors(ranker(made_up(kind)), texts.take(np.array([row]))) for row in (0, 5)])
    torch.testing.assert_close(alone, together[[0, 5]], atol=1e-6, rtol=0)
    assert vectors(ranker(made_up(kind)), texts.take(np.zeros(0, np.int64))).shape == (0, 16)


def test_no_weight_is_left_untrained(made_up, read_as, tiny_sources):
    for options in ({}, {"tied": False}, {"layers": 1}):
        made = ranker(made_up(), **options)
        found = gradients(in_training(made, encoded(read_as, made_up()), tiny_sources))
        assert found.keys() == {name for name, _ in made.named_parameters()}
        assert_in_layers(made)
        assert len(made.layers()) == 1 + options.get("layers", 3)


def test_two_towers_begin_alike_and_part(made_up, read_as, tiny_sources):
    texts = encoded(read_as, made_up())
    tied, untied = ranker(made_up()), ranker(made_up(), tied=False)
    assert sum(one.numel() for one in untied.parameters()) == 2 * sum(one.numel() for one in tied.parameters())
    assert torch.equal(vectors(untied, texts.documents), vectors(tied, texts.documents))
    assert torch.equal(vectors(untied, texts.documents, queries=True), vectors(tied, texts.documents, queries=True))
    reached = steps(in_training(untied, texts, tiny_sources, lr=0.1))
    changed = [name for name, tensor in reached.items() if name.startswith("query_tower") and not torch.equal(
        tensor, reached[name.replace("query_tower", "document_tower")])]  # fmt: skip
    assert changed


def test_a_frozen_tower_of_documents_stays_as_it_is(made_up, read_as, tiny_sources):
    """With dropout, decay and momentum, all of which would move it."""
    texts = encoded(read_as, made_up("bert", 0.2))
    made = ranker(made_up("bert", 0.2), tied=False, frozen="documents")
    before = {each: vectors(made, texts.documents, each) for each in (True, False)}
    training = in_training(made, texts, tiny_sources)
    learned = [each for each in made.parameters() if each.requires_grad]
    training.optimization = Optimization(made, partial(torch.optim.AdamW, lr=0.01, weight_decay=0.1), None, 4)
    steps(training)
    assert torch.equal(vectors(made, texts.documents), before[False])
    assert not torch.allclose(vectors(made, texts.documents, queries=True), before[True], atol=0.01)
    assert {id(each) for each in learned} == {id(each) for each in made.query_tower.parameters()}
    assert {id(each) for each in training.optimization.optimizer.state} == {id(each) for each in learned}
    made.train()
    assert torch.equal(vectors(made, texts.documents), before[False])
    assert not torch.equal(vectors(made, texts.documents, queries=True), vectors(made, texts.documents, queries=True))


def test_dropout_does_not_change_the_loss_between_before_and_after_a_step(made_up, read_as, tiny_sources):
    made = ranker(made_up("bert", 0.2))
    training = in_training(made, encoded(read_as, made_up("bert", 0.2)), tiny_sources, lr=0.0)
    for _ in range(2):
        assert training.update(training.next_batch(), NEGATIVES).loss == training.loss_now()
        training.position = 0


def test_scale_and_its_default(made_up, read_as):
    texts = encoded(read_as, made_up())
    assert (ranker(made_up()).scale, ranker(made_up(), similarity="dot").scale) == (20, 1)
    one = score_candidates(ranker(made_up(), scale=1.0), texts, QUERIES, LISTS)
    assert np.abs(one).max() <= 1 + 1e-6
    three = score_candidates(ranker(made_up(), scale=3.0), texts, QUERIES, LISTS)
    np.testing.assert_allclose(three, 3 * one, rtol=1e-6)


@pytest.mark.by_day(4)
@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"pooling": "middle"}, "mean, cls"),
        ({"max_query": 39}, "max_query"),
        ({"max_document": 39}, "max_document"),
        ({"layers": 0}, "layers"),
        ({"precision": "int8"}, "bfloat16"),
        ({"truncate_dim": 17}, "ranker.truncate_dim: is 17, and vectors have 16 dimensions"),
        ({"frozen": "documents"}, r"ranker\.tied=false"),
        ({"frozen": "queries", "tied": False}, "documents or None"),
        ({"frozen": "documents", "tied": False, "categories": True}, "categories"),
    ],
)
def test_bad_options(options, says, made_up):
    with pytest.raises(BadInput, match=says):
        ranker(made_up(), **options)


def test_layers_are_kept_unless_some_are_asked_for(made_up, tmp_path):
    ranker(made_up(), layers=1).save_pretrained(str(tmp_path))
    with pytest.raises(BadInput, match=r"layers is 2.*has 1"):
        ranker(str(tmp_path), layers=2)
    towers = [ranker(place).query_tower for place in (str(tmp_path), made_up())]
    assert [tower.model.config.num_hidden_layers for tower in towers] == [1, 3]


def test_bfloat16_vectors_are_of_unit_length(made_up, read_as):
    texts = encoded(read_as, made_up()).documents
    rough = vectors(ranker(made_up(), precision="bfloat16"), texts)
    assert rough.dtype == torch.float32
    torch.testing.assert_close(rough.norm(dim=1), torch.ones(12))
    assert 0 < (rough - vectors(ranker(made_up()), texts)).abs().max() < 0.05


def sentence_folder(made_up: Callable[..., str], folder: Path, **options: Any) -> Path:
    ranker(made_up(), **options).save_pretrained(str(folder))
    return folder


def test_a_folder_says_how_its_texts_become_vectors(made_up, tmp_path):
    plain = SentenceFolder(
        made_up(), made_up(), longest=40, plain=True, root=made_up(), folders=[made_up()], longest_query=40
    )
    assert SentenceFolder.read(made_up()) == plain
    for pooling, similarity in (("mean", "dot"), ("cls", "cosine")):
        folder = str(sentence_folder(made_up, tmp_path / pooling, pooling=pooling, similarity=similarity))
        read = ranker(folder)
        assert (read.pooling, read.similarity, read.drawn) == (pooling, similarity, [])
        other = ranker(folder, pooling="cls", similarity="dot")
        assert (other.pooling, other.similarity) == ("cls", "dot")


def test_two_towers_are_written_and_read(made_up, read_as, tiny_sources, tmp_path):
    texts = encoded(read_as, made_up())
    made = ranker(made_up(), tied=False, pooling="cls")
    steps(in_training(made, texts, tiny_sources, lr=0.1))
    made.save_pretrained(str(tmp_path))
    again = ranker(str(tmp_path), tied=False)
    for queries in (False, True):
        assert torch.equal(vectors(again, texts.documents, queries), vectors(made, texts.documents, queries))
    assert not torch.equal(vectors(made, texts.documents, True), vectors(made, texts.documents))
    with pytest.raises(BadInput, match=r"set ranker\.tied=null"):
        ranker(str(tmp_path), tied=True)
    same = ranker(str(tmp_path), tied=None)
    assert torch.equal(vectors(same, texts.documents, True), vectors(made, texts.documents, True))
    tokens = BiEncoder.tokenization(checkpoint=str(tmp_path), **SHORT)
    assert read_as(tokens).documents.tokens.tolist() == texts.documents.tokens.tolist()


@pytest.mark.by_day(3)
@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("modules.json", [{"type": "x.CLIPModel", "path": ""}]),
        ("modules.json", [{"nothing": 1}]),
        ("1_Pooling/config.json", {"pooling_mode": "middle"}),
        ("config_sentence_transformers.json", {"similarity_fn_name": "manhattan"}),
        ("config_sentence_transformers.json", None),
        ("modules.json", None),
        ("config_sentence_transformers.json", {"prompts": ["query: "]}),
        ("config_sentence_transformers.json", {"prompts": {"query": 3}}),
        ("config_sentence_transformers.json", {"prompts": {"query": "q "}, "default_prompt_name": "other"}),
    ],
)  # fmt: skip
def test_what_a_bi_encoder_does_not_do_is_refused(file, content, made_up, tmp_path):
    folder = sentence_folder(made_up, tmp_path / "folder", similarity="dot")
    (folder / file).write_text(json.dumps(content))
    with pytest.raises(BadInput) as caught:
        ranker(str(folder))
    assert str(caught.value).startswith(str(folder))
    assert "\n" not in str(caught.value)


@pytest.mark.by_day(3)
@pytest.mark.parametrize(
    ("declared", "query", "document"),
    [
        ({}, "", ""),
        ({"prompts": {}, "default_prompt_name": None}, "", ""),
        ({"prompts": None, "similarity_fn_name": None}, "", ""),
        ({"prompts": {"query": "Q ", "document": "D "}}, "Q ", "D "),
        ({"prompts": {"query": "Q ", "passage": "P ", "document": ""}}, "Q ", "P "),
        ({"prompts": {"query": "Q "}, "default_prompt_name": "query"}, "Q ", ""),
        ({"prompts": {"s": "S "}, "default_prompt_name": "s"}, "S ", "S "),
        ({"prompts": {"s": "S ", "query": None, "document": ""}, "default_prompt_name": "s"}, "S ", ""),
        ({"prompts": {"s": "S "}}, "", ""),
    ],
)  # fmt: skip
def test_which_prompts_a_folder_declares(declared, query, document, made_up, tmp_path):
    folder = sentence_folder(made_up, tmp_path / "folder")
    (folder / "config_sentence_transformers.json").write_text(json.dumps(declared))
    asked = BiEncoder.tokenization(checkpoint=str(folder), **SHORT)
    assert asked.prompts == Prompts(query, document)
    assert (len(asked.key()) > len(Subwords(str(folder), 8, 12).key())) == bool(query or document)


def test_towers_of_unlike_words_are_refused(made_up, tmp_path):
    folder = sentence_folder(made_up, tmp_path / "folder", tied=False)
    shutil.copy(f"{made_up('roberta')}/tokenizer.json", folder / "document_0_Transformer")
    with pytest.raises(BadInput, match=r"subwords|its tokenizer has"):
        ranker(str(folder), tied=False)


def test_without_the_hub(monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    for ask in (lambda: ranker("nobody/nothing"), lambda: BiEncoder.tokenization(checkpoint="nobody/nothing")):
        with pytest.raises(BadInput, match=r"ranker\.checkpoint=FOLDER"):
            ask()
