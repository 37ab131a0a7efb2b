"""The time of runs is estimated by a few steps, changes nothing, and is printed before the first run."""

import io
import re
from dataclasses import replace

import pytest
from rich.console import Console

from pyrite.cluster.commands.study_time import Timing, _time_lines
from pyrite.cluster.config.compose import compose
from pyrite.cluster.executors.resources import room_for
from pyrite.cluster.executors.task import Done, Executor
from pyrite.cluster.runs.artifacts import Artifacts
from pyrite.cluster.telemetry.live_table import LiveTable
from pyrite.cluster.training.estimate import Estimate, RunTime, TextsRead, can_be_timed, time_run
from pyrite.ranking.errors import BadInput
from tests.cluster.command_line import command

VALIDATION, TEST = TextsRead(queries=40, texts=90), TextsRead(queries=80, texts=180, whole=True)
RUN = RunTime(step=0.5, text=0.1, validation=[VALIDATION], test=[TEST], examples=100, batch=16, epochs=3)


def test_the_seconds_of_a_run_and_of_all():
    assert RUN.training == 3 * 7 * 0.5  # the last batch of an epoch is smaller
    assert RUN.reading == pytest.approx(3 * (90 + 10) * 0.1 + (180 + 20) * 0.1)
    assert RUN.seconds == RUN.training + RUN.reading
    within = replace(RUN, every=3)  # after 3, 6 and 7 steps
    assert within.reading == pytest.approx(9 * 10 + 20)
    assert Estimate([RUN, RUN, RUN, RUN], 2).seconds == 2 * RUN.seconds
    assert Estimate([RUN, None], 1).seconds == 2 * RUN.seconds  # as the mean of those that were timed
    assert Estimate([RUN, RUN], 8).seconds == RUN.seconds
    assert Estimate([None], 1).seconds is None


def test_the_seconds_of_shorter_runs():
    limits = {"examples": 32, "train": None, "dev": 10, "test": 5}
    config = {"limits": limits, "training": {"max_epochs": 2}, "origin": {"full": {}}}
    less = RUN.reduced(config)
    assert less.training == 2 * 2 * 0.5
    # The validation has a fourth of its queries, and the test reads all documents for its five.
    assert less.reading == pytest.approx(0.1 * (2 * (23 + 2.5) + 180 + 5 / 4))
    assert RUN.reduced(config | {"origin": {"bm25": {}}}).reading == less.reading  # five lists hold all
    huge = replace(RUN, test=[replace(TEST, texts=10_000)])
    assert huge.reduced(config | {"origin": {"bm25": {}}}).test[0].texts == 500
    same = {"limits": dict.fromkeys(limits), "training": {"max_epochs": 3}, "origin": {"full": {}}}
    assert RUN.reduced(same) == RUN


def test_what_takes_the_time_is_named():
    def lines(*runs: RunTime, **shorter: float) -> list[str]:
        return _time_lines(Estimate(runs, 1), shorter, 180)

    assert lines(RUN, a=20.0, b=60.0) == [
        "1 run, about 60 s at most; 83% of it reads all 180 documents to validate and test, 17% trains on 100 pairs",
        "shorter: a about 20 s",
    ]
    slow = replace(RUN, step=10.0, test=[VALIDATION], share=0.5)
    assert lines(slow, RUN, a=280.0) == [
        "2 runs, about 5 min at most while other programs use the processor (about 3 min without them); "
        "71% of it trains on 100 pairs, 29% reads all 180 documents to validate and test",
        "shorter: fewer methods, seeds or documents; limits save little",
    ]


@pytest.fixture(scope="module")
def options(base, checkpoint) -> list[str]:
    mine = [text for text in base if not text.startswith(("ranker.preset", "training."))]
    mine += ["ranker=bi_encoder", f"ranker.checkpoint={checkpoint}", "training.max_epochs=2", "training.batch_size=2"]
    return [*mine, "origin=full", "policy=fixed", "selector=uniform"]


def test_a_run_is_timed(options):
    config = compose([*options, "function=random"])
    assert can_be_timed(config)
    assert not can_be_timed(compose(["ranker=static"]))
    assert not can_be_timed(compose([*options, "function=dense"]))
    parts = Artifacts().parts(config)
    found = time_run(config, parts)
    assert found.step > 0 < found.text
    assert 0 < found.share <= 1.1
    assert (found.examples, found.batch, found.epochs, found.every, found.rankers) == (24, 2, 2, None, 1)
    (validation,), (test,) = found.validation, found.test
    assert (validation.queries, validation.whole, test.texts, test.whole) == (
        8,
        False,
        len(parts["base"].encoded.documents),
        True,
    )
    listed = compose([*options, "function=random", "origin=bm25"])
    assert time_run(listed, Artifacts().parts(listed)).test[0] == validation  # read again, to weigh it next to BM25


@pytest.mark.nightly
def test_it_is_printed_before_the_first_run(options, tmp_path, capsys):
    out = tmp_path / "study"
    assert command("study", *options, "function=random,bm25", "seeds=2", "local=true", f"out={out}") == 0
    said = " ".join(capsys.readouterr().out.split())
    line = re.search(r"timing a few steps of 2 methods … 4 runs, about [\d.]+ s at most.*? of it .*? shorter: ", said)
    assert line
    assert said.index("4 runs (0 done)") < line.start()
    assert command("study", "--resume", str(out)) == 0
    assert "timing" not in capsys.readouterr().out  # nothing is left to run


@pytest.mark.nightly
def test_it_is_printed_on_ray(options, tmp_path, capsys, ray_session):
    out = tmp_path / "study"
    assert command("study", *options, "function=random", "seeds=2", "local=false", f"out={out}") == 0
    said = " ".join(capsys.readouterr().out.split())
    assert re.search(r"timing a few steps of 1 method … 2 runs, about [\d.]+ s at most", said)


def test_the_runs_that_ray_has_room_for():
    run = {"cpu": 1, "gpu": 0, "memory": None, "custom": None, "workers": 1}
    nodes = [{"CPU": 4.0}, {"CPU": 2.0}]
    assert room_for([run], nodes) == 6
    assert room_for([run, run | {"cpu": 2}], nodes) == 3
    assert room_for([run | {"gpu": 1}], nodes) == 1  # which a cluster may add


def test_bad_input_while_timing_ends_the_command_and_other_errors_do_not():
    class Ends(Executor):
        def _run(self, source, watch, retries, stop):
            yield Done(source.next(), error=error)

    error = ValueError("wrong")
    method = {"resources": {"cpu": 1, "gpu": 0, "memory": None, "custom": None, "workers": 1, "placement": "pack"}}
    assert Timing(Ends(), 1).times([(method, {})]) == [None]
    error = BadInput("wrong")
    with pytest.raises(BadInput, match="wrong"):
        Timing(Ends(), 1).times([(method, {})])


def test_the_time_left_within_a_run():
    console = Console(file=io.StringIO(), width=100)
    table = LiveTable(console, 4, 0, "AP@10")
    assert "left" not in table.outlook()
    table.estimated = 600.0
    table.start("a")
    assert "about 10 min left" in table.outlook()
    table.within("a", 0.5)
    table.first_run -= 50.0  # the rest of the run, and three more
    assert "about 6 min left" in table.outlook()
    table.print_line()
    table.print_line()  # nothing has happened since
    assert console.file.getvalue().count("0 of 4 runs (running: 50%)") == 1  # type: ignore[attr-defined]
    table.end("a", 0.5)
    assert "left" in table.outlook()
