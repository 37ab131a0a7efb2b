import itertools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from operator import itemgetter
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyrite.pooling.across_topics import AcrossTopics
from pyrite.pooling.adjudicators.bandit.bandit import Bandit
from pyrite.pooling.adjudicators.max_mean import MaxMean
from pyrite.pooling.adjudicators.thompson import Thompson
from pyrite.pooling.judging.documents import PooledDocuments
from pyrite.pooling.judging.export import disagreements, grades_of, qrels
from pyrite.pooling.judging.imports import Made
from pyrite.pooling.judging.log_check import check_log
from pyrite.pooling.judging.options import Options
from pyrite.pooling.judging.session import IMPORTED, Refused, Session, Stale
from pyrite.pooling.judging.state import SKIPPED_FOR
from pyrite.pooling.judging.store import Store, read
from pyrite.pooling.judging.view import View
from pyrite.pooling.pool import Pool
from pyrite.pooling.shared_fusion import SharedFusion
from pyrite.pooling.simulation import Method, simulate
from pyrite.ranking.errors import BadInput
from tests.examples import few
from tests.pooling.made_up import judgements

Judged = list[tuple[int, int]]
METHODS: dict[str, Callable[[], Method]] = {
    "max mean": lambda: Bandit(MaxMean()),
    "thompson": lambda: Bandit(Thompson()),
    "across topics": lambda: AcrossTopics(Bandit(Thompson()), Bandit(MaxMean()), least=3),
    "shared fusion": SharedFusion,
}
IN_LOCKSTEP = "shared fusion"
"""Each of its topics is in the order of `pyrite pool` if all of them are judged side by side."""


class Room:
    """A session with requests that number themselves, and truth for assessors who make no mistakes."""

    def __init__(
        self, folder: Path, pool: Pool, method: str = "max mean", options: Options | None = None,
        known: pl.DataFrame | None = None, gold: pl.DataFrame | None = None, assessors: str = "",
    ) -> None:  # fmt: skip
        self.folder, self.pool, self.method, self.options = folder, pool, method, options or Options()
        self.known, self.gold, self.requests = known, gold, 0
        self.open()
        for name in assessors.split():
            self.session.sign_in(name)

    def open(self) -> Session:
        self.store = Store(self.folder, {"method": self.method}, self.known, itertools.count(1.0).__next__)
        self.session = Session(self.pool, METHODS[self.method](), self.store, self.options, self.gold)
        return self.session

    def restart(self) -> Session:
        self.store.close()
        return self.open()

    def request(self) -> str:
        self.requests += 1
        return f"request {self.requests}"

    def names(self, place: tuple[int, int]) -> tuple[str, str]:
        topic = self.pool.topics[place[0]]
        return topic.name, topic.documents[place[1]]

    def enter(self, *assessors: str, topic: str = "1") -> None:
        """Sign assessors in, and give them a topic."""
        for name in assessors:
            self.session.sign_in(name)
            self.session.turn(name, topic)

    def judge(self, assessor: str, grade: int | None = None) -> tuple[int, int] | None:
        """Judge what is on the screen; return it."""
        place = self.session.next(assessor)
        if place is not None:
            true = int(self.pool.topics[place[0]].grades[place[1]])
            self.session.judge(assessor, *self.names(place), true if grade is None else grade, self.request())
        return place

    def judge_all(self, assessor: str) -> Judged:
        """All topics, one after another."""
        judged: Judged = []
        topics = [None] if self.session.by_method else [topic.name for topic in self.pool.topics]
        for topic in topics:
            self.session.turn(assessor, topic)
            while (place := self.judge(assessor)) is not None:
                judged.append(place)
        return judged


@pytest.fixture
def pool(random_pool) -> Pool:
    return random_pool(np.random.default_rng(3))


@pytest.fixture
def room(tmp_path, pool) -> Room:
    return Room(tmp_path, pool, assessors="ada")


@pytest.mark.by_day(2)
@pytest.mark.parametrize("method", [name for name in METHODS if name != IN_LOCKSTEP])
@pytest.mark.parametrize("save_every", [3, 1000])
def test_neither_restarts_nor_undoing_change_the_order(tmp_path, pool, method, save_every, monkeypatch):
    monkeypatch.setattr("pyrite.pooling.judging.revocable_order.SAVE_EVERY", save_every)
    room = Room(tmp_path, pool, method, assessors="ada")
    judged: Judged = []
    rng = np.random.default_rng(0)
    for topic in [None] if room.session.by_method else [topic.name for topic in pool.topics]:
        room.session.turn("ada", topic)
        while (place := room.session.next("ada")) is not None:
            if rng.random() < 0.1:
                room.restart()
                assert room.session.next("ada") == place
            if rng.random() < 0.2:  # a judgement that is taken back, and one or two before it
                room.judge("ada", grade=1 - int(pool.topics[place[0]].grades[place[1]]))
                room.session.next("ada")
                here = sum(topic is None or each[0] == place[0] for each in judged)
                for _ in range(1 + min(int(rng.integers(3)), here)):
                    room.session.undo("ada", room.request())
                while (again := room.session.next("ada")) != place:
                    assert again in judged
                    room.judge("ada")
            room.judge("ada")
            judged.append(place)
    assert judged == judgements(simulate(METHODS[method](), pool, [0])[0])


