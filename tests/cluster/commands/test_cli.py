from __future__ import annotations

import pytest

from tests.cluster.command_line import Refusal, command


def test_options_of_a_pool(capsys: pytest.CaptureFixture[str], refusal: Refusal) -> None:
    assert command("options", "--for", "pool", "method=mm") == 0
    shown = capsys.readouterr().out
    assert "pooling.adjudicators.max_mean.MaxMean" in shown
    assert "judgements a topic" in shown
    assert "method=posterior_fusion" in shown
    assert refusal("pool", "colour=red") == "there is no option colour; see `pyrite options --for pool`"


@pytest.mark.parametrize(
    ("verb", "instead"), [("jobs", "ray job list"), ("dashboard", "ray metrics launch-prometheus")]
)
def test_a_verb_that_was_removed_says_what_takes_its_place(verb: str, instead: str, refusal: Refusal) -> None:
    line = refusal(verb, "--address", "auto")
    assert line.startswith(f"there is no verb {verb} any more; use ")
    assert instead in line
