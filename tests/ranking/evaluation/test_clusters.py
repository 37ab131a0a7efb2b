"""How clusters of embeddings agree with categories."""

import numpy as np
import pytest

from pyrite.ranking.evaluation.clusters import agreement, information


def test_a_table_worked_by_hand():
    # Four texts of category 0, four of 1; one cluster holds three of 0 and one of 1, the other the rest.
    categories = np.array([0, 0, 0, 0, 1, 1, 1, 1])
    found = information(np.array([0, 0, 0, 1, 0, 1, 1, 1]), categories)
    # I = H(X) + H(Y) − H(X; Y) = 1 + 1 − (2 · 3/8 · log2 8/3 + 2 · 1/8 · log2 8) bits
    assert found["MI"] == pytest.approx(2 - (0.75 * np.log2(8 / 3) + 0.25 * 3))
    assert found["MI/H"] == pytest.approx(found["MI"])  # H of two halves is 1 bit
    assert 0 < found["AMI"] < found["MI/H"]


def test_embeddings_that_lie_by_category_say_all_about_it():
    rng = np.random.default_rng(0)
    categories = np.repeat([0, 1, 2], 20)
    vectors = (np.eye(3)[categories] * 10 + rng.normal(size=(60, 3))).astype(np.float32)
    found = agreement(vectors, categories)
    assert found["MI"] == pytest.approx(np.log2(3))
    assert found["MI/H"] == found["AMI"] == pytest.approx(1)
    assert agreement(rng.permutation(vectors), categories)["AMI"] < 0.2


def test_texts_without_a_category_are_left_out_and_a_seed_repeats():
    rng = np.random.default_rng(1)
    vectors, categories = rng.normal(size=(30, 4)).astype(np.float32), np.repeat([0, 1, -1], 10)
    assert agreement(vectors, categories) == agreement(vectors[:20], categories[:20])


@pytest.mark.parametrize("categories", [[0, 0, 0], [-1, -1, -1], [-1, 2, -1]])
def test_one_category_says_nothing(categories):
    assert agreement(np.eye(3, dtype=np.float32), np.array(categories)) == {"MI": 0.0, "MI/H": 0.0, "AMI": 0.0}
