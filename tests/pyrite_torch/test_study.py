"""`pyrite study trainer=…`: seeds, tests and costs of a training function or command of the user's."""

import io
import os
import re
import signal
import subprocess
import sys
import time
import traceback
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest

import pyrite
from pyrite import Random, Study
from pyrite.cluster.config.trainer_option import files_of_trainer
from pyrite.cluster.executors.process_end import INTERRUPTED
from pyrite.cluster.output.event_log import EventLog
from pyrite.cluster.output.manifest import resume_command
from pyrite.cluster.output.storage import Storage
from pyrite.cluster.runs.outcome import read_outcome
from pyrite.ranking.errors import BadInput
from pyrite.ranking.evaluation.origins import Bm25Candidates, Candidates, FullCollection
from pyrite.ranking.ranked_lists import RankedLists
from pyrite.torch import train_process
from pyrite.torch.left_rankers import left_by
from tests.cluster.waiting import until
from tests.pyrite_torch.ends import ends
from tests.pyrite_torch.tiny_trainer import open_model

TRAIN = '''
"""Trains nothing, quickly."""
import os
import shutil
import torch


def untouched(data, seed, folder):
    shutil.copytree(data.checkpoint, folder, dirs_exist_ok=True)


def train(data, seed, folder, lr=0.1, *, fail=-1):
    if seed == fail:
        raise ValueError("no such batch")
    from safetensors.torch import load_file, save_file

    shutil.copytree(data.checkpoint, folder, dirs_exist_ok=True)
    weights = load_file(f"{folder}/model.safetensors")
    method = sum(len(row) for row in data.negatives.columns)
    noise = torch.Generator().manual_seed(seed + 100 * method)
    changed = {name: each + lr * torch.randn(each.shape, generator=noise) if each.is_floating_point() else each
               for name, each in weights.items()}
    save_file(changed, f"{folder}/model.safetensors", {"format": "pt"})
    assert len(data.dataset) and data.scratch.is_dir()
    data.steps, data.examples = 7, 70


class Encoder:
    def __init__(self, seed):
        self.seed = seed

    def encode(self, texts):
        return torch.stack([torch.randn(4, generator=torch.Generator().manual_seed(len(text) + self.seed))
                            for text in texts])


def returned(data, seed, folder):
    return Encoder(seed)


class Overlap:
    """Scores by the words that two texts share, each with a weight: in every form the same whole numbers."""

    def __init__(self, collection, kind):
        texts = [*collection.documents["text"], *collection.queries["text"]]
        words = sorted({word for text in texts for word in text.split()})
        self.words = {word: place for place, word in enumerate(words)}
        setattr(self, kind, getattr(self, f"_{kind}"))

    def _encode(self, texts):
        vectors = torch.zeros(len(texts), len(self.words))
        for row, text in enumerate(texts):
            for word in {*text.split()} & self.words.keys():
                vectors[row, self.words[word]] = 1 + self.words[word] % 3
        return vectors

    def _score(self, queries, documents):
        rows = zip(queries, documents)
        return torch.cat([self._encode([query]) @ self._encode(texts).T for query, texts in rows])

    def _predict(self, pairs):
        return [float(self._score([query], [[text]])) for query, text in pairs]


def ranks(data, seed, folder, kind="encode"):
    if kind != "run":
        return Overlap(data.collection, kind)
    model = Overlap(data.collection, "score")
    queries, documents = data.collection.queries, data.collection.documents
    with open(f"{folder}/mine.run", "w") as file:
        for name, text in zip(queries["id"], queries["text"]):
            for place, score in enumerate(model.score([text], [list(documents["text"])])[0].tolist()):
                file.write(f"{name} Q0 {documents['id'][place]} {place} {score} mine\\n")


def needs(data, seed, folder, /, lr=1, *, rate, other=None):
    pass


def short(data, seed):
    pass


def loop(data, seed, folder):
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(data.checkpoint, device="cpu")
    for batch in data.negatives.use(model=model):
        assert all(text for row in batch.documents for text in row)
        with torch.no_grad():
            for weight in model.parameters():
                weight.add_(0.1 * torch.randn_like(weight))
    data.negatives.close()
    return model


def nothing(data, seed, folder):
    os._exit(3)
'''
COMMAND = """
import json, shutil, sys
data, out, seed, start = sys.argv[1:]
rows = [json.loads(line) for line in open(data)]
assert set(rows[0]) == {"query_id", "query", "positive_passages", "negative_passages"}, rows[0]
from safetensors.torch import load_file, save_file
import torch
shutil.copytree(start, out, dirs_exist_ok=True)
torch.manual_seed(int(seed) + len(rows[0]["negative_passages"]))
weights = {name: each + 0.1 * torch.randn(each.shape) if each.is_floating_point() else each
           for name, each in load_file(out + "/model.safetensors").items()}
save_file(weights, out + "/model.safetensors", {"format": "pt"})
"""


