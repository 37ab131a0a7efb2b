"""Opens poisoned folders of results with every verb: nothing that they name may start, and one line says why."""

import json
import os
import pickle
import re
import shlex
import shutil
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml

import pyrite
from pyrite.cluster.commands.experiment import verb_named
from pyrite.cluster.commands.judge import _requested
from pyrite.cluster.commands.resuming import read
from pyrite.cluster.config.override import key_of, replaced, without
from pyrite.cluster.config.reserved import is_foreign
from pyrite.cluster.config.trust import from_folder
from pyrite.cluster.output.manifest import HEAD, write_config
from pyrite.cluster.output.storage import Storage
from pyrite.ranking.errors import BadInput
from pyrite.results import StudyResult
from tests.cluster.command_line import command
from tests.test_one_name import PACKAGES

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
    content.pop("started_in", None)
    change(content)
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
        lambda study, poison: study.update(added=[{"function": "bm25", "selector._target_": poison["_target_"]}]),
        lambda study, poison: study.update(added=[{"function": "bm25", "selector": poison}]),
        lambda study, poison: study["design"].update(overrides=[f"objective._target_={poison['_target_']}"]),
    ],
    ids=["tracker", "tracker-inner", "scheduler", "stopper", "callback", "policy", "selector", "optimizer", "training",
         "guard", "added", "added-part", "design"],
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
    said = refusal("study", "--resume", "copy")
    assert "a cluster whose owner could run any code" in said
    assert said.endswith(f"type it too: pyrite study --resume copy address={address}")


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


TOUCH = f"touch {STARTED} {{out}}"
SERVER = "http://127.0.0.1:9"
TRAINER, CACHE, ADDRESS = f"trainer.run='{TOUCH}'", "cache=elsewhere", "address=192.0.2.1:6379"
TRACK = ["track=[mlflow]", f"track.mlflow.uri={SERVER}"]
SECRET = f"{SERVER}/${{oc.env:LAB_SECRET}}"
PLACED = {
    "study": [[TRAINER], [CACHE], [f"collection.path='{SECRET}'"]],
    "train": [[TRAINER], [CACHE], [f"collection.path='{SECRET}'"], TRACK, ["push=a/b"]],
    "learn": [[TRAINER], [CACHE], [f"collection.path='{SECRET}'"], TRACK, [ADDRESS]],
    "mine": [[CACHE], [f"collection.path='{SECRET}'"], [ADDRESS]],
    "pool": [[CACHE], [f"runs='{SECRET}'"], TRACK, [ADDRESS]],
}
"""Overrides of each verb that only the user may give, one foreign value in each."""
OF_OPTIONS = [
    {"address": "192.0.2.1:6379"},
    {"search_storage": "sqlite:////tmp/any.db"},
    {"search_storage": "postgresql://evil.example/db"},
    {"track": {"mlflow": {"_target_": "pyrite.cluster.telemetry.tracking.mlflow.MLflow", "uri": SERVER}}},
    {"track": {"wandb": {"_target_": "pyrite.cluster.telemetry.tracking.wandb.WandB", "entity": "stranger"}}},
]
"""The same, of options that a study's folder holds composed."""


@pytest.fixture
def overrides_of(base, of_small_pool, monkeypatch) -> dict[str, list[str]]:
    """Overrides of a command of each verb."""
    monkeypatch.setenv("LAB_SECRET", "the-labs-password")
    run = [*base, "policy=fixed", "function=random", "selector=uniform"]
    texts = [text for text in base if text.startswith(("collection", "vectors", "encoding"))]
    return {
        "study": run,
        "train": run,
        "learn": [*base, "function=[random,bm25]", "copies=2", "workers=0", "episodes=2", "dashboard=false"],
        "mine": [*texts, "function=random", "count=1"],
        "pool": [*of_small_pool, "method=[rank]", "seeds=1", "local=true"],
    }


def planned(verb: str, typed: list[str], folder: str | None) -> None:
    """Plan what a folder holds, as far as its options are checked."""
    experiment = read(verb_named(verb), typed, folder)
    with experiment.joined, from_folder(experiment.resumed):
        if verb == "study":
            experiment.plan.runs()


def written(verb: str, overrides: list[str], study: Path, here: Path) -> None:
    """Write the folder `copy` of a verb, which was planned from some overrides."""
    if verb == "study":
        shutil.copytree(study, here / "copy")
        rewritten(here / "copy", lambda content: content.update(typed=[], overrides=overrides))
    else:
        write_config(Storage("copy"), {"verb": verb, "overrides": overrides})


