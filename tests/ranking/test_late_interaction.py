"""Late interaction: MaxSim as a plain loop has it, PyLate's folders, and the contract of its neighbours."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from torch.nn import functional as F

from ranking.collections.collection import Collection
from ranking.encoding import EncodedCollection
from ranking.errors import BadInput
from ranking.rankers.late_interaction import LateInteraction
from ranking.ranks import ranks_in
from ranking.scoring import score_candidates
from ranking.sources import Sources
from ranking.tokenization import Tokenization
from tests.ranking.trained import NEGATIVES, generator, gradients, in_training, steps

pytestmark = pytest.mark.usefixtures("one_thread")
Reader = Callable[[Tokenization | None], EncodedCollection]
SHORT: dict[str, Any] = {"max_query": 8, "max_document": 12, "dimension": 6}
QUERIES = np.arange(4)
LISTS = np.array([[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11], [3, 0, 9, 5]], np.int32)


def ranker(checkpoint: str, seed: int = 3, **options: Any) -> LateInteraction:
    return LateInteraction(generator(seed), checkpoint, **(SHORT | options))


def encoded(read_as: Reader, checkpoint: str, **options: Any) -> EncodedCollection:
    return read_as(LateInteraction.tokenization(checkpoint=checkpoint, **(SHORT | options)))


def plainly(folder: str, query: str, document: str) -> float:
    """MaxSim of two texts by a folder's own files, as PyLate does it."""
    from safetensors.torch import load_file

    said = json.loads((Path(folder) / "config_sentence_transformers.json").read_text())
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModel.from_pretrained(folder).eval()
    weight = load_file(f"{folder}/1_Dense/model.safetensors")["linear.weight"]
    filler = tokenizer.mask_token_id or tokenizer.eos_token_id or tokenizer.pad_token_id

    def vectors(text: str, kind: str) -> torch.Tensor:
        first, *rest = tokenizer(text)["input_ids"]
        ids = [first, tokenizer.convert_tokens_to_ids(said[f"{kind}_prefix"]), *rest]
        there = len(ids)
        if kind == "query" and said["do_query_expansion"]:
            ids += [filler] * (said["query_length"] - len(ids))
        attended = torch.arange(len(ids)) < there
        with torch.no_grad():
            states = model(torch.tensor([ids]), attention_mask=attended[None].long()).last_hidden_state[0]
        found = F.normalize(states @ weight.T, dim=1)
        skipped = tokenizer.convert_tokens_to_ids(said["skiplist_words"]) if kind == "document" else []
        return found[[place for place, each in enumerate(ids) if each not in skipped]]

    return float((vectors(query, "query") @ vectors(document, "document").T).amax(1).sum())


@pytest.mark.parametrize(("kind", "expansion"), [("bert", True), ("roberta", True), ("bert", False)])
def test_scores_are_maxsim_and_a_folder_brings_them_back(
    kind: str, expansion: bool, made_up: Callable[..., str], read_as: Reader, tiny: Collection, tmp_path: Path
) -> None:
    made = ranker(made_up(kind), expansion=expansion)
    scores = score_candidates(made, encoded(read_as, made_up(kind)), QUERIES, LISTS)
    folder = str(tmp_path / "colbert")
    made.save_pretrained(folder)
    asked, texts = tiny.queries["text"], tiny.documents["text"]
    wanted = [
        [plainly(folder, asked[int(q)], texts[int(d)]) for d in row] for q, row in zip(QUERIES, LISTS, strict=True)
    ]
    np.testing.assert_allclose(scores, wanted, rtol=1e-4, atol=1e-4)

    again = LateInteraction(generator(9), folder)  # lengths, prefixes and projection are the folder's
    assert not again.drawn
    assert (again.max_query, again.max_document, again.folder.expansion) == (8, 12, expansion)
    read = read_as(LateInteraction.tokenization(checkpoint=folder))
    np.testing.assert_array_equal(score_candidates(again, read, QUERIES, LISTS), scores)
    np.testing.assert_allclose(
        score_candidates(ranker(folder, scale=3.0), read, QUERIES, LISTS), 3 * scores, rtol=1e-5, atol=1e-5
    )


def test_sentence_transformers_reads_the_folder(
    made_up: Callable[..., str], read_as: Reader, tiny: Collection, tmp_path: Path
) -> None:
    """Its `MultiVectorEncoder` understands what PyLate writes."""
    library = pytest.importorskip("sentence_transformers")
    if not hasattr(library, "MultiVectorEncoder"):
        pytest.skip("sentence-transformers has no MultiVectorEncoder before 6")
    shutil.copytree(made_up(), tmp_path / "masked")  # with a token for masks, which it asks for
    tokenizer = transformers.AutoTokenizer.from_pretrained(made_up())
    tokenizer.mask_token = "[UNK]"
    tokenizer.save_pretrained(str(tmp_path / "masked"))
    made = ranker(str(tmp_path / "masked"))
    made.save_pretrained(str(tmp_path / "colbert"))
    theirs = library.MultiVectorEncoder(str(tmp_path / "colbert"), device="cpu")
    queries = theirs.encode_query(tiny.queries["text"].to_list()[:4])
    documents = theirs.encode_document(tiny.documents["text"].to_list())
    wanted = [
        [float(np.asarray(q @ documents[int(d)].T).max(1).sum()) for d in row]
        for q, row in zip(queries, LISTS, strict=True)
    ]
    scores = score_candidates(made, encoded(read_as, made_up()), QUERIES, LISTS)
    np.testing.assert_allclose(scores, wanted, rtol=1e-4, atol=1e-4)


