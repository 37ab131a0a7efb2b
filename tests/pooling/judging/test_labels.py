"""The words of grades: from the options to grades and their names."""

import pytest

from pyrite.pooling.judging.labels import labelled
from pyrite.ranking.errors import BadInput


@pytest.mark.parametrize(
    ("labels", "grades", "expected"),
    [
        (None, None, ((0, 1), None)),
        (None, [0, 2], ([0, 2], None)),
        (["not", " rather  so "], None, ([0, 1], ["not", "rather so"])),
        (["not", "so"], [0, 3], ([0, 3], ["not", "so"])),
        ({3: "so", 0: "not"}, None, ([0, 3], ["not", "so"])),
        ({3: "so", 0: "not"}, [0, 3], ([0, 3], ["not", "so"])),
        (["0", "1"], None, ([0, 1], ["0", "1"])),
    ],
)
def test_words_have_grades(labels, grades, expected):
    assert labelled(labels, grades) == expected


@pytest.mark.parametrize(
    ("labels", "grades", "says"),
    [
        (["a"], [0, 1], "labels: 1 labels for 2 grades; give each grade one"),
        (["a"], None, r"labels: 1 of them; write labels=\[not,partly,fully\]"),
        ({0: "a", 1: "b"}, [0, 2], r"labels: they are of \[0, 1\], and grades are \[0, 2\]; leave grades= out"),
        (["a", " "], None, "labels: '' is no label: it has 1 to 100 printable characters"),
        (["a", "b" * 101], None, "is no label"),
        (["a", "b\x00"], None, "is no label"),
        (["Yes", "yes"], None, "labels: 'yes' is given twice"),
        (["1", "0"], None, "labels: 1 is the number of another grade"),
        (["no", "can't judge"], None, "labels: can't judge means that a document was not judged"),
    ],
)
def test_words_that_cannot_be_told_apart_are_refused(labels, grades, says):
    with pytest.raises(BadInput, match=says):
        labelled(labels, grades)
