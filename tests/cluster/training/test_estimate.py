"""The time of runs is estimated by a few steps, changes nothing, and is printed before the first run."""

import io
import re

import pytest
from rich.console import Console

from pyrite.cluster.commands.study_time import Timing
from pyrite.cluster.config.compose import compose
from pyrite.cluster.executors.resources import room_for
from pyrite.cluster.executors.task import Done, Executor
from pyrite.cluster.runs.artifacts import Artifacts
from pyrite.cluster.telemetry.live_table import LiveTable
from pyrite.cluster.training.estimate import RunTime, can_be_timed, time_run, whole_seconds
from pyrite.ranking.errors import BadInput
from tests.cluster.command_line import command

RUN = RunTime(step=0.5, validation=10, test=20, examples=100, batch=16, epochs=3, dev=50, tested=0)


def test_the_seconds_of_a_run_and_of_all():
    assert RUN.seconds == 3 * 7 * 0.5 + 3 * 10 + 20  # the last batch of an epoch is smaller
    assert whole_seconds([RUN, RUN, RUN, RUN], 2) == 2 * RUN.seconds
    assert whole_seconds([RUN, None], 1) == 2 * RUN.seconds  # as the mean of those that were timed
    assert whole_seconds([RUN, RUN], 8) == RUN.seconds
    assert whole_seconds([None], 1) is None


def test_the_seconds_at_a_smaller_scale():
    limits = {"examples": 32, "train": None, "dev": 10, "test": 5}
    less = RUN.reduced({"limits": limits, "training": {"max_epochs": 2}})
    assert less.seconds == pytest.approx(2 * 2 * 0.5 + 2 * 10 * 10 / 50 + 20)  # all documents are read for the test
    more = RUN.reduced({"limits": dict.fromkeys(limits), "training": {"max_epochs": 3}})
    assert more.seconds == RUN.seconds


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
    found = time_run(config, Artifacts().parts(config))
    assert found.step > 0 < found.validation
    assert (found.examples, found.batch, found.epochs, found.dev, found.tested, found.rankers) == (24, 2, 2, 8, 0, 1)


def test_it_is_printed_before_the_first_run(options, tmp_path, capsys):
    out = tmp_path / "study"
    assert command("study", *options, "function=random,bm25", "seeds=2", "local=true", f"out={out}") == 0
    said = " ".join(capsys.readouterr().out.split())
    line = re.search(r"timing a few steps of 2 methods … 4 runs, about [\d.]+ s at most; with scale=tiny about", said)
    assert line
    assert said.index("4 runs (0 done)") < line.start()
    assert command("study", "--resume", str(out)) == 0
    assert "timing" not in capsys.readouterr().out  # nothing is left to run


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
