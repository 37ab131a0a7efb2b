from dataclasses import replace
from pathlib import Path

import pytest

from pyrite.pooling.judging.log_check import check_log
from pyrite.pooling.judging.store import Event
from pyrite.ranking.errors import BadInput

SCALE = (0, 1, 2)


def of(kind, document="d1", grade=None, assessor="ada", **more) -> Event:
    topic = None if kind == "sign in" else "1"
    return Event(kind, assessor, topic, None if topic is None else document, grade, **more)


def numbered(*events: Event) -> list[Event]:
    return [replace(event, id=number) for number, event in enumerate(events, 1)]


WHOLE = numbered(
    of("sign in"), of("turn"), of("hand out"), of("judge", grade=1), of("hand out", "d2"), of("skip", "d2"),
    of("hand out", "d2"), of("hand back", "d2"), of("correct", grade=2, withdraws=4, original=4),
    of("withdraw", withdraws=9, original=4), of("judge", grade=None), of("hand out", "gold"), of("gold", "gold", 0),
    of("sign in", assessor="bob"), of("hand out", assessor="bob"), of("judge", grade=0, assessor="bob"),
    of("resolve", grade=2, assessor="owner"),
)  # fmt: skip
"""Every kind of event, each after those that it needs."""


def test_a_whole_log_is_accepted():
    check_log(WHOLE, SCALE, Path("f"))
    check_log(WHOLE, None, Path("f"))


@pytest.mark.parametrize(
    ("added", "says"),
    [
        (of("judge", "nodoc", 77), "event 18 has the grade 77, which the scale lacks"),
        (of("judge", "nodoc", 1), "event 18 is about document nodoc, which ada was not handed"),
        (of("judge", "d2", 1, "eve"), "event 18 is of eve, who has not signed in"),
        (of("hand back", "d2"), "event 18 is about document d2, which ada was not handed"),
        (
            of("correct", grade=0, withdraws=4),
            "takes back event 4, which is no judgement of the same document",
        ),
        (of("withdraw", "d2", withdraws=11), "event 18 takes back event 11"),
        (of("resolve", "d9", 1, "owner"), "event 18 decides on document d9, which nobody has judged"),
        (of("resolve", "d1", 9, "owner"), "event 18 has the grade 9"),
        (of("hand out", 3), "event 18 has a value of another type"),
        (of("vote"), r"event 18 is of no known kind \(vote\)"),
    ],
)
def test_an_event_that_cannot_follow_is_named(added, says):
    with pytest.raises(BadInput, match=says):
        check_log(numbered(*WHOLE, added), SCALE, Path("f"))


@pytest.mark.parametrize("removed", [1, 3, 4, 5, 15])
def test_an_event_that_is_missing_is_noticed(removed):
    with pytest.raises(BadInput, match="event"):
        check_log([event for event in WHOLE if event.id != removed], SCALE, Path("f"))
