"""How many texts a transformer has read is reported where a command watches, and nowhere else."""

import numpy as np
import torch

from pyrite.ranking.embedding import embed
from pyrite.ranking.rankers.bi_encoder import BiEncoder
from pyrite.ranking.rankers.cross_encoder import CrossEncoder
from pyrite.ranking.rankers.inputs import RankerInputs
from pyrite.ranking.reading_progress import count_read, reading, watched_reading
from pyrite.ranking.scoring import score_candidates
from pyrite.ranking.texts import Texts


def test_the_outermost_reading_counts():
    seen: list[tuple[int, int]] = []
    count_read(3)  # nobody watches
    with watched_reading(lambda done, total: seen.append((done, total))):
        count_read(3)  # nothing is read
        with reading(10):
            count_read(4)
            with reading(5):
                count_read(5)
            count_read(9)
        with reading(0):
            count_read(1)
    assert seen == [(4, 10), (9, 10), (10, 10), (10, 10)]


def test_texts_are_counted_while_they_are_embedded(made_up):
    ranker = BiEncoder(made_up(), max_query=8, max_document=8, budget=64).start(RankerInputs(torch.Generator())).eval()
    rng = np.random.default_rng(0)
    texts = Texts.of([rng.integers(5, 40, 6).tolist() for _ in range(40)])
    seen: list[tuple[int, int]] = []
    with watched_reading(lambda done, total: seen.append((done, total))):
        vectors = embed(ranker, texts, np.arange(40))
    assert len(seen) > 3
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert seen[-1] == (40, 40)
    assert embed(ranker, texts, np.arange(40)).tobytes() == vectors.tobytes()
    with watched_reading(lambda done, total: seen.clear()):  # what is learned from is not counted
        ranker.represent_documents(texts)
    assert seen


def test_pairs_are_counted_while_they_are_scored(made_up, tiny, tiny_encoded):
    from dataclasses import replace

    ranker = CrossEncoder(made_up(), max_query=8, max_document=8).start(RankerInputs(torch.Generator())).eval()
    tokens = CrossEncoder.tokenization(checkpoint=made_up(), max_query=8, max_document=8).encode(tiny)
    encoded = replace(tiny_encoded, documents=tokens.documents, queries=tokens.queries)
    seen: list[tuple[int, int]] = []
    with watched_reading(lambda done, total: seen.append((done, total))):
        score_candidates(ranker, encoded, np.arange(3), np.array([[0, 1], [2, -1], [3, 4]]))
    assert seen[-1] == (5, 5)
