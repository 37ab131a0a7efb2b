"""Tests of `ranking.schedules`: every schedule, found by walking the subclasses."""

import pytest

from ranking.schedules import Constant, Cosine, Linear, Schedule

EVERY = [each for each in Schedule.__subclasses__() if each.__module__.startswith("ranking.")]


def test_by_hand():
    assert [Linear().factor(step, 4) for step in range(5)] == [1, 0.75, 0.5, 0.25, 0]
    assert [Cosine().factor(step, 4) for step in (0, 2, 4)] == pytest.approx([1, 0.5, 0])
    assert Cosine().factor(1, 4) == pytest.approx((1 + 2**-0.5) / 2)
    assert [Linear(4).factor(step, 8) for step in range(9)] == pytest.approx(
        [0.2, 0.4, 0.6, 0.8, 1, 0.75, 0.5, 0.25, 0]
    )
    assert [Constant(0.5).factor(step, 4) for step in range(4)] == pytest.approx([1 / 3, 2 / 3, 1, 1])


@pytest.mark.parametrize("kind", EVERY)
@pytest.mark.parametrize("warmup", [0, 3, 0.25, 100])
def test_every_schedule_rises_and_stays_a_share(kind, warmup):
    shares = [kind(warmup).factor(step, 20) for step in range(25)]
    assert all(0 <= share <= 1 for share in shares)
    rising = min(round(warmup * 20) if warmup < 1 else int(warmup), 24)
    assert shares[: rising + 1] == sorted(shares[: rising + 1])
    assert shares[0] > 0
    if rising < 20:
        assert shares[rising] == 1
