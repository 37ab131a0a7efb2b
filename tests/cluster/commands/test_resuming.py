"""`resume=auto`: the same line starts a command, and goes on with it after an interrupt, with the same tables."""

import os
import shutil
from pathlib import Path

import pytest

from pyrite.cluster.commands.experiment import verb_named
from pyrite.cluster.commands.mine import MINE
from pyrite.cluster.commands.resuming import read, recorded
from pyrite.cluster.output.manifest import read_config, write_config
from pyrite.cluster.output.storage import Storage
from pyrite.ranking.errors import BadInput
from tests.cluster.command_line import command, summary_of

METHOD = ["policy=fixed", "function=random", "selector=uniform"]
MINED = ["function=random", "count=2", "shard=4"]


def interrupt(out: Path, *left_out: str) -> None:
    """Leave of a folder what an interrupted command leaves: no tables, and without some results."""
    for name in left_out:
        for path in sorted(out.glob(name)):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def files(out: Path, pattern: str) -> dict[str, bytes]:
    """The results of a command, but for what runs cost."""
    if (out / "summary.csv").exists():
        return {"summary.csv": summary_of(out).encode()}
    found = {path.name: path.read_bytes() for path in out.glob(pattern)}
    assert found
    return found


@pytest.mark.by_day(2)
@pytest.mark.parametrize(
    ("verb", "overrides", "results", "left_out"),
    [
        ("study", [*METHOD, "seeds=2", "local=true", "track=[]"], "summary.csv", ["runs/*s1*", "*.parquet", "*.csv"]),
        ("train", [*METHOD, "track=[]"], "weights/*.safetensors", ["runs/*", "weights", "*.parquet"]),
        ("mine", MINED, "ids/*", ["shards/*000000*", "ids", "README.md"]),
        ("pool", ["method=mtf,mm", "seeds=2", "local=true"], "summary.csv", ["runs/*mm*", "*.parquet", "*.csv"]),
    ],
)  # fmt: skip
def test_the_same_line_starts_and_goes_on(verb, overrides, results, left_out, base, of_small_pool, tmp_path):
    out = tmp_path / "out"
    own = of_small_pool if verb == "pool" else base
    own = [text for text in own if verb != "mine" or text.startswith(("collection", "cache"))]
    line = [*own, *overrides, f"out={out}", "resume=auto"]
    assert command(verb, *line) == 0
    before, content = files(out, results), (out / "config.yaml").read_bytes()
    interrupt(out, *left_out)
    assert command(verb, *line) == 0
    assert command(verb, *line) == 0  # finished: nothing is left to do
    assert files(out, results) == before
    assert (out / "config.yaml").read_bytes() == content
    assert "resume" not in read_config(Storage(str(out)))["command"]


@pytest.fixture
def mined(base, tmp_path) -> list[str]:
    """A mining that has begun, and the line that started it."""
    line = [*(text for text in base if text.startswith(("collection", "cache"))), *MINED, f"out={tmp_path / 'out'}"]
    experiment = read(MINE, [*line, "resume=auto"])
    assert not experiment.resumed
    write_config(experiment.plan.storage, {"verb": "mine", "typed": list(experiment.typed), "overrides": line})
    return line


def test_other_overrides_are_refused(mined, tmp_path):
    experiment = read(MINE, [*mined, "workers=2", "resume=auto"])  # as `--resume` allows
    assert (experiment.resumed, experiment.plan.config["workers"], experiment.additions) == (True, 2, [])
    assert experiment.command.endswith(f"out={tmp_path / 'out'}")
    shorter = [text for text in mined if text != "count=2"]
    for line, says in (
        ([*shorter, "count=3"], "count=3 can't change on resume"),
        (shorter, "holds a mining with count=2, and resume=auto goes on with the same overrides.*give count=2 too"),
    ):
        with pytest.raises(BadInput, match=says):
            read(MINE, [*line, "resume=auto"])
    with pytest.raises(BadInput, match="holds results already, of `pyrite mine`"):
        read(MINE, mined)
    with pytest.raises(BadInput, match="was written by `pyrite mine`, and not by a study"):
        read(verb_named("study"), [f"out={tmp_path / 'out'}", "resume=auto"])


def test_a_learning_goes_on(base, tmp_path):
    line = [*base, "episodes=4", "copies=2", f"out={tmp_path / 'out'}"]
    experiment = read(verb_named("learn"), [*line, "resume=auto"])
    content = {"verb": "learn", "typed": list(experiment.typed), "overrides": experiment.plan.arguments}
    write_config(experiment.plan.storage, content)
    again = read(verb_named("learn"), [*line, "save_every=5", "resume=auto"])
    assert (again.resumed, again.additions) == (True, [])
    assert again.plan.config == experiment.plan.config | {"save_every": 5}
    with pytest.raises(BadInput, match="episodes=6 can't change on resume"):
        read(verb_named("learn"), [*(text for text in line if text != "episodes=4"), "episodes=6", "resume=auto"])


def test_relative_paths_are_those_of_the_first_command(mined, monkeypatch, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    line = [f"out={os.path.relpath(tmp_path / 'out')}" if text.startswith("out=") else text for text in mined]
    assert read(MINE, [*line, "resume=auto"]).resumed


@pytest.mark.parametrize(
    ("line", "resume", "says"),
    [
        (["resume=auto"], None, "resume=auto goes on in a folder.*out=FOLDER"),
        (["resume=auto", "out=null"], None, "name it with out=FOLDER"),
        (["resume=outputs/m", "out=x"], None, "write resume=auto to start or go on, or --resume FOLDER"),
        (["resume=auto"], "x", "--resume and resume=auto exclude each other"),
    ],
)
def test_what_makes_no_sense_is_refused(line, resume, says):
    with pytest.raises(BadInput, match=says):
        read(MINE, line, resume)


def test_what_was_added_counts_as_recorded():
    saved = {"typed": ["seeds=2", "out=x"], "overrides": [], "extended": ["pyrite study --resume x seeds=5"]}
    assert recorded(saved) == ["seeds=2", "out=x", "seeds=5"]
    assert recorded(saved, first=True) == ["seeds=2", "out=x"]
    assert recorded({"typed": 3, "overrides": "no list", "extended": {}}) == []