@pytest.mark.parametrize(("verb", "foreign"), [(verb, each) for verb in PLACED for each in PLACED[verb]])
def test_what_a_folder_may_not_decide(verb, foreign, overrides_of, study, here, monkeypatch):
    """A folder's value is refused, the remedy follows, and the same command as at first gives its values again."""
    overrides = replaced(overrides_of[verb], foreign)
    written(verb, overrides, study, here)
    automatic = [*overrides, "seeds=1", "local=true"] if verb == "study" else overrides
    for typed, folder in (([], "copy"), (["out=copy", "resume=auto"], None)):
        with pytest.raises(BadInput) as refusal:
            planned(verb, typed, folder)
        assert not (here / STARTED).exists()
    with pytest.raises(BadInput) as refusal:
        planned(verb, [], "copy")
    words = shlex.split(str(refusal.value.remedy).partition(": ")[2])
    if words[0].startswith("PYRITE_TRUST="):
        assert words.pop(0) == "PYRITE_TRUST=LAB_SECRET"
        monkeypatch.setenv("PYRITE_TRUST", "LAB_SECRET")
    assert words[:4] == ["pyrite", verb, "--resume", "copy"]
    planned(verb, words[4:], "copy")
    monkeypatch.delenv("PYRITE_TRUST", raising=False)
    planned(verb, [*automatic, "out=copy", "resume=auto"], None)


@pytest.mark.parametrize("verb", PLACED)
def test_a_folder_without_anything_foreign_needs_no_remedy(verb, overrides_of, study, here):
    written(verb, overrides_of[verb], study, here)
    planned(verb, [], "copy")


@pytest.mark.parametrize("option", OF_OPTIONS, ids=lambda option: str(option)[:40])
def test_options_that_a_studys_folder_may_not_decide(option, study, here, refusal):
    shutil.copytree(study, "copy")
    rewritten(here / "copy", lambda content: content["study"].update(option))
    words = shlex.split(refusal("study", "--resume", "copy").partition("type it too: ")[2])
    planned("study", words[4:], "copy")
    with pytest.raises(BadInput, match="only the folder names it"):
        StudyResult.restore("copy")


@pytest.mark.parametrize(
    "method",
    [
        {"function": "bm25", "trainer.run": f"'{TOUCH}'"},
        {"function": "bm25", "trainer": f"'{TOUCH}'"},
        {"function": "bm25", "+trainer.run": f"'{TOUCH}'"},
        {"label": "a", "overrides": ["function=bm25", f"trainer='{TOUCH}'"]},
        ["function=bm25", f"trainer='python a.py {{out}}','{TOUCH}'"],
        {"function": "[random,bm25]", "policy": "learned", "policy.learn": f"[\"trainer.run='{TOUCH}'\"]"},
    ],
    ids=["key", "short", "added", "labelled", "swept", "agent"],
)
@pytest.mark.parametrize("where", ["design", "study", "added"])
def test_code_in_the_methods_of_a_folder(where, method, study, here, refusal):
    shutil.copytree(study, "copy")
    shutil.rmtree(here / "copy" / "runs")

    def change(content: dict[str, Any]) -> None:
        if where == "added":
            content["added"] = [method]
        else:
            content[where].update(methods=[method])
        content["overrides"] = without(content["overrides"], {"policy", "function", "selector"})

    rewritten(here / "copy", change)
    assert "trains with code" in refusal("study", "--resume", "copy")
    assert not (here / STARTED).exists()


def test_trainers_that_a_search_of_a_folder_would_propose(study, here, refusal):
    shutil.copytree(study, "copy")
    shutil.rmtree(here / "copy" / "runs")
    lines = ["function=random", "optimizer.lr=interval(0.1,0.2)", f"trainer='python a.py {{out}}','{TOUCH}'"]

    def change(content: dict[str, Any]) -> None:
        content["study"].update(search="optuna", samples=2)
        content["overrides"] = [*without(content["overrides"], {"function", "optimizer.lr"}), *lines]

    rewritten(here / "copy", change)
    assert "trains with code" in refusal("study", "--resume", "copy", "trainer='python a.py {out}'")
    assert not (here / STARTED).exists()