def judge_side_by_side(room: Room, rounds: int) -> list[list[int]]:
    """One judgement of each topic after the other, now and then with a restart, or a judgement that is taken back."""
    judged: list[list[int]] = [[] for _ in room.pool.topics]
    for turn in range(rounds):
        if turn % 5 == 4:
            room.restart()
        for number, topic in enumerate(room.pool.topics):
            room.session.turn("ada", topic.name)
            if turn % 3 == 2:
                place = room.session.next("ada")
                assert place is not None
                room.judge("ada", 1 - int(topic.grades[place[1]]))
                room.session.undo("ada", room.request())
            place = room.judge("ada")
            assert place is not None
            judged[number].append(place[1])
    return judged


@pytest.mark.parametrize("save_every", [3, 1000])
def test_topics_that_inform_each_other_are_judged_in_the_order_of_the_pool(tmp_path, pool, save_every, monkeypatch):
    monkeypatch.setattr("pyrite.pooling.judging.revocable_order.SAVE_EVERY", save_every)
    judged = judge_side_by_side(Room(tmp_path, pool, IN_LOCKSTEP, assessors="ada"), 12)
    [order] = simulate(SharedFusion(), pool, [0])
    assert judged == [documents[:12].tolist() for documents in order.documents]
    [alone] = simulate(SharedFusion(), pool.only(["1"]), [0])
    assert judged[0] != alone.documents[0][:12].tolist()


def test_a_folder_in_which_topics_did_not_inform_each_other_is_continued(tmp_path, pool, monkeypatch):
    with monkeypatch.context() as before:
        before.setattr(SharedFusion, "shares_topics", False)
        room = Room(tmp_path, pool, IN_LOCKSTEP, assessors="ada")
        judged = judge_side_by_side(room, 7)
    room.restart()
    assert [sorted(each) for each in room.session.state.assignments] == [sorted(each) for each in judged]
    for document in room.judge_all("ada"):
        judged[document[0]].append(document[1])
    assert [sorted(each) for each in judged] == [list(range(topic.pool.size)) for topic in pool.topics]


def test_undo_puts_the_document_back_and_keeps_the_record(room):
    first, second = room.judge("ada"), room.judge("ada")
    assert first is not None
    assert room.session.next("ada") not in (first, second)
    room.session.undo("ada", room.request())
    assert room.session.next("ada") == second
    room.session.undo("ada", room.request())
    assert room.session.next("ada") == first
    with pytest.raises(Refused, match="nothing to undo"):
        room.session.undo("ada", room.request())
    room.judge("ada", 1)
    assert read(room.folder).judgements.select("topic", "document", "grade").rows() == [(*room.names(first), 1)]
    kinds = [event.kind for event in room.store.events()]
    assert kinds.count("judge") == 3
    assert kinds.count("withdraw") == 2
    assert kinds.count("hand back") == 2


def test_undo_goes_back_to_the_topic_of_the_judgement(room):
    place = room.judge("ada")
    room.session.turn("ada", "2")
    assert (elsewhere := room.session.next("ada")) is not None
    assert elsewhere[0] == 1
    room.session.undo("ada", room.request())
    assert room.session.next("ada") == place
    room.session.turn("ada", "2")
    assert room.session.next("ada") == elsewhere  # it was not chosen in the light of the other topic


def test_a_request_that_comes_twice_counts_once(room):
    place = room.session.next("ada")
    for _ in range(2):
        room.session.judge("ada", *room.names(place), 1, "the same")
    assert len(room.session.state.judgements) == 1
    room.restart()
    room.session.judge("ada", *room.names(place), 1, "the same")
    assert len(room.session.state.judgements) == 1
    with pytest.raises(Refused, match="another content"):
        room.session.judge("ada", *room.names(place), 0, "the same")
    with pytest.raises(Refused, match="another content"):
        room.session.undo("ada", "the same")
    for _ in range(2):
        room.session.undo("ada", "undo")
    assert not room.session.state.judgements
    assert room.session.next("ada") == place