@pytest.fixture(scope="module")
def start(bert, tmp_path_factory) -> str:
    folder = tmp_path_factory.mktemp("start") / "model"
    open_model(bert).save_pretrained(str(folder))
    return str(folder)


@pytest.fixture
def place(tmp_path, monkeypatch, own_cache) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(TRAIN)
    Path("command.py").write_text(COMMAND)
    Path("broken.py").write_text("def train(data, seed, folder:")
    return tmp_path


class TrainedHere:
    """Stands for the process of a training, and does its work in this one: imports take seconds of each."""

    PIPE, returncode, pid = -1, 0, -1

    def Popen(self, command: list[str], **options: Any) -> "TrainedHere":
        assert command[1:3] == ["-m", train_process.__name__]
        self.printed = options["stdout"]
        return self

    def communicate(self, request: bytes) -> None:
        self.returncode = 0
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(request)))
            patch.setattr(sys, "path", [*sys.path])
            try:
                train_process.main()
            except Exception:
                self.returncode = 1
                self.printed.write(traceback.format_exc().encode())
                self.printed.flush()

    def wait(self, seconds: float) -> None:
        """It has ended."""


def stand_in(monkeypatch, training: TrainedHere) -> None:
    """Have a stand-in train in place of a process, of which nothing is left to be ended."""
    monkeypatch.setattr("pyrite.cluster.training.trainer_runs.subprocess", training)
    monkeypatch.setattr("pyrite.cluster.training.trainer_runs.end_group", lambda group, wait: None)


@pytest.fixture
def here(monkeypatch) -> None:
    """Has trainings run in this process."""
    stand_in(monkeypatch, TrainedHere())


ALONE = ["policy=fixed", "selector=uniform"]
"""One method per function."""


def overrides(base: list[str], start: str, *more: str) -> list[str]:
    texts = [text for text in base if not text.startswith(("ranker.", "optimizer.", "training.max"))]
    return [*texts, "ranker=bi_encoder", f"ranker.checkpoint={start}", "origin=bm25", "local=true", *ALONE, *more]


def study(base, start, *more):
    return pyrite.StudyResult(*pyrite.running.run("study", overrides(base, start, *more), None, None))


HERE = ("out=out", "concurrent=1")


@pytest.mark.nightly
def test_a_function_is_compared_in_processes(base, start, place, caplog):
    test_a_function_is_compared_over_seeds_and_methods(base, start, place, None, caplog)


def test_a_function_is_compared_over_seeds_and_methods(base, start, place, here, caplog):
    options = ["trainer=train.py:train", "function=random,bm25", "seeds=2", "trainer.lr=0.2", *HERE]
    result = study(base, start, *options)
    trials = result.trials
    assert trials.select("function", "seed").n_unique() == len(trials) == 4
    assert set(trials["ranker"]) == {"train.py:train"}
    assert set(trials["steps"]) == set(trials["scored_step"]) == {7}
    assert set(trials["examples"]) == {70}
    assert set(trials["documents_read"]) == {None}  # it did not serve them
    assert "4 of 4 runs read nothing of data.negatives" in caplog.text
    assert trials["scratch"].min() > 0
    assert result.failed == 0
    budget = result.costs.select("steps", "scored_step", "examples", "refreshes").drop_nulls("steps")
    assert set(budget.rows()) == {(7.0, 7.0, 70.0, None)}
    page = Path("out/report.html").read_text()
    assert "was trained twice with its seed: AP@10 differs by .0000" in page
    assert "to the last bit" not in page
    assert [name for name in Storage("out").names("runs") if "-again" in name]


