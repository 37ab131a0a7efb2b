import numpy as np

from sampling.shown import ShownNegatives


def add(shown: ShownNegatives, queries: list[int], negatives: list[list[int]], scores: list[list[float]]) -> None:
    chosen = np.array(negatives, np.int32)
    own = np.arange(chosen.size, dtype=np.float32).reshape(chosen.shape)
    shown.add(np.array(queries), chosen, np.zeros(chosen.shape, np.int64), np.array(scores, np.float32), own)


def test_it_counts_what_was_shown_and_how_close_it_came():
    shown = ShownNegatives(1.0)
    add(shown, [4, 2], [[7, -1], [7, 9]], [[1.0, 3.0, 0.0], [2.0, 1.0, 2.5]])
    add(shown, [4], [[7, 8]], [[1.0, 0.0, 0.5]])
    table = shown.arrays()
    assert table["query"].tolist() == [2, 2, 4, 4]
    assert table["document"].tolist() == [7, 9, 7, 8]
    assert table["times"].tolist() == [1, 1, 2, 1]
    assert table["margin"].tolist() == [-1.0, 0.5, 1.0, -0.5]  # of 7: 3 - 1 and 0 - 1
    assert table["score"].tolist() == [2.0, 3.0, 0.0, 1.0]  # the last one's


def test_it_goes_on_from_its_arrays():
    through, before = ShownNegatives(1.0), ShownNegatives(1.0)
    for each in (through, before):
        add(each, [4], [[7, 8]], [[1.0, 0.0, 0.5]])
    after = ShownNegatives(1.0)
    after.load(before.arrays())
    for each in (through, after):
        add(each, [4], [[7, 8]], [[1.0, 0.0, 0.5]])
    assert {name: of.tolist() for name, of in through.arrays().items()} == {
        name: of.tolist() for name, of in after.arrays().items()
    }


def test_a_share_of_the_queries_is_counted():
    queries = np.arange(20_000)
    assert not ShownNegatives(0.0).counts(queries).any()
    assert ShownNegatives(1.0).counts(queries).all()
    some = ShownNegatives(0.1).counts(queries)
    assert 0.09 < some.mean() < 0.11
    assert ShownNegatives(0.2).counts(queries)[some].all()  # a larger share keeps the smaller
    nothing = ShownNegatives(0.0)
    add(nothing, [4], [[7, 8]], [[1.0, 0.0, 0.5]])
    assert not len(nothing.arrays()["query"])


def test_examples_are_recorded_besides_the_share():
    shown = ShownNegatives()
    shown.add_examples(np.array([9, 5, 5, 7, 1, 3, 2]))
    assert shown.examples.tolist() == [2, 5, 9]  # the middles of three thirds of 1, 2, 3, 5, 7, 9
    add(shown, [4, 5], [[7, 8], [7, 9]], [[1.0, 0.0, 0.5], [1.0, 2.0, 0.5]])
    assert shown.arrays()["query"].tolist() == [5, 5]
    shown.add_examples(np.zeros(0, np.int64))
    assert not len(shown.examples)