def test_a_stale_page_is_told_so(room):
    place = room.judge("ada")
    for act in (room.session.skip, lambda *names: room.session.judge(*names[:3], 1, names[3])):
        with pytest.raises(Stale, match="no longer yours"):
            act("ada", *room.names(place), room.request())
    with pytest.raises(Stale):
        room.session.judge("ada", "1", "no such document", 1, room.request())
    with pytest.raises(Refused, match="not one of the grades"):
        room.session.judge("ada", *room.names(place), 7, room.request())
    with pytest.raises(Refused, match="sign in"):
        room.session.next("grace")
    for topic in ("99", None):
        with pytest.raises(Refused, match="no topic"):
            room.session.turn("ada", topic)
    assert len(room.session.state.judgements) == 1


def test_a_skipped_document_comes_back_after_ten_judgements(room):
    place = room.session.next("ada")
    room.session.skip("ada", *room.names(place), room.request())
    between = [room.judge("ada") for _ in range(10)]
    assert place not in between
    assert len(set(between)) == 10
    assert room.session.next("ada") == place


def test_what_was_skipped_comes_back_when_nothing_else_is_left(tmp_path, pool):
    room = Room(tmp_path, pool, options=Options(budget=3), assessors="ada")
    room.judge("ada")
    skipped = room.session.next("ada")
    room.session.skip("ada", *room.names(skipped), room.request())
    room.judge("ada")
    assert room.judge("ada") == skipped
    assert room.session.next("ada") is None
    assert len(room.session.state.progress[0]) == 3


def test_open_documents_wait_for_their_assessor_or_are_handed_back(room):
    place = room.session.next("ada")
    room.enter("grace")
    others = room.judge_all("grace")
    assert place not in others
    assert len(others) == room.pool.size - 1
    room.session.leave("ada")
    room.session.turn("grace", "1")
    assert room.judge("grace") == place


@pytest.mark.parametrize("act", ["correct", "undo"])
def test_a_document_leaves_the_screens_of_others_as_soon_as_it_has_enough_grades(room, act):
    room.enter("grace")
    place = room.session.next("ada")
    room.session.judge("ada", *room.names(place), None, room.request())
    assert room.session.next("grace") == place
    if act == "correct":
        room.session.correct("ada", room.session.judged_by("ada")[0].id, 1, room.request())
    else:
        room.session.undo("ada", room.request())
        assert room.session.next("ada") == room.session.next("grace") == place
        room.judge("ada", 1)
    with pytest.raises(Stale):
        room.session.judge("grace", *room.names(place), 0, room.request())
    assert room.session.next("grace") != place
    assert room.session.state.assignments[0][place[1]].grades == [("ada", 1)]
    check_log(room.store.events(), [0, 1], room.folder)
    room.restart()
    assert place not in (room.session.next("ada"), room.session.next("grace"))


def test_a_document_that_is_judged_twice_stays_on_the_second_screen(tmp_path, pool):
    room = Room(tmp_path, pool, options=Options(double=1.0), assessors="ada grace")
    room.enter("ada", "grace")
    place = room.session.next("ada")
    room.session.judge("ada", *room.names(place), None, room.request())
    assert room.session.next("grace") == place
    room.session.correct("ada", room.session.judged_by("ada")[0].id, 1, room.request())
    assert room.judge("grace", 0) == place
    assert room.session.state.assignments[0][place[1]].grades == [("ada", 1), ("grace", 0)]


def test_an_imported_judgement_takes_the_document_from_the_screen(room):
    place = room.session.next("ada")
    topic, document = room.names(place)
    assert room.session.take_over([Made(topic, document, 1, "grace", 0, "", "")]) == {IMPORTED: 1}
    assert room.session.next("ada") != place
    check_log(room.store.events(), [0, 1], room.folder)


def test_assessors_start_in_different_topics(room):
    places = [room.session.next(room.session.sign_in(name)) for name in ("ada", "grace", "edsger")]
    assert [place[0] for place in places if place is not None] == [0, 1, 2]