@pytest.mark.parametrize("hidden", ["${oc.env:${x}}", "${oc.decode:${x}}", "${oc.${x}:LAB_SECRET}", "${oc.select:x}"])
def test_interpolations_that_hide_what_they_read(hidden, base, refusal):
    write_config(Storage("copy"), {"verb": "mine", "overrides": [*base[:2], f"encoding='{hidden}'"]})
    assert refusal("mine", "--resume", "copy")


@pytest.mark.parametrize("foreign", [TRAINER, "push=a/b", " ".join(TRACK), f"collection.path='{SECRET}'"])
def test_a_table_that_a_ranker_is_trained_again_from(foreign, study, here, base, monkeypatch):
    monkeypatch.setenv("LAB_SECRET", "the-labs-password")
    row = StudyResult(str(study)).best.row["overrides"]
    key = key_of(foreign.split()[0])
    kept = shlex.join(text for text in shlex.split(row) if key_of(text) != key)
    with pytest.raises(BadInput, match=r"folder (names|sends)") as refusal:
        pyrite.Trained(f"{kept} {shlex.join([foreign]) if foreign == TRAINER else foreign}").save(here / "again")
    assert "pyrite train " in str(refusal.value)
    assert not (here / STARTED).exists()
    assert not (here / "again").exists()


PROGRAM = "import sys, pyrite; pyrite.study(resume=sys.argv[1])"


@pytest.mark.nightly
@pytest.mark.parametrize(
    "started_in",
    [
        "{here}/beside",
        pytest.param("received", marks=pytest.mark.nightly),  # `test_signals` asserts that the others are not entered
        pytest.param("{here}/received", marks=pytest.mark.nightly),
        pytest.param("{here}/received/in", marks=pytest.mark.nightly),
    ],
)
@pytest.mark.parametrize("local", [True, pytest.param(False, marks=pytest.mark.nightly)], ids=["here", "ray"])
def test_modules_in_the_folder_in_which_a_folder_says_it_began(started_in, local, study, here):
    """Nothing is imported from there, in this process, which has its working folder on the path, or one of Ray."""
    shutil.copytree(study, "received")
    shutil.rmtree("received/runs")
    for name in ("received", "received/in", "beside"):
        (here / name).mkdir(exist_ok=True)
        for module in ("torch", "scipy", "psutil", "optuna", "matplotlib"):
            (here / name / f"{module}.py").write_text(f"open({str(here / STARTED)!r}, 'w').close()\n")
    for package in PACKAGES:  # files of the user's in the working folder do no harm
        (here / f"{package}.py").write_text("raise SystemExit('imported')")

    def change(content: dict[str, Any]) -> None:
        content["study"]["local"] = local
        content["started_in"] = started_in.format(here=here)

    rewritten(here / "received", change)
    program = [sys.executable, "-c", PROGRAM, "received"]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    ended = subprocess.run(program, capture_output=True, text=True, env=environment, check=False)
    assert ended.returncode == 0, ended.stderr
    assert not (here / STARTED).exists()


def test_the_collection_that_an_audited_folder_names(study, here, refused):
    shutil.copytree(study, "copy")
    shown = {"run": pl.read_parquet("copy/trials.parquet")["run"][:1], "query": ["q0"], "document": ["d0"],
             "function": ["bm25"], "times": [1], "margin": [0.5], "score": [1.0]}  # fmt: skip
    pl.DataFrame(shown).write_parquet("copy/shown.parquet")
    trials = pl.read_parquet("copy/trials.parquet")
    poisoned = pl.col("overrides") + " collection._target_=intruder.Part"
    trials.with_columns(poisoned).write_parquet("copy/trials.parquet")
    refused("audit", "copy", "out=audited")


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


def test_a_judged_folder_does_not_open_its_page(tmp_path):
    """Who reaches the page is typed at each start."""
    (tmp_path / "judged").mkdir()
    opened = ["host=0.0.0.0", "port=18777", "url=https://evil.example", "hosts=[evil.example]", "open_browser=true"]
    options = ["runs=runs", "collection=beir", "collection.path=c", "method=docid", *opened]
    (tmp_path / "judged" / "overrides.json").write_text(json.dumps({"overrides": options}))
    _, merged, config, _ = _requested(["out=judged"], None)
    assert config["host"] == "127.0.0.1"
    assert not {"host", "port", "url", "hosts", "open_browser"} & set(map(key_of, merged))
    assert _requested(["out=judged", "host=0.0.0.0"], None)[2]["host"] == "0.0.0.0"


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