def test_a_sweep_may_leave_no_negatives_but_those_of_the_batch(base, start, place, here):
    options = ["trainer=train.py:train", "function=[in_batch,bm25]", "negatives.bm25=0,1", "seeds=1", *HERE]
    result = study(base, start, *options)
    assert result.failed == 0
    assert len(result.trials) == 2


def test_a_loop_over_moving_negatives_is_measured_with_its_budget(base, start, place, here, caplog):
    options = ["trainer=train.py:loop", "function=dense", "function.dense.refresh.mode=sync"]
    options += ["function.dense.refresh.every=2", "sampling.negatives=1", "training.batch_size=8", "seeds=1", *HERE]
    result = study(base, start, *options)
    assert result.failed == 0
    (row,) = result.trials.to_dicts()
    assert row["steps"] == row["scored_step"] == -(-row["examples"] // 8) > 2
    assert row["refreshes"] == (row["steps"] - 1) // 2
    assert row["examples"] < row["documents_read"] <= 2 * row["examples"]
    assert "read nothing" not in caplog.text


def test_one_seed_is_not_repeated(base, start, place, here):
    study(base, start, "trainer=train.py:train", "function=random", "seeds=1", *HERE)
    assert len(Storage("out").names("runs")) == 1


@pytest.mark.nightly
def test_the_seed_must_act_in_processes(base, start, place):
    test_the_seed_must_act(base, start, place, None)


def test_the_seed_must_act(base, start, place, here):
    options = ["trainer=train.py:untouched", "function=bm25", "seeds=2", *HERE]
    with pytest.raises(BadInput, match="seeds 0 and 1 left equal weights"):
        study(base, start, *options)
    with pytest.raises(BadInput, match="seeds 0 and 1 left equal weights"):  # both are finished
        pyrite.running.run("study", ["trainer=train.py:untouched"], "out", None)


def test_the_seed_must_act_on_scores(base, start, place, here):
    """An object without weights is known by what it scores."""
    options = ["trainer=train.py:ranks", "trainer.kind=score", "function=bm25", "seeds=2", *HERE]
    with pytest.raises(BadInput, match="seeds 0 and 1 left equal weights"):
        study(base, start, *options)


@pytest.mark.parametrize("side", ["query", "document"])
def test_a_ranker_is_known_by_the_vectors_of_both_sides(tiny_sources, tmp_path, side):
    """One of them may be frozen, or need no inference."""

    def digest(seed: int) -> str:
        def vectors(kind: str, texts: list[str]) -> np.ndarray:
            counts = np.array([[text.count(letter) for letter in "abcde"] for text in texts], np.float32)
            return counts * (1 + seed if kind == side else 1)

        encode = {f"encode_{kind}": partial(vectors, kind) for kind in ("query", "document")}
        left = left_by(Towers(**encode), tmp_path, tiny_sources.collection, tiny_sources.encoded)
        left.measure(FullCollection().of(tiny_sources, np.arange(4)), ["RR@10"])
        return left.digest()

    assert digest(0) == digest(0)
    assert digest(0) != digest(1)


def test_an_encode_with_an_argument_for_the_kind_of_texts_gets_it(tiny_sources, tmp_path):
    seen = set()

    def encode(texts: list[str], kind: str) -> np.ndarray:
        seen.add(kind)
        return np.ones((len(texts), 2), np.float32)

    left = left_by(SimpleNamespace(encode=encode), tmp_path, tiny_sources.collection, tiny_sources.encoded)
    left.measure(FullCollection().of(tiny_sources, np.arange(4)), ["RR@10"])
    assert seen == {"query", "document"}


def test_an_object_with_several_scores_per_document_is_refused(tiny_sources, tmp_path):
    """A cross-encoder of two classes."""
    classes = SimpleNamespace(predict=lambda pairs: np.zeros((len(pairs), 2)))
    left = left_by(classes, tmp_path, tiny_sources.collection, tiny_sources.encoded)
    candidates = Bm25Candidates(depth=3).of(tiny_sources, np.arange(4))
    with pytest.raises(BadInput, match=r"trainer: returned \d+ scores for \d+ documents; return an object with one"):
        left.measure(candidates, ["RR@10"])


@pytest.mark.parametrize("categories", [None, np.array([0, 1, -1, 0], np.int32)])
@pytest.mark.parametrize("depth", [2, None])
def test_a_run_and_an_object_with_scores_are_measured_as_vectors(tiny_sources, tmp_path, depth, categories):
    """Over the documents of a query's category, up to the depth of the ranking."""
    documents = tiny_sources.collection.documents.with_columns(text="id")  # each text once
    collection, size = tiny_sources.collection.changed(documents=documents), len(documents)
    labels = np.arange(size, dtype=np.int32)[:, None] % 2
    encoded = replace(tiny_sources.encoded, documents=replace(tiny_sources.encoded.documents, labels=labels))
    queries = np.arange(4)
    scores = np.random.default_rng(0).permutation(4 * size).reshape(4, size).astype(np.float32)
    rows = dict(zip(collection.queries["text"], scores, strict=False))
    places = {text: place for place, text in enumerate(collection.documents["text"])}
    vectors = Towers(
        encode_query=lambda texts: np.stack([rows.get(text, scores[0]) for text in texts]),
        encode_document=lambda texts: np.eye(size, dtype=np.float32)[[places[text] for text in texts]],
    )
    lines = [
        f"{collection.queries['id'][query]} Q0 {collection.documents['id'][place]} 0 {scores[query, place]} mine"
        for query in range(4)
        for place in range(size)
    ]
    (tmp_path / "mine.run").write_text("\n".join(lines) + "\n")
    candidates = Candidates(queries, None, RankedLists.empty(4, 1), depth, categories)
    measures = ["RR", "AP", "R@5", "nDCG@10"]
    object_with_score = SimpleNamespace(
        score=lambda texts, lists: [[rows[texts[0]][places[document]] for document in lists[0]]]
    )
    expected, *others = (
        left_by(result, tmp_path, collection, encoded).measure(candidates, measures)
        for result in (vectors, object_with_score, None)
    )
    for measure in measures:
        for measured in others:
            np.testing.assert_allclose(measured[measure], expected[measure], err_msg=measure)


def test_queries_that_a_run_lacks_are_counted(tiny_sources, tmp_path, caplog):
    queries, documents = (tiny_sources.collection.queries["id"], tiny_sources.collection.documents["id"])
    (tmp_path / "mine.run").write_text(f"{queries[0]} Q0 {documents[0]} 1 2 mine\n")
    left = left_by(None, tmp_path, tiny_sources.collection, tiny_sources.encoded)
    left.measure(Candidates(np.arange(1), None, RankedLists.empty(1, 1), 10), ["RR"])
    assert "not in the run" not in caplog.text
    left.measure(Candidates(np.arange(3), None, RankedLists.empty(3, 1), 10), ["RR"])
    assert f"mine.run: measured queries that are not in the run: 2 (such as {queries[1]!r}); none" in caplog.text


class Towers(SimpleNamespace):
    """A model with two sides."""

    def encode(self, texts):
        raise NotImplementedError


def test_an_untouched_checkpoint_equals_the_untrained_row(base, start, place, here):
    result = study(base, start, "trainer=train.py:untouched", "function=bm25", "seeds=1", *HERE)
    (name,) = set(result.trials["run"])
    outcome = read_outcome(Storage("out"), name)
    assert outcome.untrained["bm25"].keys() == outcome.values["bm25"].keys()
    for measure, values in outcome.values["bm25"].items():
        assert values.tobytes() == outcome.untrained["bm25"][measure].tobytes()


@pytest.mark.nightly
def test_a_run_that_raises_is_lost_alone(base, start, place, caplog):
    result = study(base, start, "trainer=train.py:train", "trainer.fail=1", "function=bm25", "seeds=3", "out=out")
    assert result.failed == 1
    assert set(result.trials.filter(pl.col("error").is_null())["seed"]) == {0, 2}
    (line,) = [line for line in caplog.text.splitlines() if "no such batch" in line]
    assert line.endswith("ValueError: no such batch; the traceback is in log.jsonl")
    assert "Traceback" not in caplog.text
    (failure,) = [event for event in EventLog.read(Storage("out")) if event["event"] == "run failed"]
    assert 'raise ValueError("no such batch")' in failure["traceback"]


@pytest.mark.nightly
def test_a_function_that_exits_leaves_nothing(base, start, place):
    result = pyrite.running.run(
        "study", overrides(base, start, "trainer=train.py:nothing", "function=bm25", "seeds=1", "out=out"), None, None
    )
    assert result[1] == 1


HANGS = """
import os, time


def train(data, seed, folder):
    with open("pid.part", "w") as file:
        file.write(str(os.getpid()))
    os.rename("pid.part", "pid")
    time.sleep(600)
"""


class TrainedUntilKilled(TrainedHere):
    status = -signal.SIGTERM

    def communicate(self, request: bytes) -> None:
        """A signal ends it each time."""
        self.started += 1
        self.returncode = self.status

    started = 0


@pytest.mark.parametrize("status", [-signal.SIGTERM, INTERRUPTED])
def test_a_training_that_a_signal_ends_runs_again(base, start, place, monkeypatch, status):
    killed = TrainedUntilKilled()
    killed.status = status
    stand_in(monkeypatch, killed)
    result = study(base, start, "trainer=train.py:train", "function=bm25", "seeds=1", "retries=2", *HERE)
    assert (result.failed, killed.started) == (1, 3)
    assert f"ended with status {status}" in result.trials["error"][0]


CALLS = """#!/bin/bash
sleep 600 &
echo $$ $! > pid.part
mv pid.part pid
wait
"""
ALONE_OR_GROUP = {"group": os.killpg, "alone": os.kill}


@pytest.mark.nightly
@pytest.mark.parametrize("options", [HERE, ("out=out", "concurrent=2")])
@pytest.mark.parametrize("trainer", ["'bash command.sh {data} {out}'", "train.py:train"])
@pytest.mark.parametrize(
    ("end", "to"),
    [(signal.SIGTERM, "alone"), (signal.SIGKILL, "alone"), (signal.SIGTERM, "group"), (signal.SIGINT, "group")],
)
def test_a_training_ends_with_its_study(base, start, place, end, to, trainer, options):
    """When the study is killed, and when it is stopped; then nothing is printed but that it stopped."""
    Path("train.py").write_text(HANGS)
    Path("command.sh").write_text(CALLS)
    Path("temporary").mkdir()
    studied = overrides(base, start, f"trainer={trainer}", "function=bm25", "seeds=1", *options)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    environment["TMPDIR"] = str(Path("temporary").absolute())
    command = [sys.executable, "-m", "pyrite", "study", *studied]
    heard = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # also if this test runs in the background
    with Path("printed").open("w") as file:
        studying = subprocess.Popen(command, env=environment, start_new_session=True, stderr=file, preexec_fn=heard)
    while not Path("pid").exists():
        assert studying.poll() is None
        time.sleep(0.1)
    processes = list(map(int, Path("pid").read_text().split()))
    Path("pid").unlink()  # a training that starts again leaves another one
    ALONE_OR_GROUP[to](studying.pid, end)
    try:
        assert studying.wait(60) == (-end if end == signal.SIGKILL else 128 + end)
    finally:
        studying.kill()  # then its training ends too
    assert all(map(ends, processes))
    assert not Path("pid").exists()
    until(lambda: not list(Path("temporary").glob("pyrite-run-*")))
    assert "Traceback" not in Path("printed").read_text()
    assert "run lost" not in {event["event"] for event in EventLog.read(Storage("out"))}


def test_an_object_that_encodes_is_measured(base, start, place, here):
    result = study(base, start, "trainer=train.py:returned", "function=bm25", "seeds=2", *HERE)
    assert len(result.trials) >= 2


def test_what_ranks_is_measured_in_every_form(base, start, place, here):
    """Vectors, pairs, lists and a run with the same scores have the same values."""
    options = ["trainer=train.py:ranks", "trainer.kind=encode,predict,score,run", "function=bm25", "seeds=1", *HERE]
    result = study(base, start, *options)
    assert result.failed == 0
    unknown = result.trials.select("steps", "documents_read", "examples", "scored_step", "refreshes")
    assert unknown.null_count().row(0) == (len(result.trials),) * 5  # nothing of data.negatives was read
    outcomes = [read_outcome(Storage("out"), name) for name in sorted(set(result.trials["run"]))]
    assert len(outcomes) == 4
    first = outcomes[0].values["bm25"]
    assert first["AP@10"].mean() > 0.5
    for outcome in outcomes[1:]:
        for measure, values in outcome.values["bm25"].items():
            assert values.tobytes() == first[measure].tobytes()


def test_a_function_that_calls_exit_is_lost_with_its_traceback(base, start, place, here):
    Path("train.py").write_text("import sys\n\ndef train(data, seed, folder):\n    sys.exit(0)\n")
    result = study(base, start, "trainer=train.py:train", "function=bm25", "seeds=1", *HERE)
    assert result.failed == 1
    assert "it called sys.exit(0), and is not measured; return instead" in result.trials["error"][0]


def test_a_file_that_starts_a_study_when_it_is_imported_is_refused_until_it_is_guarded(base, start, place, here):
    """Each run imports it, and would start a study that starts studies."""
    starts = "pyrite.running.run('study', ['out=inner', 'seeds=1'], None, None)"
    options = ["trainer=train.py:train", "function=bm25", "seeds=1", *HERE]
    Path("train.py").write_text(f"{TRAIN}\nimport pyrite\n\n{starts}\n")
    result = study(base, start, *options)
    assert (result.failed, Path("inner").exists()) == (1, False)
    message = 'train.py: starts `pyrite study` when it is imported, .* put that under `if __name__ == "__main__":`'
    assert re.search(message, result.trials["error"][0])
    Path("train.py").write_text(f'{TRAIN}\nimport pyrite\n\nif __name__ == "__main__":\n    {starts}\n')
    assert study(base, start, *options[:-2], "out=guarded", "concurrent=1").failed == 0


def test_no_run_is_repeated_if_the_run_that_it_repeats_failed(base, start, place, monkeypatch, caplog):
    started: list[str] = []

    class Failing(TrainedHere):
        def Popen(self, command: list[str], **options: Any) -> TrainedHere:
            options["stdout"].write(b"Traceback (most recent call last):\n  ...\nValueError: no such batch\n")
            return self

        def communicate(self, request: bytes) -> None:
            started.append("once")
            self.returncode = 1

    stand_in(monkeypatch, Failing())
    result = study(base, start, "trainer=train.py:train", "function=bm25", "seeds=2", *HERE)
    assert result.failed == len(started) == 2
    printed = [record.getMessage() for record in caplog.records if "no such batch" in record.getMessage()]
    assert len(printed) == 2
    assert all(line.endswith("ValueError: no such batch; the traceback is in log.jsonl") for line in printed)
    failures = [event for event in EventLog.read(Storage("out")) if event["event"] == "run failed"]
    assert all("Traceback (most recent call last)" in event["traceback"] for event in failures)


@pytest.mark.nightly
def test_a_function_that_raises_is_not_run_again(base, start, place):
    Path("train.py").write_text(
        "import os\n\ndef train(data, seed, folder):\n"
        "    open('times', 'a').write('once in {WANDB_RUN_GROUP} as {WANDB_NAME}'.format(**os.environ))\n"
        "    raise ValueError('no such batch')\n"
    )
    studied = overrides(base, start, "trainer=train.py:train", "function=bm25", "seeds=1", "out=out", "retries=3")
    _, failed = pyrite.running.run("study", studied, None, None)[:2]
    assert failed == 1
    assert re.fullmatch(r"once in out as train\.py_train-fixed-bm25-uniform-s0-\w+", Path("times").read_text())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["trainer=train.py:train", "trainer.lrr=1"],
            "folder, lr, fail.: got an unexpected keyword argument .lrr.",
        ),
        (["trainer=train.py:train", "trainer.seed=1"], "multiple values for argument 'seed'"),
        (["trainer=train.py:needs"], "missing a required .*argument: 'rate'"),
        (["trainer=train.py:short"], "too many positional arguments"),
        (["trainer=broken.py:train"], "is no Python that can be read"),
        (["trainer=train.py:missing"], "defines no function missing"),
        (["trainer=absent.py:train"], "there is no such file"),
        (["trainer='python command.py {data} {out} {seed}'", "trainer.lr=1"], r"the command has no \{lr\}"),
        (["trainer='python command.py {data}'"], "names no folder to leave weights in"),
        (["trainer='python command.py {data} {out}'", "function=dense"], "negatives that stand still"),
        (
            ["trainer='python command.py {data} {out}'", "function=[random,bm25]", "policy=schedule"],
            "policy: a command gets negatives that stand still, and a schedule would stay at its start",
        ),
        (["trainer='python command.py {data} {out} {lr}'"], r"\{lr\} is no field of a command"),
        (["trainer='python command.py {data} {out} {'"], "can't be read"),
        (
            ["trainer=train.py:train", "training.max_epochs=4"],
            "a trainer does not read it; give the function an argument, as trainer.epochs=3",
        ),
    ],
)
def test_options_are_checked_before_the_first_run(base, start, place, options, message):
    with pytest.raises(BadInput, match=message):
        study(base, start, "function=bm25", *options, "seeds=1", "out=out")
    assert not (place / "out" / "config.yaml").exists()


