"""Losses of shorter vectors, by hand and as sentence-transformers adds them up."""

from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from ranking.errors import BadInput
from ranking.objectives.matryoshka import Matryoshka
from ranking.objectives.self_involvement import JointSIR
from ranking.objectives.softmax import SoftmaxLikelihood
from ranking.rankers.bi_encoder import BiEncoder
from ranking.rankers.cross_encoder import CrossEncoder
from tests.ranking.trained import NEGATIVES, SHORT, generator, gradients, in_training


@pytest.mark.parametrize("similarity", ["cosine", "dot"])
def test_the_loss_is_the_sum_over_shorter_vectors(similarity, made_up, read_as, tiny_sources):
    texts = read_as(BiEncoder.tokenization(checkpoint=made_up(), **SHORT))
    made = BiEncoder(generator(), made_up(), similarity=similarity, **SHORT)
    objective = Matryoshka(SoftmaxLikelihood(), [8, 4], [1.0, 0.5])
    training = in_training(made, texts, tiny_sources, objective=objective)
    batch = training.next_batch()
    shown = np.concatenate([batch.positives[:, None], NEGATIVES], axis=1)
    with torch.no_grad():
        queries = made.represent_queries(texts.queries.take(batch.queries))
        documents = made.represent_documents(texts.documents)[torch.from_numpy(np.maximum(shown, 0)).long()]
    wanted = 0.0
    for dimension, weight in ((16, 1.0), (8, 1.0), (4, 0.5)):
        one, other = queries[:, :dimension], documents[..., :dimension]
        if similarity == "cosine":
            one, other = F.normalize(one, dim=-1), F.normalize(other, dim=-1)
        scores = made.scale * (other @ one[..., None])[..., 0]
        scores = scores.masked_fill(torch.from_numpy(shown < 0), -torch.inf)
        wanted -= weight * float(scores.log_softmax(1)[:, 0].mean())
    assert training.update(batch, NEGATIVES).loss == pytest.approx(wanted, rel=1e-5)


def test_chunks_and_parts_of_a_batch_give_the_same_gradient(made_up, read_as, tiny_sources):
    texts = read_as(BiEncoder.tokenization(checkpoint=made_up(), **SHORT))

    def of(**options: Any) -> dict[str, torch.Tensor]:
        objective = Matryoshka(SoftmaxLikelihood(), [8])
        return gradients(
            in_training(BiEncoder(generator(), made_up(), **SHORT), texts, tiny_sources, objective=objective, **options)
        )

    whole = of()
    for options in ({"chunk": 3}, {"accumulate": 2}):
        for name, gradient in of(**options).items():
            torch.testing.assert_close(gradient, whole[name], rtol=1e-4, atol=1e-6)


def test_what_has_no_shorter_vectors_is_refused(made_up, read_as, tiny_sources):
    with pytest.raises(BadInput, match="several times"):
        Matryoshka(JointSIR(), [8])
    with pytest.raises(BadInput, match="weights for"):
        Matryoshka(SoftmaxLikelihood(), [8], [1.0, 2.0])
    with pytest.raises(BadInput, match="dimensions is empty"):
        Matryoshka(SoftmaxLikelihood()).check_block(3)
    for kind, dimensions, says in ((BiEncoder, [16], "not below the 16"), (CrossEncoder, [4], "no vectors")):
        texts = read_as(kind.tokenization(checkpoint=made_up(), **SHORT))
        made = kind(generator(), made_up(), **SHORT)
        training = in_training(made, texts, tiny_sources, objective=Matryoshka(SoftmaxLikelihood(), dimensions))
        with pytest.raises(BadInput, match=says):
            training.update(training.next_batch(), NEGATIVES)