@pytest.mark.nightly
@pytest.mark.parametrize("method", METHODS)
def test_eight_threads_never_get_the_same_document(tmp_path, random_pool, method):
    pool = random_pool(np.random.default_rng(1), topics=4, runs=8, documents=300, depth=250)
    room = Room(tmp_path, pool, method)
    given: dict[str, Judged] = {f"assessor {number}": [] for number in range(8)}

    def work(name: str) -> None:
        room.session.sign_in(name)
        if not room.session.by_method:
            room.session.turn(name, "1" if name < "assessor 4" else "2")
        for turn in range(100):
            place = room.session.next(name)
            if place is None:
                break
            room.session.judge(name, *room.names(place), turn % 2, f"{name} {turn}")
            given[name].append(place)

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(work, given))
    places = [place for of_assessor in given.values() for place in of_assessor]
    assert len(places) == len(set(places))
    of_two = sum(min(400, topic.pool.size) for topic in pool.topics[:2])
    assert len(places) == (800 if room.session.by_method else of_two)
    judged = read(tmp_path).judgements
    assert sorted(judged.select("assessor", "topic", "document").rows()) == sorted(
        (name, *room.names(place)) for name, of_assessor in given.items() for place in of_assessor
    )


@few(5)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("jjjjjusnlxcC")), max_size=60), st.booleans())
def test_whatever_assessors_do_a_restart_finds_the_same_desk(random_pool, tmp_path_factory, acts, across):
    pool = random_pool(np.random.default_rng(5), topics=2, documents=12, depth=8)
    options = Options(budget=7, double=0.4)
    method = "across topics" if across else "thompson"
    room = Room(tmp_path_factory.mktemp("room"), pool, method, options, assessors="a b c")
    for name, act in acts:
        place = room.session.next(name)
        if act == "j":
            room.judge(name)
        elif act == "u" and room.session.state.last_judgement(name) is not None:
            room.session.undo(name, room.request())
        elif act == "s" and place is not None:
            room.session.skip(name, *room.names(place), room.request())
        elif act == "x" and place is not None:
            room.session.judge(name, *room.names(place), None, room.request())
        elif act in "cC" and room.session.judged_by(name):
            made = room.session.judged_by(name)[-1]  # its first one
            room.session.correct(name, made.id, None if act == "C" else 1 - (made.grade or 0), room.request(), act)
        elif act == "n":
            room.session.turn(name, "2" if room.session.state.assessors[name] in (None, 0) else "1")
        elif act == "l":
            room.session.leave(name)
    before = room.session.state
    shown = [room.session.next(name) for name in "abc"]
    after = room.restart().state
    assert [room.session.on_screen(name) for name in "abc"] == shown
    for name in (
        "assignments", "judgements", "open", "assessors", "waiting", "owners", "handed_out", "last", "progress",
        "unjudgeable",
    ):  # fmt: skip
        assert getattr(after, name) == getattr(before, name), name
    for name in ("of_assessor", "own_progress"):  # may have empty entries, from being looked at
        looked, anew = (dict(filter(itemgetter(1), getattr(state, name).items())) for state in (before, after))
        assert looked == anew
    for topic, assignments in enumerate(after.assignments):  # what is counted as it comes is what there is
        waiting = {document for documents in after.waiting[topic].values() for document in documents}
        assert waiting == {document for document, assignment in assignments.items() if assignment.waits}
        firsts = {document: each.grades[0][1] >= 1 for document, each in assignments.items() if each.grades}
        assert (len(after.progress[topic]), after.progress[topic].found) == (len(firsts), sum(firsts.values()))
    events = room.store.events()
    undecided = {
        (event.topic, event.document) for event in events if event.kind in ("judge", "correct") and event.grade is None
    }
    for topic, assignments in enumerate(after.assignments):
        for document, assignment in assignments.items():
            # Who could not judge at first may do so after all, when another has.
            if room.names((topic, document)) not in undecided:
                assert len(assignment.grades) + len(assignment.holders) <= assignment.judges <= 2
            assert not assignment.holders & assignment.judgements.keys()
    assert all(len(assignments) <= limit for assignments, limit in zip(after.assignments, after.limits, strict=True))
    room.store.close()


@pytest.mark.parametrize(("double", "expected"), [(0, 0), (0.25, 2), (3, 3), (1.0, 9), (50, 9)])
def test_as_many_documents_are_judged_twice_as_asked(tmp_path, pool, double, expected):
    room = Room(tmp_path, pool, options=Options(budget=9, double=double))
    room.enter("ada", "grace", "edsger")
    for _ in range(40):
        for name in ("ada", "grace", "edsger"):
            room.judge(name)
    assignments = room.session.state.assignments[0].values()
    assert sum(len(assignment.judgements) == 2 for assignment in assignments) == expected
    assert len(assignments) == 9
    assert len(room.session.state.judgements) == 9 + expected


def judged_twice(room: Room) -> int:
    return sum(len(each.judgements) == 2 for each in room.session.state.assignments[0].values())


