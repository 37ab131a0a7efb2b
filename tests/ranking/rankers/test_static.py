"""Static vectors: hand-worked scores, gradients, and a ranker that learns."""

import numpy as np
import polars as pl
import pytest
import torch
from safetensors.numpy import save_file
from tokenizers import Tokenizer

from pyrite.ranking.collections.collection import Collection
from pyrite.ranking.encoding import encode_texts
from pyrite.ranking.errors import BadInput
from pyrite.ranking.rankers.inputs import RankerInputs
from pyrite.ranking.rankers.static import Static
from pyrite.ranking.rankers.static_folder import Vocabulary
from pyrite.ranking.texts import Texts
from tests.ranking.trained import started

VECTORS = np.array([[0, 0], [0, 0], [1, 0], [0, 1], [3, 4]], np.float32)


def made(**options: object) -> Static:
    return started(Static, RankerInputs(torch.Generator().manual_seed(0), VECTORS), **{"further": 0, **options})


def test_a_score_is_the_scaled_cosine_of_weighted_means():
    ranker = made(idf=np.array([1, 1, 1, 3, 1], np.float32), scale=10.0)
    queries, documents = Texts.of([[2, 3]]), Texts.of([[3], [4]])
    mean = np.array([1, 3]) / 4  # of weights 1 and 3
    cosines = [mean @ [0, 1] / np.linalg.norm(mean), mean @ [0.6, 0.8] / np.linalg.norm(mean)]
    scores = ranker(queries, documents).detach().numpy()
    np.testing.assert_allclose(scores, [[10 * each for each in cosines]], rtol=1e-6)


def test_further_dimensions_are_drawn_from_the_generator_and_leave_padding_alone():
    one, again = made(further=3), made(further=3)
    assert one.dimension == 5
    assert torch.equal(one.vectors, again.vectors)
    assert not one.vectors[0].any()
    assert one.vectors[1, 2:].any()
    assert made(further=None, preset="tiny").dimension == 16


def test_a_spread_changes_no_score_and_how_far_a_step_turns():
    queries, documents = Texts.of([[2, 3]]), Texts.of([[3], [4]])
    turned, first = [], []
    for spread in (0, 0.05):
        ranker = made(further=3, spread=spread)
        assert not spread or float(ranker.vectors.detach().std()) == pytest.approx(spread)
        optimizer = torch.optim.Adam([ranker.vectors], lr=0.01)
        scores = ranker(queries, documents)
        first.append(scores.detach())
        torch.nn.functional.cross_entropy(scores, torch.zeros(1, dtype=torch.long)).backward()
        before = ranker.vectors.detach().clone()
        optimizer.step()
        turned.append(float(1 - torch.nn.functional.cosine_similarity(before[3], ranker.vectors.detach()[3], dim=0)))
    torch.testing.assert_close(*first)
    assert turned[1] > 10 * turned[0] > 0
    assert torch.equal(made(further=3).vectors, made(further=3, spread=0.05).vectors), "where nothing is trained yet"


DOCUMENTS = ["One two, TWO three!", "three Two", "one four-one", "nothing known but three"]


@pytest.fixture
def small() -> Collection:
    """Texts in words that the vocabulary has or has not."""
    documents = pl.DataFrame({"id": ["a", "b", "c", "d"], "text": DOCUMENTS})
    return Collection("small", "0", documents, pl.DataFrame({"id": ["q"], "text": ["three one"]}), pl.DataFrame())


def test_a_folder_of_words_is_read_by_sentence_transformers_and_here(small, tmp_path):
    """The same cosines in three places: as trained on our words, as they read the folder, as it is read again."""
    words = ["", "<unknown>", "one", "two", "three"]
    trained = made(idf=np.array([1, 1, 2, 3, 0.5], np.float32), further=4, scale=1.0, vocabulary=Vocabulary(words, 3))
    texts = encode_texts(small.documents, words, 3), encode_texts(small.queries, words, 3)
    with torch.no_grad():
        scores = trained.represent_queries(texts[1]) @ trained.represent_documents(texts[0]).T
    trained.save_pretrained(str(tmp_path / "static"))

    read = Static.tokenization(checkpoint=str(tmp_path / "static")).encode(small)
    again = made(checkpoint=str(tmp_path / "static"), scale=1.0)
    assert again.dimension == trained.dimension
    assert torch.equal(again.vectors, made(checkpoint=str(tmp_path / "static"), spread=0).vectors), "as it was trained"
    with torch.no_grad():
        found = again.represent_queries(read.queries) @ again.represent_documents(read.documents).T
    torch.testing.assert_close(found, scores, atol=1e-6, rtol=1e-5)
    again.save_pretrained(str(tmp_path / "again"))  # from the tokens of a checkpoint

    library = pytest.importorskip("sentence_transformers")
    for name in ("static", "again"):
        theirs = library.SentenceTransformer(str(tmp_path / name), device="cpu")
        vectors = theirs.encode([*DOCUMENTS, "three one"], convert_to_tensor=True)
        torch.testing.assert_close(vectors[-1:] @ vectors[:-1].T, scores, atol=1e-6, rtol=1e-5)


