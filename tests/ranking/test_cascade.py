from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from pyrite.cluster.config.build import build
from pyrite.cluster.config.compose import compose
from pyrite.ranking.encoding import EncodedCollection
from pyrite.ranking.errors import BadInput
from pyrite.ranking.objectives.self_involvement import JointSIR
from pyrite.ranking.rankers.bi_encoder import BiEncoder
from pyrite.ranking.rankers.cascade import Cascade
from pyrite.ranking.rankers.cross_encoder import CrossEncoder
from pyrite.ranking.rankers.feed_forward import FeedForward
from pyrite.ranking.rankers.ranker import Ranker
from pyrite.ranking.scoring import score_candidates
from pyrite.ranking.texts import Texts
from pyrite.ranking.tokenization import Subwords
from tests.ranking.trained import SHORT, Reader, assert_in_layers, generator, gradients, in_training

LEVELS = {"bi_encoder": BiEncoder, "cross_encoder": CrossEncoder}


class FirstToken(Ranker):
    """Scores a document by its token at a place, times a factor."""

    def __init__(self, place: int, factor: float, vectors: Any = None, generator: Any = None) -> None:
        super().__init__()
        self.place, self.factor = place, nn.Parameter(torch.tensor(factor))

    def represent_queries(self, queries: Texts) -> Tensor:
        return torch.from_numpy(queries.padded(1))

    def represent_documents(self, documents: Texts) -> Tensor:
        return torch.from_numpy(documents.padded(2))

    def interact(self, queries: Tensor, documents: Tensor) -> Tensor:
        return self.factor * documents[..., self.place]

    def layers(self) -> list[nn.Module]:
        return [self]


def by_hand(keep: int) -> Cascade:
    """The front goes by the first token, the rear by minus ten times the second."""
    return Cascade(generator(), partial(FirstToken, 0, 1.0), partial(FirstToken, 1, -10.0), keep=keep)


def two(checkpoint: str, front: str = "bi_encoder", rear: str = "cross_encoder", keep: int = 2, **options: Any) -> Any:
    """What makes a cascade, as a configuration gives it."""
    made = partial(LEVELS[front], checkpoint=checkpoint, **(SHORT | {"layers": 1} | options))
    return partial(Cascade, front=made, rear=partial(LEVELS[rear], checkpoint=checkpoint, **SHORT), keep=keep)


def encoded(read_as: Reader, made: Any) -> EncodedCollection:
    return read_as(made.func.tokenization(**made.keywords))


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=8), st.integers(1, 9))
def test_what_is_passed_on_stands_above_in_the_rears_order(tokens, keep):
    with torch.no_grad():
        scores = by_hand(keep)(Texts.of([[1]]), Texts.of(tokens))[0].tolist()
    passed = sorted(range(len(tokens)), key=lambda row: -tokens[row][0])[:keep]  # of ties the first
    others = [row for row in range(len(tokens)) if row not in passed]
    assert [scores[row] for row in passed] == [-10 * tokens[row][1] for row in passed]
    best = max((tokens[row][0] for row in others), default=0)
    for row in others:
        assert scores[row] == min(scores[one] for one in passed) - 1 - (best - tokens[row][0])


def test_what_is_no_document_takes_no_place(encoded_of):
    collection = encoded_of([[9, 1], [5, 2], [4, 3], [3, 4]], [[1], [1]], {0: {0: 1}})
    lists = np.array([[-1, -1, 1, 2, 3], [0, -1, -1, -1, -1]], np.int32)
    scores = score_candidates(by_hand(2), collection, np.arange(2), lists)
    assert scores.tolist() == [[-np.inf, -np.inf, -20, -30, -31], [-10, -np.inf, -np.inf, -np.inf, -np.inf]]


@pytest.mark.parametrize("front", LEVELS)
def test_levels_score_as_they_do_alone(front, made_up, read_as):
    made = two(made_up(), front)
    cascade, texts = made(generator=generator()), encoded(read_as, made)
    assert isinstance(cascade.at_level(0), LEVELS[front])
    assert cascade.at_level(1) is cascade.at_level(2) is cascade.rear
    queries, lists = np.arange(3), np.array([[0, 1, 2, 3], [4, 5, 6, 7], [9, 3, 0, 5]], np.int32)
    alone = [score_candidates(level, texts, queries, lists) for level in (cascade.front, cascade.rear)]
    together = score_candidates(cascade, texts, queries, lists)
    passed = np.argsort(-alone[0], axis=1, kind="stable")[:, :2]
    np.testing.assert_allclose(
        np.take_along_axis(together, passed, 1), np.take_along_axis(alone[1], passed, 1), atol=1e-6
    )
    for row in range(3):
        best = np.argsort(-together[row])
        assert set(best[:2]) == set(passed[row])
        others = [column for column in np.argsort(-alone[0][row]) if column not in passed[row]]
        assert list(best[2:]) == others