def judge_restlessly(room: Room, undo: int = 0, leave: int = 0) -> None:
    """Judge the first topic with two assessors who every so often undo, or leave and come back."""
    for turn in itertools.count(1):
        shown = [(name, place) for name in ("ada", "grace") if (place := room.session.next(name)) is not None]
        if not shown:
            return
        for name, place in shown:
            if leave and turn % leave == 0:
                room.session.leave(name)
            elif undo and turn % undo == 0 and name in dict(shown) and turn < 60:
                room.session.undo(name, room.request())
            else:
                room.session.judge(name, *room.names(place), 0, room.request())


@pytest.mark.parametrize(("double", "expected"), [(3, 3), (0.5, 5), (7, 7)])
@pytest.mark.parametrize("habits", [{"undo": 2}, {"undo": 3}, {"leave": 2}, {"leave": 3}, {"undo": 3, "leave": 5}])
def test_documents_that_are_returned_do_not_change_how_many_are_judged_twice(tmp_path, pool, double, expected, habits):
    room = Room(tmp_path, pool, options=Options(budget=10, double=double))
    room.enter("ada", "grace")
    judge_restlessly(room, **habits)
    assert (len(room.session.state.assignments[0]), judged_twice(room)) == (10, expected)


def test_a_higher_budget_does_not_have_more_documents_judged_twice(tmp_path, pool):
    room = Room(tmp_path, pool, options=Options(budget=5, double=3))
    for budget in (5, 8, 10):
        room.options = Options(budget=budget, double=3)
        room.restart()
        room.enter("ada", "grace")
        judge_restlessly(room)
        assert (len(room.session.state.assignments[0]), judged_twice(room)) == (budget, 3)
    before = {document: each.judges for document, each in room.session.state.assignments[0].items()}
    room.restart()
    assert {document: each.judges for document, each in room.session.state.assignments[0].items()} == before


def test_the_first_assessor_never_gets_the_second_judgement(tmp_path, pool):
    room = Room(tmp_path, pool, options=Options(budget=4, double=1.0), assessors="ada")
    first = [room.judge("ada") for _ in range(4)]
    assert room.session.next("ada") is None
    room.enter("grace")
    assert [room.judge("grace") for _ in range(4)] == first
    assert room.session.next("grace") is None


def test_the_method_hears_the_first_judgement_that_was_not_withdrawn(tmp_path, pool):
    room = Room(tmp_path, pool, "thompson", Options(double=1.0))
    room.enter("ada", "grace")
    place = room.judge("ada", 1)
    assert room.judge("grace", 0) == place
    room.session.undo("ada", room.request())
    room.judge("ada", 1)
    heard = room.session.state.orders[0]._current()._topics[0].state.rewards
    assert heard[place[1]] == 0


def test_judgements_made_before_are_taken_over(tmp_path, pool):
    topic = pool.topics[0]
    known = gold_of(("1", topic.documents[3], 2), ("1", topic.documents[5], 0), ("1", "elsewhere", 1))
    room = Room(tmp_path, pool, known=known, assessors="ada")
    assert room.session.pool.highest == 2
    assert room.session.known_grades[0] == {3: 2, 5: 0}
    assert room.session.state.limits[0] == topic.pool.size - 2
    judged = room.judge_all("ada")
    assert len(judged) == pool.size - 2
    assert not {(0, 3), (0, 5)} & set(judged)
    room.known = None
    assert room.restart().known_grades[0] == {3: 2, 5: 0}


def test_only_the_named_assessors_are_let_in(tmp_path, pool):
    room = Room(tmp_path, pool, options=Options(assessors=["Ada Lovelace", "grace"]))
    assert room.session.sign_in("  Ada   Lovelace ") == "Ada Lovelace"
    for name in ("ada lovelace", "edsger"):
        with pytest.raises(Refused, match="not among"):
            room.session.sign_in(name)
    for name in ("", " ", "x" * 41, "a\u202eb", "a\x00"):
        with pytest.raises(Refused, match="name has 1 to 40"):
            room.session.sign_in(name)


def test_what_is_on_the_screen_of_who_was_taken_off_goes_back(tmp_path, pool):
    room = Room(tmp_path, pool, options=Options(assessors=["ada", "grace"]), assessors="ada")
    place = room.session.next("ada")
    room.options = Options(assessors=["grace"])
    session = room.restart()
    assert not session.has_signed_in("ada")
    for act in (lambda: session.next("ada"), lambda: session.undo("ada", "r"), lambda: session.turn("ada", "2")):
        with pytest.raises(Refused, match="ada is no longer among the assessors"):
            act()
    room.enter("grace")
    assert session.next("grace") == place
    room.options = Options(assessors=["grace", "ada"])
    assert room.restart().has_signed_in("ada")