@pytest.mark.nightly
def test_a_command_reads_a_file(base, start, place):
    run = "trainer='python command.py {data} {out} {seed} {checkpoint}'"
    result = study(base, start, run, "trainer.format=tevatron", "function=bm25", "seeds=2", "out=out")
    assert result.failed == 0
    assert set(result.trials["seed"]) == {0, 1}


@pytest.mark.nightly
def test_a_resumed_study_needs_its_trainer_typed_again(base, start, place, capsys):
    options = ["trainer=train.py:train", "function=bm25", "seeds=2", "out=out"]
    study(base, start, *options)
    finished = {file.name: file.read_bytes() for file in Path("out/runs").iterdir()}
    with pytest.raises(BadInput, match=r"pyrite study --resume out trainer=train\.py:train"):
        pyrite.running.run("study", [], "out", None)
    with pytest.raises(BadInput, match=r"trainer=other\.py:train"):
        pyrite.running.run("study", ["trainer=other.py:train"], "out", None)
    pyrite.running.run("study", ["trainer=train.py:train"], "out", None)
    assert {file.name: file.read_bytes() for file in Path("out/runs").iterdir()} == finished
    Path("train.py").write_text(TRAIN + "\n# changed\n")
    pyrite.running.run("study", ["trainer=train.py:train"], "out", None)
    assert {file.name: file.read_bytes() for file in Path("out/runs").iterdir()} != finished


