"""Lines of methods in all their forms, and what is compared of them beside what is typed."""

import pytest

from pyrite.cluster.plan.methods import EACH_ALONE, Line, compared, lines_of, typed
from pyrite.ranking.errors import BadInput


def test_a_line_means_the_same_in_every_form():
    assert (
        lines_of([["function=bm25", "guard.relative=0.05"], {"function": "bm25", "guard.relative": 0.05}])
        == [Line(("function=bm25", "guard.relative=0.05"))] * 2
    )
    labelled = [
        {"label": "hard", "overrides": ["function=bm25", "selector=top"]},
        {"label": "too", "function": "bm25", "selector": "top"},
    ]
    assert [line.label for line in lines_of(labelled)] == ["hard", "too"]
    assert len({line.overrides for line in lines_of(labelled)}) == 1
    several = {"label": "a", "overrides": [["function=bm25"], ["function=random"]], "selector": "top"}
    assert lines_of([several]) == [
        Line(("function=bm25", "selector=top"), "a"), Line(("function=random", "selector=top"), "a"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("bm25,random", "bm25,random"),
        (["in_batch", "bm25"], "[in_batch,bm25]"),
        (0.05, "0.05"),
        (None, "null"),
        (True, "true"),
    ],
)
def test_a_value_is_written_as_it_is_typed(value, text):
    assert typed(value) == text


def test_labels_are_given_once_and_no_two_values_share_one():
    with pytest.raises(BadInput, match="methods: two are labelled 'a'; "):
        lines_of([{"label": "a", "function": "bm25"}, {"label": "a", "function": "random"}])
    with pytest.raises(BadInput, match="methods: a: 'function=bm25,random' sweeps; "):
        lines_of([{"label": "a", "function": "bm25,random"}])
    assert lines_of([{"function": "bm25,random"}])  # without a label it is a product


LINE = Line(("policy=fixed", "function=random", "selector=top", "training.patience=1"))
REST = Line(("training.patience=1",))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["seeds=2"], [(LINE, ["seeds=2"])]),
        (["function=bm25,in_batch"], [(EACH_ALONE, ["function=bm25,in_batch"])]),
        (
            ["function=[in_batch,bm25]", "negatives.bm25=1"],
            [(EACH_ALONE, ["function=[in_batch,bm25]", "negatives.bm25=1"])],
        ),
        (["function=bm25"], [(LINE, ["function=bm25"])]),
        (
            ["policy=fixed", "function=bm25", "selector=top"],
            [(REST, ["policy=fixed", "function=bm25", "selector=top"])],
        ),
        (["policy=refined"], [(REST, ["policy=refined"])]),
        (["policy=refined,fixed"], [(REST, ["policy=refined"]), (LINE, ["policy=fixed"])]),
        (["policy=random"], [(LINE, ["policy=random"])]),
    ],
)
def test_what_is_typed_decides_what_a_line_adds(given, expected):
    assert compared([list(LINE.overrides)], given) == expected
    assert compared([list(LINE.overrides)], given, named=True) == [(LINE, given)]


def test_a_label_stays_as_long_as_nothing_of_its_line_is_replaced():
    methods = [{"label": "mine", "function": "bm25"}]
    assert compared(methods, ["selector=top"])[0][0].label == "mine"
    assert compared(methods, ["function=random"])[0][0].label is None
    assert compared(methods, ["function=random"], named=True)[0][0].label == "mine"
    methods += [{"label": "margin", "function": "bm25", "objective.margin": 1}]
    assert [line.label for line, _ in compared(methods, ["objective.margin=2"])] == ["mine", None]
    assert [line.label for line, _ in compared(methods, ["function=random"])] == [None, None]
