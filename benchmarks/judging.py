"""Measures what an answer of the judging page costs after few and after many judgements.

    python -m benchmarks.judging                     # 100,000 judgements of 50 topics, minutes
    python -m benchmarks.judging --judgements 3000   # smaller

One assessor judges a made-up pool to the end, in the order of a method, a tenth of the documents also by a second one.
At several points the time of an answer is taken: what the server does between a request and its answer (record the
judgement, choose the next document, collect all that the page shows, write it as JSON), in time of the processor; then
once more by the clock, with the disk that is waited for.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl

from benchmarks.pooling import made_up, methods
from pyrite.pooling.judging.documents import PooledDocuments
from pyrite.pooling.judging.options import Options
from pyrite.pooling.judging.session import Session
from pyrite.pooling.judging.store import Store
from pyrite.pooling.judging.topics import TopicText
from pyrite.pooling.judging.view import View
from pyrite.pooling.pool import Pool, Topic

SMALLEST = ["--judgements 90 --topics 3 --answers 2"]
SETTINGS = {"pool": "made up"}
TEXT = "moles dig tunnels under the lawn and robins sing about them every morning " * 20


class Assessors:
    """A session and the assessors who judge in it."""

    def __init__(self, folder: Path, pool: Pool, method: str) -> None:
        self.folder, self.pool, self.method = folder, pool, method
        self.requests = 0
        self.documents = pl.DataFrame({"id": pl.concat([topic.documents for topic in pool.topics]).unique()})
        self.documents = self.documents.with_columns(text=pl.lit(TEXT))

    def open(self) -> None:
        self.store = Store(self.folder, SETTINGS)
        self.session = Session(self.pool, methods([self.method])[self.method], self.store, Options(double=0.1))
        topics = {topic.name: TopicText("tunnels of moles") for topic in self.pool.topics}
        self.view = View(self.session, topics, PooledDocuments(self.documents))

    def request(self) -> str:
        self.requests += 1
        return f"{self.requests}"

    def look(self, name: str) -> None:
        json.dumps(self.view.of(name, self.session.next(name)))

    def judge(self, name: str) -> bool:
        """Judge what is on the screen; turn to another topic when there is nothing."""
        place = self.session.next(name)
        if place is None:
            left = [topic.name for number, topic in enumerate(self.pool.topics) if self.session.has_for(name, number)]
            if not left:
                return False
            self.session.turn(name, left[0])
            place = self.session.next(name)
            assert place is not None
        topic = self.pool.topics[place[0]]
        grade = int(topic.grades[place[1]])
        self.session.judge(name, topic.name, topic.documents[place[1]], grade, self.request())
        return True


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--judgements", type=int, default=100_000, help="documents of the pool")
    parser.add_argument("--topics", type=int, default=50)
    parser.add_argument("--method", default="posterior_fusion")
    parser.add_argument("--answers", type=int, default=200, help="that are timed at each point")
    chosen = parser.parse_args(arguments)
    # The lists of 20 made-up runs together have nine times as many documents as one.
    pool = made_up(20, -(-chosen.judgements // chosen.topics // 9), chosen.topics)
    pool = replace(pool, topics=[replace(topic, documents=ids(topic)) for topic in pool.topics])
    print(f"{pool.size:,} documents in {len(pool.topics)} topics, {chosen.method}")
    with tempfile.TemporaryDirectory() as folder:
        assessors = Assessors(Path(folder) / "out", pool, chosen.method)
        assessors.open()
        for name in ("ada", "grace"):
            assessors.session.sign_in(name)
        for topic in pool.topics:  # all are begun, so that each answer lists as many with their figures
            assessors.session.turn("ada", topic.name)
            for _ in range(3):
                assessors.judge("ada")
        assessors.session.turn("ada", pool.topics[0].name)
        # In the middle of a topic each time, whose order costs its method more or less from its first to its last.
        each = pool.size // chosen.topics
        points = sorted({number * each + each // 2 for number in (0, chosen.topics // 10, chosen.topics - 1)})
        measured = [measure(assessors, point, chosen.answers) for point in points]
        print(f"answers between the first and the last point: {measured[-1] / measured[0]:.2f}×")
        assessors.store.close()
        opened = seconds(assessors.open)
        print(f"starting again: {opened:.1f} s, the first answer {1e3 * seconds(lambda: answered(assessors)):.0f} ms")
        assessors.store.close()


def ids(topic: Topic) -> pl.Series:
    return pl.Series([f"{topic.name}-{number}" for number in range(topic.pool.size)])


def measure(assessors: Assessors, point: int, answers: int) -> float:
    """Judge up to a point, then take the time. Returns the median answer's, in seconds."""
    quickly = assessors.store._connection  # the judgements in between need not survive a power cut
    quickly.execute("PRAGMA synchronous = OFF")
    while len(assessors.session.state.judgements) < point:
        # The second assessor follows the first, a tenth as fast.
        if not assessors.judge("grace" if len(assessors.session.state.judgements) % 11 == 10 else "ada"):
            break
    answer = [seconds(lambda: answered(assessors)) for _ in range(answers)]
    undo = [seconds(lambda: undone(assessors)) for _ in range(5)]
    first = assessors.session.state.of_assessor["ada"]
    correct = [seconds(lambda made=made: corrected(assessors, made)) for made in list(first)[:5]]
    listed = seconds(lambda: assessors.view.judged("ada"))
    quickly.execute("PRAGMA synchronous = FULL")
    flushed = [seconds(lambda: answered(assessors), time.perf_counter) for _ in range(20)]
    print(
        f"after {point:>7,}: answer {1e3 * np.median(answer):.2f} ms (95%: {1e3 * np.quantile(answer, 0.95):.2f}), "
        f"with the disk {1e3 * np.median(flushed):.1f}; undo {1e3 * np.median(undo):.0f}, correct the first "
        f"{1e3 * np.median(correct):.0f}, list {1e3 * listed:.1f}",
        flush=True,
    )
    return float(np.median(answer))


def answered(assessors: Assessors) -> None:
    assessors.judge("ada")
    assessors.look("ada")


def undone(assessors: Assessors) -> None:
    assessors.session.undo("ada", assessors.request())
    answered(assessors)  # which chooses a document again


def corrected(assessors: Assessors, made: int) -> None:
    grade = assessors.session.state.judgements[made].grade
    assessors.session.correct("ada", made, 1 - int(grade or 0), assessors.request())
    answered(assessors)


def seconds(action: Callable[[], object], clock: Callable[[], float] = time.process_time) -> float:
    """Return the CPU time of an action, or the time of another clock that includes waiting."""
    started = clock()
    action()
    return clock() - started


if __name__ == "__main__":
    main()