def test_an_objective_trains_each_level(made_up, read_as, tiny_sources):
    made = two(made_up())
    cascade, texts = made(generator=generator()), encoded(read_as, made)
    found = gradients(in_training(cascade, texts, tiny_sources, objective=JointSIR(levels=[2], passes="level")))
    assert found.keys() == {name for name, _ in cascade.named_parameters()}
    assert {name.split(".")[0] for name, gradient in found.items() if gradient.abs().max() > 0} == {"front", "rear"}
    top = {id(parameter) for parameter in cascade.top_parameters(1)}
    for level in (cascade.front, cascade.rear):
        assert {id(parameter) for parameter in level.top_parameters(1)} <= top
    assert_in_layers(cascade)


def test_rankers_that_read_words(tiny_encoded, tiny_vectors):
    level = partial(FeedForward, preset="tiny")
    assert Cascade.tokenization(front=level, rear=level) is None
    cascade = Cascade(generator(), level, level, tiny_vectors.filled(np.random.default_rng(1)), keep=2)
    scores = score_candidates(cascade, tiny_encoded, np.arange(2), np.arange(8, dtype=np.int32).reshape(2, 4))
    assert np.isfinite(scores).all()
    front, rear = cascade.front.state_dict(), cascade.rear.state_dict()
    assert not torch.equal(front["upper.0.weight"], rear["upper.0.weight"])


def test_levels_read_the_same_tokens(made_up, small_bert, minilm):
    front, rear = (partial(CrossEncoder, checkpoint=one) for one in (small_bert, minilm))
    asked = Cascade.tokenization(front=partial(front, max_query=9, max_document=70), rear=partial(rear, preset="small"))
    assert isinstance(asked, Subwords)  # one vocabulary, though special tokens and models differ
    assert (asked.max_query, asked.max_document) == (24, 70)
    for other in (partial(CrossEncoder, checkpoint=made_up()), partial(FeedForward, preset="tiny")):
        with pytest.raises(BadInput, match="different tokens") as caught:
            Cascade.tokenization(front=front, rear=other)
        assert "\n" not in str(caught.value)


def test_levels_want_the_same_prompts(made_up, tmp_path):
    BiEncoder(generator(), made_up(), **SHORT).save_pretrained(str(tmp_path))
    (tmp_path / "config_sentence_transformers.json").write_text('{"prompts": {"query": "gold "}}')
    prompted = partial(BiEncoder, checkpoint=str(tmp_path))
    assert Cascade.tokenization(front=prompted, rear=partial(prompted, preset="small")).prompts.query == "gold "
    with pytest.raises(BadInput, match="prompts"):
        Cascade.tokenization(front=prompted, rear=partial(CrossEncoder, checkpoint=made_up()))


def test_from_a_configuration(made_up):
    short = [f"ranker.{level}.{name}={value}" for level in ("front", "rear") for name, value in SHORT.items()]
    made = build(compose(["ranker=cascade", f"ranker.checkpoint={made_up()}", "ranker.keep=3", *short])["ranker"])
    tokens = made.func.tokenization(**made.keywords)
    assert (tokens.checkpoint, tokens.max_query, tokens.max_document) == (made_up(), 8, 12)
    cascade = made(vectors=None, generator=generator())
    assert (cascade.keep, type(cascade.front), type(cascade.rear)) == (3, BiEncoder, CrossEncoder)
    assert (len(cascade.front.layers()), len(cascade.rear.layers())) == (3, 5)
    swapped = compose(["ranker=cascade", f"ranker.checkpoint={made_up()}", "ranker@ranker.front=cross_encoder"])
    assert swapped["ranker"]["front"]["_target_"].endswith("CrossEncoder")


def test_a_scale_sets_the_preset_of_both_levels():
    made = build(compose(["ranker=cascade", "ranker.checkpoint=x", "scale=tiny"])["ranker"], "ranker")
    assert [made.keywords[level].keywords["preset"] for level in ("front", "rear")] == ["tiny", "tiny"]
