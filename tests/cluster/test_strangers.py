"""Opens poisoned folders of results with every verb: nothing that they name may start, and one line says why."""

import json
import pickle
import re
import shutil
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml

import pyrite
from pyrite.cluster.executors.address import is_foreign
from pyrite.cluster.output.manifest import HEAD, write_config
from pyrite.cluster.output.storage import Storage
from pyrite.ranking.errors import BadInput
from pyrite.results import StudyResult
from tests.cluster.command_line import command

STARTED = "STARTED"
GUARDED = ["guard.ranker=w/good.safetensors", "guard.absolute=0"]
POPEN = {"_target_": "subprocess.Popen", "args": ["touch", STARTED]}
OWN = {"_target_": "intruder.Part"}
PART = "{_target_: intruder.Part}"


class Bomb:
    """A pickle that leaves a file when it is read."""

    def __reduce__(self) -> tuple[Any, tuple[Path]]:
        return (Path.touch, (Path(STARTED),))


@pytest.fixture(scope="module")
def study(base, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("stranger") / "study"
    options = ["policy=fixed", "function=random,bm25", "selector=uniform", "seeds=1", "weights=true", "local=true"]
    assert command("study", *base, *options, "training.max_epochs=1", f"out={folder}") == 0
    return folder


@pytest.fixture(scope="module")
def trained(base, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("stranger") / "trained"
    options = ["policy=fixed", "function=random", "selector=uniform", "weights=true", "training.max_epochs=1"]
    assert command("train", *base, *options, f"out={folder}") == 0
    return folder


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch) -> Path:
    """A folder with a module that leaves a file when it is imported."""
    (tmp_path / "intruder.py").write_text(f"open({STARTED!r}, 'w').close()\nclass Part: pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def refused(refusal, here) -> Callable[..., str]:
    """Runs a command, and asserts that it names the class and the way to trust it, and that nothing started."""

    def run(*arguments: str) -> str:
        said: str = refusal(*arguments)
        assert re.search(r"(subprocess\.Popen|intruder\.Part): the folder names a class that is not Pyrite's", said)
        assert re.search(rf"PYRITE_TRUST=\S+ pyrite {arguments[0]}", said)
        assert not (here / STARTED).exists()
        return said

    return run


def rewritten(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change a folder's config.yaml, with its checksum."""
    content = yaml.safe_load((folder / "config.yaml").read_text("utf-8"))
    change(content)
    content.pop("started_in", None)
    body = HEAD + yaml.safe_dump(content, sort_keys=False).encode()
    (folder / "config.yaml").write_bytes(body + f"# CRC-32 {zlib.crc32(body):08x}\n".encode())


@pytest.mark.parametrize("poison", [POPEN, OWN], ids=["popen", "own"])
@pytest.mark.parametrize(
    "change",
    [
        lambda study, poison: study["study"]["track"].update(x=poison),
        lambda study, poison: study["study"]["track"]["tensorboard"].update(x=poison),
        lambda study, poison: study["study"].update(trial_scheduler=poison),
        lambda study, poison: study["study"].update(stoppers=[poison]),
        lambda study, poison: study["study"].update(callbacks=[poison]),
        lambda study, poison: study["overrides"].append(f"+policy.x={json.dumps(poison).replace(chr(34), '')}"),
        lambda study, poison: study["overrides"].append(f"selector._target_={poison['_target_']}"),
        lambda study, poison: study["overrides"].append(f"+optimizer.x._target_={poison['_target_']}"),
        lambda study, poison: study["overrides"].append(f"+training.hook._target_={poison['_target_']}"),
        lambda study, poison: study["overrides"].extend(GUARDED),
        lambda study, poison: study["design"].update(overrides=[f"objective._target_={poison['_target_']}"]),
    ],
    ids=["tracker", "tracker-inner", "scheduler", "stopper", "callback", "policy", "selector", "optimizer", "training",
         "guard", "design"],
)  # fmt: skip
def test_study(study, tmp_path, refused, poison, change):
    weights(tmp_path, poison)
    shutil.copytree(study, tmp_path / "copy")
    shutil.rmtree(tmp_path / "copy" / "runs")  # so that there is work to do
    rewritten(tmp_path / "copy", lambda content: change(content, poison))
    refused("study", "--resume", "copy")


@pytest.mark.parametrize("name", ["stoppers", "callbacks"])
def test_study_with_a_class_by_its_path_alone(study, tmp_path, refused, name):
    shutil.copytree(study, tmp_path / "copy")
    shutil.rmtree(tmp_path / "copy" / "runs")
    rewritten(tmp_path / "copy", lambda content: content["study"].update({name: ["intruder.Part"]}))
    refused("study", "--resume", "copy")


@pytest.mark.parametrize("address", ["192.0.2.1:6379", "ray://192.0.2.1:10001", "evil.example:6379"])
def test_study_on_the_cluster_of_a_stranger(study, tmp_path, refusal, address):
    shutil.copytree(study, tmp_path / "copy")
    rewritten(tmp_path / "copy", lambda content: content["study"].update(address=address, local=False))
    assert f"if it is yours, give it again: address={address}" in refusal("study", "--resume", "copy")


@pytest.mark.parametrize("address", [None, "auto", "local", "127.0.0.1:6379", "[::1]:6379", "localhost:6379"])
def test_a_cluster_that_this_machine_is_part_of_is_no_strangers(address):
    assert not is_foreign(address)


def test_a_study_from_python(study, tmp_path, here):
    shutil.copytree(study, tmp_path / "copy")
    rewritten(tmp_path / "copy", lambda content: content["overrides"].append(f"+policy.x={PART}"))
    with pytest.raises(BadInput, match="names a class that is not Pyrite's"):
        StudyResult.restore("copy")
    assert not (here / STARTED).exists()


@pytest.mark.parametrize(
    "content",
    [
        {"verb": "mine", "overrides": [f"+guard.x={PART}"]},
        {"verb": "mine", "overrides": ["function=bm25"], "selector": OWN},
        {"verb": "learn", "overrides": ["reward._target_=intruder.Part"]},
        {"verb": "learn", "overrides": [], "track": {"x": POPEN}},
        {"verb": "pool", "overrides": [f"method=[docid] +method.docid.x={PART}"], "method": {"x": OWN}},
    ],
)
def test_mine_learn_and_pool(content, refused):
    write_config(Storage("copy"), content)
    refused(content["verb"], "--resume", "copy")
    write_config(Storage("again"), content | {"typed": ["out=again"]})
    refused(content["verb"], "out=again", "resume=auto")


def weights(folder: Path, poison: dict[str, Any]) -> Path:
    """Write a description of weights that names a class."""
    (folder / "w").mkdir()
    (folder / "w" / "good.safetensors").write_bytes(b"")
    ranker = {"_target_": "pyrite.ranking.rankers.static.Static", "_partial_": True, "x": poison}
    content = {"ranker": ranker, "encoding": {"max_query": 10}, "words": ["a"], "dimension": 2}
    (folder / "w" / "good.json").write_text(json.dumps(content))
    return folder / "w" / "good.safetensors"


@pytest.mark.parametrize("poison", [POPEN, OWN], ids=["popen", "own"])
@pytest.mark.parametrize(
    "arguments",
    [
        ["rank", "w/good.safetensors"],
        ["mine", "checkpoint=w/good.safetensors", "function=dense"],
        ["mine", "function=bm25", "guard.ranker=w/good.safetensors", "guard.absolute=0"],
        ["train", "policy=fixed", "function=bm25", "selector=uniform", "objective=margin_mse", "teacher=ranker",
         "teacher.checkpoint=w/good.safetensors"],
        ["study", "policy=fixed", "function=bm25", "selector=uniform", *GUARDED, "seeds=1", "local=true", "out=s"],
    ],
    ids=["rank", "mine", "guard", "teacher", "study"],
)  # fmt: skip
def test_weights(base, tmp_path, refused, poison, arguments):
    weights(tmp_path, poison)
    verb, *options = arguments
    of_verb = base if verb in ("train", "study") else [text for text in base if text.startswith("collection")]
    refused(verb, *options, *of_verb)


def test_the_weights_in_a_folder_of_train(trained, base, tmp_path, refused):
    shutil.copytree(trained, tmp_path / "copy")
    (described,) = (tmp_path / "copy" / "weights").glob("*.json")
    content = json.loads(described.read_text())
    content["ranker"] |= {"_target_": "intruder.Part"}
    described.write_text(json.dumps(content))
    refused("rank", "copy", *base[:2])
    with pytest.raises(BadInput, match="names a class that is not Pyrite's"):
        pyrite.rank("copy", base[:2])


def test_judge(refused, tmp_path, refusal):
    (tmp_path / "judged").mkdir()
    options = ["runs=runs", "collection=beir", "collection.path=c", "method=docid", f"++method.docid.inner={PART}"]
    (tmp_path / "judged" / "overrides.json").write_text(json.dumps({"overrides": options}))
    refused("judge", "out=judged")
    refused("judge", "--resume", "judged")
    refused("judge", "--resume", "judged", "depth=20")


@pytest.fixture
def poisoned_tables(study, tmp_path) -> Path:
    """A study whose table of runs names a class."""
    shutil.copytree(study, tmp_path / "copy")
    path = tmp_path / "copy" / "trials.parquet"
    trials = pl.read_parquet(path)
    foreign = pl.col("overrides") + f" 'selector._target_=intruder.Part' '+policy.x={PART}'"
    trials.with_columns(foreign).write_parquet(path)
    return tmp_path / "copy"


@pytest.mark.parametrize("arguments", [["report", "copy"], ["compare", "copy", "second"], ["list", "."],
                                       ["study", "--power", "copy"], ["audit", "copy", "out=audit"]])  # fmt: skip
def test_verbs_that_build_nothing(poisoned_tables, study, here, arguments, capsys):
    shutil.copytree(study, "second")
    rewritten(here / "second", lambda content: content["study"]["track"].update(x=POPEN))
    assert command(*arguments) in (0, 2)
    assert "Traceback" not in capsys.readouterr().err
    assert not (here / STARTED).exists()


def test_results_in_python(poisoned_tables, here):
    best = StudyResult(str(poisoned_tables)).best
    with pytest.raises(BadInput, match="names a class that is not Pyrite's"):
        _ = best.config
    with pytest.raises(BadInput, match="names a class that is not Pyrite's"):
        pyrite.Trained(best.row["overrides"]).save(here / "again")
    assert not (here / STARTED).exists()


def test_pickles_instead_of_states_weights_agents_and_tables(study, trained, base, here, capsys):
    content = pickle.dumps(Bomb())
    shutil.copytree(study, "copy")
    for path in (here / "copy").rglob("*"):
        if path.is_file() and path.suffix not in (".yaml", ".json", ".jsonl"):
            path.write_bytes(content)
    for path in (here / "copy" / "runs").iterdir():
        path.write_bytes(content)
    for verb in ("report", "compare"):
        assert command(verb, "copy", *(["copy"] if verb == "compare" else [])) == 2
    assert command("study", "--resume", "copy") == 0  # what can't be read is done again
    shutil.copytree(trained, "trained")
    for path in (here / "trained" / "weights").glob("*.safetensors"):
        path.write_bytes(content)
    capsys.readouterr()
    assert command("rank", "trained", *base[:2]) == 2
    assert "are no weights of it" in capsys.readouterr().err
    (here / "agent").mkdir()
    (here / "agent" / "agent.safetensors").write_bytes(content)
    learned = ["policy=learned", "policy.checkpoint=agent", "function=[random,bm25]", "selector=uniform"]
    assert command("train", *base, *learned) == 2
    assert "agent.safetensors" in capsys.readouterr().err
    assert not (here / STARTED).exists()


@pytest.mark.parametrize(
    ("trust", "typed"),
    [("mine_too.Bottom", []), ("mine_too", []), (None, ["selector._target_=mine_too.Bottom"])],
    ids=["exact", "module", "typed again"],
)
def test_an_own_class_in_own_results(base, here, refusal, monkeypatch, trust, typed):
    source = "from pyrite.sampling.selection.uniform import Uniform\n\n\nclass Bottom(Uniform):\n    pass\n"
    (here / "mine_too.py").write_text(source)
    options = ["policy=fixed", "function=random", "selector=uniform", "selector._target_=mine_too.Bottom", "seeds=1"]
    assert command("study", *base, *options, "training.max_epochs=1", "local=true", "out=own") == 0
    shutil.rmtree(here / "own" / "runs")
    said = refusal("study", "--resume", "own")
    assert "mine_too.Bottom: the folder names a class that is not Pyrite's" in said
    assert "PYRITE_TRUST=mine_too.Bottom pyrite study --resume own" in said
    monkeypatch.setenv("PYRITE_TRUST", "mine")  # no prefix
    assert "mine_too.Bottom" in refusal("study", "--resume", "own")
    monkeypatch.delenv("PYRITE_TRUST")
    if trust:
        monkeypatch.setenv("PYRITE_TRUST", trust)
    assert command("study", "--resume", "own", *typed) == 0
    assert len(list((here / "own" / "runs").iterdir())) == 1


def test_a_file_of_overrides_is_a_script_whose_classes_are_named_first(here, capsys):
    (here / "study.yaml").write_text("- selector=uniform\n- selector._target_=intruder.Part\n")
    assert command("study", "study.yaml", "out=out") == 2
    said = capsys.readouterr().out
    assert "study.yaml names classes outside Pyrite, which it runs: intruder.Part" in said