def test_topics_of_an_assessor_are_not_handed_to_others(tmp_path, pool):
    options = Options(budget=4, double=1.0, owners={"1": "ada", "2": "grace"})
    room = Room(tmp_path, pool, options=options, assessors="grace ada")
    starts = [room.session.next(name) for name in ("grace", "ada")]
    assert [place[0] for place in starts if place is not None] == [1, 0]  # each begins with a topic of their own
    room.session.turn("grace", "1")
    assert room.session.next("grace") is None
    assert not room.session.has_for("grace", 0)
    mine = room.judge("ada")
    assert room.session.next("grace") == mine  # as second assessor
    room.session.turn("grace", "3")  # anybody's
    assert room.judge("grace") is not None
    assert [room.session.owner_of(topic) for topic in range(3)] == ["ada", "grace", None]


def test_who_gets_the_first_document_owns_the_topic(tmp_path, pool):
    room = Room(tmp_path, pool, options=Options(owners="first", assessors=["ada", "grace"]))
    room.enter("ada", "grace")
    room.session.next("ada")
    assert room.session.next("grace") is None
    assert room.restart().owner_of(0) == "ada"
    room.session.leave("ada")  # without a judgement
    assert room.session.next("grace") is not None
    assert room.session.owner_of(0) == "grace"
    room.options = replace(room.options, assessors=["ada"])  # who is gone owns nothing
    assert room.restart().owner_of(0) is None
    assert room.session.next("ada") is not None


def test_the_method_hears_a_correction_as_if_it_had_been_the_first(tmp_path, pool):
    corrected, right = (Room(tmp_path / name, pool, "thompson", assessors="ada") for name in "ab")
    for room, grade in ((corrected, 0), (right, 1)):
        room.judge("ada", grade)
        if room is corrected:
            made = room.session.judged_by("ada")[0]
            room.session.leave("ada")  # what was chosen by the wrong grade
            room.session.correct("ada", made.id, 1, room.request())
            assert room.session.judged_by("ada")[0]._replace(event=made.event, at=made.at) == made._replace(grade=1)
            room.restart()
    assert [corrected.judge("ada") for _ in range(12)] == [right.judge("ada") for _ in range(12)]
    corrected.session.undo("ada", corrected.request())
    corrected.restart()
    for number in range(11):
        corrected.session.undo("ada", f"undo {number}")
    corrected.session.undo("ada", "the corrected one")
    assert not corrected.session.state.judgements
    assert not corrected.restart().state.judgements


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"grades": [1]}, "grades"), ({"grades": [1, 0]}, "grades"), ({"grades": [0, 0]}, "grades"),
        ({"names": ["no"]}, "1 names for 2"), ({"budget": 0}, "budget"), ({"double": 1.5}, "double"),
        ({"double": -1}, "double"), ({"resolve": "mean"}, "choose highest, first"), ({"assessors": [""]}, "printable"),
    ],
)  # fmt: skip
def test_options_out_of_range(wrong, says):
    with pytest.raises(BadInput, match=says):
        Options(**wrong)


def gold_of(*rows: tuple[str, str, int]) -> pl.DataFrame:
    return pl.DataFrame(rows, ["topic", "document", "grade"], orient="row")


GOLD = gold_of(("1", "d003", 1), ("1", "d005", 0), ("1", "d009", 1), ("2", "d001", 0))


@pytest.mark.parametrize(
    ("room", "says"),
    [
        ({"options": Options(grades=(1, 2))}, "some grades must be relevant"),
        ({"options": Options(grades=(-2, 0))}, "some grades must be relevant"),
        ({"method": "across topics", "options": Options(owners="first", assessors=["ada"])}, "the method chooses"),
        ({"gold": gold_of(("1", "x", 1))}, "no gold document"),
    ],
)
def test_what_does_not_fit_the_pool_or_the_method_is_refused(tmp_path, pool, room, says):
    with pytest.raises(BadInput, match=says):
        Room(tmp_path, pool, **room)


def test_a_budget_may_be_raised_later(tmp_path, pool):
    room = Room(tmp_path, pool, options=Options(budget=2), assessors="ada")
    first = room.judge_all("ada")
    assert len(first) == 2 * len(pool.topics)
    room.options = replace(room.options, budget=5)
    room.restart()
    more = room.judge_all("ada")
    assert len({*first, *more}) == 5 * len(pool.topics)


