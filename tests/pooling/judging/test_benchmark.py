"""The benchmark of the judging page, at its smallest."""

from __future__ import annotations

import re

import pytest

from benchmarks.judging import main


def test_it_measures_answers(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--judgements", "90", "--topics", "3", "--answers", "2"])
    said = capsys.readouterr().out
    assert len(re.findall(r"^after +\d+: answer [\d.]+ ms", said, re.MULTILINE)) == 2
    assert re.search(r"answers between the first and the last point: [\d.]+×", said)
    assert "starting again: " in said