def test_words_of_the_skip_list_are_not_compared(made_up: Callable[..., str], read_as: Reader, tmp_path: Path) -> None:
    made = ranker(made_up())
    texts = encoded(read_as, made_up())
    every = made.represent_documents(texts.documents)
    folder = tmp_path / "skipping"
    made.save_pretrained(str(folder))
    said = json.loads((folder / "config_sentence_transformers.json").read_text())
    word = int(texts.documents.tokens[0]) - 1
    said["skiplist_words"] = [made.tokenizer.convert_ids_to_tokens(word)]
    (folder / "config_sentence_transformers.json").write_text(json.dumps(said))
    some = ranker(str(folder)).represent_documents(texts.documents)
    assert every[0, 2].any()  # behind [CLS] and the mark
    assert not some[0, 2].any()
    assert torch.equal(some[0, :2], every[0, :2])


def test_all_at_once_is_as_one_by_one(made_up: Callable[..., str], read_as: Reader) -> None:
    """Whatever is read together, and whether vectors are copied to their places or compared with all."""
    texts = encoded(read_as, made_up())
    made = ranker(made_up())
    with torch.no_grad():
        of_queries, of_documents = made.represent_queries(texts.queries), made.represent_documents(texts.documents)
        few = torch.tensor([[0, 1], [2, 3], [4, 5]])
        many = torch.arange(12).repeat(3, 1)
        one = made.compare(of_queries[:3], of_documents, few)
        whole = made.compare(of_queries[:3], of_documents, many)
    torch.testing.assert_close(one, whole.gather(1, few))
    for budget in (1, 30):
        torch.testing.assert_close(ranker(made_up(), budget=budget).represent_documents(texts.documents), of_documents)
    assert made.represent_documents(texts.documents.take(np.zeros(0, np.int64))).shape == (0, 15, 6)


def test_ranks_among_all_documents_are_those_of_its_scores(made_up: Callable[..., str], read_as: Reader) -> None:
    texts, made = encoded(read_as, made_up()), ranker(made_up())
    everything = np.tile(np.arange(12, dtype=np.int32), (2, 1))
    scores = score_candidates(made, texts, QUERIES[:2], everything)
    ranks = ranks_in(made, texts, QUERIES[:2], LISTS[:2], np.arange(12), documents=5)
    for row, documents in enumerate(LISTS[:2]):
        for place, document in enumerate(documents):
            assert abs(int((scores[row] > scores[row, document] + 1e-5).sum()) + 1 - ranks[row, place]) <= int(
                (np.abs(scores[row] - scores[row, document]) < 1e-5).sum() - 1
            )


def test_no_weight_is_left_untrained_and_it_learns(
    made_up: Callable[..., str], read_as: Reader, tiny_sources: Sources
) -> None:
    texts, made = encoded(read_as, made_up()), ranker(made_up())
    found = gradients(in_training(made, texts, tiny_sources))
    assert found.keys() == {name for name, _ in made.named_parameters()}
    inside = [id(parameter) for layer in made.layers() for parameter in layer.parameters()]
    assert sorted(inside) == sorted(id(parameter) for parameter in made.parameters())
    training = in_training(ranker(made_up()), texts, tiny_sources, lr=0.02)
    losses = []
    for _ in range(12):
        losses.append(training.update(training.next_batch(), NEGATIVES).loss)
        training.position = 0
    assert losses[-1] < 0.8 * losses[0]


def test_the_same_seed_gives_the_same_weights(
    made_up: Callable[..., str], read_as: Reader, tiny_sources: Sources
) -> None:
    texts = encoded(read_as, made_up("bert", 0.2))
    one, other = (
        steps(in_training(ranker(made_up("bert", 0.2)), texts, tiny_sources, chunk=chunk)) for chunk in (2, 2)
    )
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert not torch.equal(ranker(made_up(), seed=4).projection.weight, ranker(made_up()).projection.weight)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"scale": 0.0}, "scale"),
        ({"dimension": 0}, "dimension"),
        ({"max_query": 39}, "max_query"),
        ({"max_document": 39}, "max_document"),
        ({"layers": 9}, "layers"),
        ({"precision": "int8"}, "bfloat16"),
        ({"preset": "huge"}, "preset"),
    ],
)
def test_bad_options_are_refused(options: dict[str, Any], says: str, made_up: Callable[..., str]) -> None:
    with pytest.raises(BadInput, match=says):
        ranker(made_up(), **options)


def test_folders_of_another_kind_are_refused(made_up: Callable[..., str], tmp_path: Path) -> None:
    from ranking.rankers.bi_encoder import BiEncoder

    BiEncoder(generator(), made_up(), max_query=8, max_document=12).save_pretrained(str(tmp_path / "bi"))
    with pytest.raises(BadInput, match="Transformer, Dense"):
        ranker(str(tmp_path / "bi"))
    ranker(made_up()).save_pretrained(str(tmp_path / "colbert"))
    with pytest.raises(BadInput, match="dimension=null"):
        ranker(str(tmp_path / "colbert"), dimension=5)
    config = tmp_path / "colbert" / "1_Dense" / "config.json"
    config.write_text(config.read_text().replace("torch.nn.modules.linear.Identity", "torch.nn.ReLU"))
    with pytest.raises(BadInput, match="one linear layer"):
        ranker(str(tmp_path / "colbert"))