def test_assessors_begin_with_gold_documents_that_nothing_else_hears_of(tmp_path, pool):
    room = Room(tmp_path, pool, options=Options(burn_in=2, gold_every=3), gold=GOLD)
    session = room.session
    room.enter("ada", "grace")
    first = [room.judge("ada", 1), room.judge("ada", 1)]
    assert first == [(0, 3), (0, 5)] == [room.judge("grace", 0) for _ in range(2)]
    assert not session.state.judgements
    assert len(session.state.progress[0]) == 0
    assert session.state.gold_given["ada"] == {(0, 3): 1, (0, 5): 1}
    judged = [room.judge("ada") for _ in range(4)]
    assert judged[3] == (0, 9)  # after three judgements of her own one more, unannounced
    assert session.state.last_judgement("ada").place == judged[2]
    again = room.restart()
    assert again.state.gold_given == session.state.gold_given
    everything = room.judge_all("ada") + room.judge_all("grace")
    assert len(everything) == len(set(everything))
    assert not set(everything) & {(0, 3), (0, 5)}  # but as gold
    exported = {(topic, document) for topic, document in read(tmp_path).judgements.select("topic", "document").rows()}
    assert not exported & set(GOLD.select("topic", "document").rows())


def test_a_gold_document_that_is_skipped_comes_back_later(tmp_path, pool):
    room = Room(tmp_path, pool, options=Options(burn_in=2, gold_every=100), gold=GOLD)
    session, gold = room.session, [(0, 3), (0, 5), (0, 9)]
    room.enter("ada")
    for document in gold:
        assert session.next("ada") == document
        session.skip("ada", *room.names(document), room.request())
    judged = [room.judge("ada") for _ in range(SKIPPED_FOR)]
    assert not set(judged) & set(gold)
    assert room.restart().next("ada") == gold[0]
    assert [room.judge("ada"), room.judge("ada")] == gold[:2]
    assert not set(room.judge_all("ada")) & set(gold)


def test_gold_documents_that_were_skipped_come_last_if_nothing_else_is_left(tmp_path, pool):
    room = Room(tmp_path, pool, options=Options(budget=2, burn_in=1), gold=GOLD)
    room.enter("ada")
    session, first = room.session, (0, 3)
    session.skip("ada", *room.names(session.next("ada")), room.request())
    for document in ((0, 5), (0, 9)):
        assert session.next("ada") == document
        session.skip("ada", *room.names(document), room.request())
    assert not {room.judge("ada"), room.judge("ada")} & {first, (0, 5), (0, 9)}
    assert [room.judge("ada"), room.judge("ada")] == [first, None]


def test_a_document_that_was_searched_for_is_judged_too(room, pool):
    session, topic = room.session, pool.topics[0]
    shown = session.next("ada")
    wanted = next(place for place in range(topic.pool.size - 1, 0, -1) if (0, place) != shown)
    session.take("ada", "1", topic.documents[wanted])
    assert session.next("ada") == (0, wanted)
    assert room.judge("ada") == (0, wanted)
    assert session.next("ada") == shown  # it has waited
    # One that no run has takes a number behind the pool's; the method never hears of it.
    session.take("ada", "1", "from-elsewhere")
    beyond = (0, topic.pool.size)
    assert session.next("ada") == beyond
    assert session.state.name_of(beyond) == "from-elsewhere"
    session.judge("ada", "1", "from-elsewhere", 1, room.request())
    limit = session.state.limits[0]
    assert session.state.new_left(0) == limit - 2
    with pytest.raises(Refused, match="have judged this"):
        session.take("ada", "1", "from-elsewhere")
    again = room.restart()
    assert again.state.name_of(beyond) == "from-elsewhere"
    assert again.state.new_left(0) == limit - 2
    judged = room.judge_all("ada")
    assert (0, wanted) not in judged
    assert len(judged) == pool.size - 1
    assert ("1", "from-elsewhere", 1) in read(room.folder).judgements.select("topic", "document", "grade").rows()


def find(room: Room, count: int) -> None:
    """Judge some documents that no run has."""
    for number in range(count):
        room.session.take("ada", "1", f"found-{number}")
        room.session.judge("ada", "1", f"found-{number}", 0, room.request())


def test_documents_that_no_run_has_take_nothing_of_the_budget_of_all_topics(tmp_path, pool):
    room = Room(tmp_path, pool, "across topics", Options(budget=5), assessors="ada")
    room.session.turn("ada", "1")
    find(room, 4)
    room.restart()
    assert len(room.judge_all("ada")) == room.session.limit == 5 * len(pool.topics)


@pytest.mark.parametrize(("double", "of_pool", "of_found"), [(3, 3, 0), (1.0, 9, 4)])
def test_documents_that_no_run_has_are_not_of_those_judged_twice_by_number(tmp_path, pool, double, of_pool, of_found):
    room = Room(tmp_path, pool, options=Options(budget=9, double=double))
    room.enter("ada")
    find(room, 4)
    room.judge_all("ada")
    twice = [number for number, each in room.session.state.assignments[0].items() if each.judges == 2]
    assert sum(number < pool.topics[0].pool.size for number in twice) == of_pool
    assert len(twice) == of_pool + of_found


