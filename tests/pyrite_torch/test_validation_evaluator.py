"""`Negatives.evaluator`: the validation queries by sentence-transformers' evaluators, with the values of a run."""

from types import SimpleNamespace

import numpy as np
import pytest

from pyrite import BM25
from pyrite.ranking.errors import BadInput
from pyrite.ranking.evaluation.origins import FullCollection
from pyrite.ranking.sources import Sources
from pyrite.torch import Negatives
from pyrite.torch.left_rankers import left_by
from tests.made_up import write_texts
from tests.pyrite_torch.test_other_trainers import token_model
from tests.pyrite_torch.tiny_trainer import open_model, words

MEASURES = {"P@1": "accuracy@1", "R@3": "recall@3", "RR@10": "mrr@10", "nDCG@10": "ndcg@10", "AP@100": "map@100"}
"""By measure its name in sentence-transformers, for queries with one relevant document."""


def write_paraphrases(folder, count):
    """Pairs of texts that are both a document and a query each; every other query is two documents."""
    rng = np.random.default_rng(3)
    texts, qrels = {}, {"train": [], "dev": [], "test": []}
    for pair in range(count):
        shared = [f"w{each}" for each in rng.choice(90, 4, replace=False)]
        one, other = f"t{2 * pair}", f"t{2 * pair + 1}"
        texts |= {name: " ".join([*shared, f"w{rng.integers(90, 140) + 50 * (name == one)}"]) for name in (one, other)}
        qrels["dev" if pair % 2 else "test"].append((f"q-{one}", other, 1))
        qrels["train"].append((f"q-{other}", one, 1))
    corpus = [{"_id": name, "title": "", "text": text} for name, text in texts.items()]
    corpus += [{"_id": f"copy-{name}", "title": "", "text": texts[name]} for name in list(texts)[::2]]
    queries = [{"_id": f"q-{name}", "text": text} for name, text in texts.items()]
    return write_texts(folder, corpus, queries, qrels)


@pytest.mark.parametrize("chunk", [7, 50_000])
@pytest.mark.parametrize("duplicates", ["merge", "keep"])
def test_a_query_that_is_a_document_is_no_candidate_as_in_a_run(bert, tmp_path, own_cache, chunk, duplicates):
    folder, model = write_paraphrases(tmp_path / "data", 60), open_model(bert)
    overrides = ["collection=beir", f"collection.path={folder}", f"collection.duplicates={duplicates}"]
    moving = Negatives([*overrides, "vectors=random", "function=bm25"])
    values = moving.evaluator(corpus_chunk_size=chunk)(model)
    collection, encoded, dev = moving.collection, moving.training.encoded, moving._split.dev
    assert (encoded.own_documents(dev) >= 0).sum() == 2 * len(dev) == 60
    encoder = SimpleNamespace(encode=lambda texts: model.encode(texts, normalize_embeddings=True))
    candidates = FullCollection(100).of(Sources(collection, encoded, moving._parts["base"].vectors), dev)
    expected = left_by(encoder, tmp_path, collection, encoded).measure(candidates, list(MEASURES))
    found = {measure: values[f"validation_cosine_{name}"] for measure, name in MEASURES.items()}
    assert found == pytest.approx({measure: each.mean() for measure, each in expected.items()})
    assert found["P@1"] > 0


@pytest.mark.parametrize("kind", ["dense", "sparse", "tokens"])
def test_each_model_is_evaluated_as_its_class(bert, masked, kind):
    from sentence_transformers import SparseEncoder

    make = {"dense": lambda: open_model(bert), "sparse": lambda: SparseEncoder(str(masked), device="cpu"),
            "tokens": lambda: token_model(bert)}  # fmt: skip
    rows = [{"query": f"w{n} w{n + 1} w{n + 2}", "positive": f"w{n} w{n + 1} w{n + 3}"} for n in range(60)]
    model, moving = make[kind](), Negatives(rows, BM25(1))
    evaluator = moving.evaluator(name="dev")
    first, second = evaluator(model), evaluator(model)
    assert first == second
    assert evaluator.primary_metric.startswith("dev_")
    assert 0 < first[evaluator.primary_metric] <= 1
    assert not set(evaluator.queries.values()) & set(moving.dataset["query"])


def test_what_has_no_vectors_of_texts_is_refused_before_it_trains(reranker, tmp_path):
    from sentence_transformers import CrossEncoder
    from sentence_transformers.cross_encoder import CrossEncoderTrainer, CrossEncoderTrainingArguments
    from sentence_transformers.cross_encoder.losses import MultipleNegativesRankingLoss

    model, moving = CrossEncoder(str(reranker), device="cpu"), Negatives(words(60), BM25(1))
    arguments = CrossEncoderTrainingArguments(str(tmp_path), report_to="none", use_cpu=True)
    trainer = CrossEncoderTrainer(
        model, arguments, moving.dataset, loss=MultipleNegativesRankingLoss(model), evaluator=moving.evaluator()
    )  # fmt: skip
    with pytest.raises(BadInput, match=r"^evaluator: CrossEncoder has no vectors of texts.*; leave it out, or"):
        moving.attach(trainer)


def test_an_option_that_no_evaluator_has_is_refused():
    moving = Negatives(words(60), BM25(1))
    with pytest.raises(BadInput, match=r"^evaluator: there is no option nmae; see InformationRetrievalEvaluator$"):
        moving.evaluator(nmae="dev")
    assert moving.evaluator(max_active_dims=3).options["max_active_dims"] == 3