def test_a_study_takes_the_function_itself(base, start, place):
    import importlib.util

    spec = importlib.util.spec_from_file_location("train", place / "train.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    Path("pairs.csv").write_text("query,positive\nwhat eats moths,bats do\n")
    described = Study("pairs.csv", {"random": Random(1)}, trainer=module.train, seeds=2)
    assert "trainer.run=train.py:train" in described.overrides()
    with pytest.raises(BadInput, match="could import it"):
        Study("pairs.csv", {"random": Random(1)}, trainer=lambda data, seed, folder: None)


def test_a_function_in_a_folder_with_a_blank_is_no_command(base, start, place, here):
    Path("a b").mkdir()
    Path("a b/train.py").write_text(TRAIN)
    result = study(base, start, "trainer=a b/train.py:train", "function=bm25", "seeds=1", *HERE)
    assert result.failed == 0
    assert set(result.trials["ranker"]) == {"train.py:train"}
    run = {"run": "a b/train.py:train"}
    assert files_of_trainer({"trainer": run}) == ["a b/train.py"]
    assert files_of_trainer({"trainer": {"run": "python 'a b/train.py' {out}"}}) == ["a b/train.py"]
    with pytest.raises(BadInput, match="trainer: can't be read: No closing quotation; close each quote"):
        study(base, start, """trainer="python 'a b/train.py {out}\"""", "function=bm25", "seeds=1", "out=open")


def test_what_continues_a_study_names_its_trainer():
    recorded = {"typed": ["trainer=train.py:train", "seeds=2"], "overrides": {"a": ["trainer.run=train.py:train"]}}
    assert resume_command("study", "out", recorded) == "pyrite study --resume out trainer=train.py:train"
    assert resume_command("study", "out", {"typed": ["seeds=2"]}) == "pyrite study --resume out"