def test_the_owner_sees_that_a_document_that_no_run_has_can_not_be_judged(room):
    room.session.take("ada", "1", "from-elsewhere")
    room.session.judge("ada", "1", "from-elsewhere", None, room.request())
    overview = View(room.session, {}, PooledDocuments(pl.DataFrame({"id": [], "text": []}))).overview()
    assert overview["unjudgeable"] == [{"topic": "1", "document": "from-elsewhere"}]


def test_the_owner_resolves_what_assessors_differ_on(tmp_path, pool):
    room = Room(tmp_path, pool, options=Options(grades=(0, 1, 2), double=1.0, judges=3))
    session = room.session
    for name, grade in (("ada", 0), ("grace", 2), ("joan", 2)):
        session.sign_in(name)
        session.turn(name, "1")
        place = room.judge(name, grade)
    assert list(session.state.disputed) == [place]
    topic, document = room.names(place)
    assert f"{topic} 0 {document} 2" in qrels(read(tmp_path), "highest")
    session.resolve("owner", topic, document, 1, room.request())
    assert session.state.resolved == {place: 1}
    assert f"{topic} 0 {document} 1" in qrels(read(tmp_path), "highest")
    assert f"{topic}\t{document}\t1\tada\t0" in disagreements(read(tmp_path), "highest")
    with pytest.raises(Refused, match="do not differ"):
        session.resolve("owner", topic, "d001" if document != "d001" else "d002", 1, room.request())
    session = room.restart()
    assert session.state.resolved == {place: 1}
    for name in ("grace", "joan"):  # all agree after all: that is the grade, on the page and in the file
        session.correct(name, next(iter(session.state.of_assessor[name])), 0, room.request())
    assert not session.state.disputed
    assert f"{topic} 0 {document} 0" in qrels(read(tmp_path), "highest")


def by_rule(room: Room) -> dict[str, list[int]]:
    return {rule: grades_of(read(room.folder), rule)["grade"].to_list() for rule in ("first", "last")}


def test_a_refusal_that_becomes_a_grade_takes_its_place_when_it_does(tmp_path, pool):
    room = Room(tmp_path, pool, options=Options(grades=(0, 1, 2, 3)))
    room.enter("ada", "grace")
    place = room.session.next("ada")
    room.session.judge("ada", *room.names(place), None, room.request())
    assert room.judge("grace", 0) == place
    [refused] = room.session.judged_by("ada")
    room.session.correct("ada", refused.id, 2, room.request())
    state = room.session.state
    assert state.assignments[0][place[1]].grades == [("grace", 0), ("ada", 2)]
    assert by_rule(room) == {"first": [0], "last": [2]}
    room.session.correct("grace", room.session.judged_by("grace")[0].id, 3, room.request())  # keeps its place
    assert by_rule(room) == {"first": [3], "last": [2]}
    for grade in (None, 1):
        room.session.correct("grace", room.session.judged_by("grace")[0].id, grade, room.request())
    assert state.assignments[0][place[1]].grades == [("ada", 2), ("grace", 1)]
    assert by_rule(room) == {"first": [2], "last": [1]}


def test_imported_grades_take_their_places_by_their_times(tmp_path, pool):
    room = Room(tmp_path, pool, options=Options(grades=(0, 1, 2, 3)))
    topic, document = pool.topics[0].name, pool.topics[0].documents[0]
    times = {"ada": (0, 2e9), "grace": (2, 1e9), "edsger": (1, 0.0)}
    made = [Made(topic, document, grade, name, at, "", "") for name, (grade, at) in times.items()]
    room.session.take_over(made)
    assert room.session.state.assignments[0][0].grades == [("grace", 2), ("ada", 0), ("edsger", 1)]
    assert by_rule(room) == {"first": [1], "last": [0]}  # edsger's time is that of the import, here a few seconds
    room.session.take_over([Made(topic, document, 3, "barbara", 0.5, "", "")])
    assert by_rule(room) == {"first": [3], "last": [0]}


def test_a_refused_import_signs_nobody_in(tmp_path, pool):
    room = Room(tmp_path, pool, options=Options(assessors=["ada", "grace"]))
    topic = pool.topics[0]
    made = [Made(topic.name, topic.documents[0], 1, name, 0.0, "", "") for name in ("ada", "mallory")]
    with pytest.raises(Refused, match="mallory is not among the assessors"):
        room.session.take_over(made)
    assert not room.store.events()
    assert not room.session.state.assessors