def test_sentence_transformers_own_folders_are_read(small, tmp_path):
    library = pytest.importorskip("sentence_transformers")
    from sentence_transformers.models import StaticEmbedding

    tokenizer = Tokenizer.from_str(Vocabulary(["", "<unknown>", "one", "two", "three"], 9).tokenizer())
    theirs = library.SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_dim=6)], device="cpu")
    theirs.save(str(tmp_path / "theirs"))
    ranker = made(checkpoint=str(tmp_path / "theirs"))
    tokens = Static.tokenization(checkpoint=str(tmp_path / "theirs"))
    wanted = torch.nn.functional.normalize(theirs.encode(DOCUMENTS, convert_to_tensor=True), dim=1)
    with torch.no_grad():
        torch.testing.assert_close(ranker.represent_documents(tokens.encode(small).documents), wanted)


@pytest.mark.parametrize("quantized", [False, True])
def test_a_folder_of_model2vec_begins_with_its_weights_and_leaves_unknown_tokens_out(quantized, small, tmp_path):
    """Σ w_t·E_t over known tokens, of E by the mapping where the vocabulary is quantized (model2vec 0.10)."""
    rows = np.arange(15, dtype=np.float16).reshape(5, 3) - 6
    weights = np.array([1, 1, 2, 0.5, 1], np.float32)
    mapping = np.array([0, 1, 4, 4, 2]) if quantized else np.arange(5)
    state = {"embeddings": rows, "weights": weights} | ({"mapping": mapping} if quantized else {})
    save_file(state, tmp_path / "model.safetensors")
    (tmp_path / "tokenizer.json").write_text(Vocabulary(["", "<unknown>", "one", "two", "three"], 9).tokenizer())
    (tmp_path / "config.json").write_text('{"model_type": "model2vec", "normalize": true}')
    ranker, tokens = made(checkpoint=str(tmp_path)), Static.tokenization(checkpoint=str(tmp_path), max_document=5)
    texts = tokens.encode(small).documents
    known = [[2, 3, 3, 4], [4, 3], [2, 2], [4]]  # one four-one; nothing known but three
    table = rows[mapping].astype(np.float32) * weights[:, None]
    wanted = torch.from_numpy(np.stack([table[ids].sum(0) for ids in known]))
    with torch.no_grad():
        found = ranker.represent_documents(texts)
    torch.testing.assert_close(found, torch.nn.functional.normalize(wanted, dim=1), atol=1e-5, rtol=1e-4)
    cut = Static.tokenization(checkpoint=str(tmp_path), max_document=2)
    assert cut.encode(small).documents.lengths.tolist() == [2, 2, 2, 2]
    assert cut.key() != tokens.key()


def test_what_is_no_static_folder_is_refused(tmp_path):
    with pytest.raises(BadInput, match="not known"):
        made().save_pretrained(str(tmp_path / "static"))
    save_file({"weight": np.zeros(3)}, tmp_path / "model.safetensors")
    (tmp_path / "tokenizer.json").write_text(Vocabulary(["", "<unknown>"], 9).tokenizer())
    with pytest.raises(BadInput, match="no token vectors"):
        made(checkpoint=str(tmp_path))
    (tmp_path / "modules.json").write_text('[{"type": "x.Transformer", "path": ""}]')
    with pytest.raises(BadInput, match="StaticEmbedding"):
        made(checkpoint=str(tmp_path))
    with pytest.raises(BadInput):
        made(checkpoint=str(tmp_path / "nowhere"))
    with pytest.raises(BadInput, match="max_query"):
        made(checkpoint=str(tmp_path), max_query=0)
