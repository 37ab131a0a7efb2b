"""Every script in `benchmarks/` runs at its smallest size and prints figures."""

import ast
import importlib.util
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import polars as pl
import pytest
import torch

from tests.cluster.trial_rows import trials_of
from tests.made_up import write_beir, write_runs
from tests.test_encoders_gpu import pack  # noqa: F401  a fixture

OURS = {"benchmarks", "pyrite"}
FOLDER = Path(__file__).resolve().parents[1] / "benchmarks"
SCRIPTS = sorted(path.stem for path in FOLDER.glob("*.py") if "__main__" in path.read_text("utf-8"))
FIGURE = re.compile(r"(?<![\w.])\d[\d,]*(\.\d+)?")

LONG = {
    "agents", "agents_trial", "audit", "before_training", "bm25", "clusters", "device", "dssm", "encoders",
    "encoders_gpu", "encoders_pack", "environment", "frames", "frozen_layers", "gpu", "growth", "guard_dose",
    "guard_table", "half_precision", "in_batch", "index", "judging", "metrics", "mine", "mining", "negatives",
    "pairs_memory", "paper_tables", "pooling", "precision", "recipes", "results", "scoring", "sequential", "study",
    "trainer_steps", "trainer_study", "transformers", "trials", "workers",
}  # fmt: skip
"""Scripts that compile, or start processes again and again, which nothing makes short."""

PRINTS = {
    "encoders": r"cosine with the peers' vectors: (1\.0000|0?\.9999)",
    "gpu": r"top documents all scores_differ_by=",
    "device": r"a step of bi_encoder +[\d.]+ s, +[\d.]+ TFLOP/s, +\d+% of it",
    "dssm": r"losses differ by \d\.\de-0[4-9] at most",  # both sides compute the same
    "environment": r"8 copies, 1 workers: 1\.00× the steps with one worker",
    "in_batch": r"losses differ by \d\.\de-0[5-9] at most",  # both sides compute the same
    "judging": r"starting again: ",
    "published": r"BM25 Dynamic-λ +\.0905 ± \.032",
    "mining": r"\b0 of them no tie with its last",  # both sides find the same
    "pooling": r"bla +plain +[\d.]+ s +compiled",
    "scoring": r"AP@100 +(0\.\d{6})\d* and \1",  # the plain loop's scores give the same
    "workers": r"2 workers, during the backward pass *: +[\d.]+ s a step, +[\d.]+ MB",
    "transformers": r"losses of the steps +differ by \d\.\d\de-0[5-9] of theirs at most",
}
"""What a script must have said besides, where it compares results and not only times."""


@pytest.fixture(scope="module")
def made_up(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Folders that stand for the real ones, by the name that `SMALLEST` calls them."""
    folder = tmp_path_factory.mktemp("benchmarks")
    write_runs(folder / "pools" / "trec8")
    collection = str(write_beir(folder / "collection", documents=120))
    study = str(write_study(folder / "study"))
    several = write_beir(folder / "several", documents=120)
    with (several / "qrels" / "train.tsv").open("a") as file:  # queries with two relevant documents
        file.writelines(f"q{number}\td{number + 20}\t1\n" for number in (0, 1, 2, 5, 6, 7))
    return {
        "collection": collection,
        "several": str(several),
        "trec8": str(folder / "pools"),
        "study": study,
        "out": str(folder / "out"),
    }


def write_study(folder: Path) -> Path:
    """Write the tables of a study of two methods with two seeds."""
    folder.mkdir()
    runs = [(function, seed) for function in ("bm25", "random") for seed in (0, 1)]
    trials_of(
        {
            "run": f"{function}-{seed}", "function": function, "seed": seed, "collection": "medquad",
            "ranker": "feed_forward", "overrides": f"policy=fixed function={function}", "bm25:AP@10": 0.1 * seed + 0.2,
        }
        for function, seed in runs
    ).write_parquet(folder / "trials.parquet")  # fmt: skip
    pl.DataFrame([
        {"run": f"{function}-{seed}", "query": f"q{number}", "origin": "bm25", "AP@10": 0.1 * seed + 0.1 * number}
        for function, seed in runs
        for number in (1, 3)
    ]).write_parquet(folder / "queries.parquet")  # fmt: skip
    (folder / "config.yaml").write_text("study: {}\noverrides: []\n")
    return folder


@pytest.fixture
def arguments_of(made_up: dict[str, str], request: pytest.FixtureRequest) -> Callable[[str], list[str]]:
    """Splits a line of `SMALLEST` into arguments, with folders in their places."""

    def arguments(line: str) -> list[str]:
        places = made_up | {
            name: request.getfixturevalue(name) for name in ("small_bert", "minilm", "pack") if f"{{{name}}}" in line
        }
        return [part.format(**places) for part in shlex.split(line)]

    return arguments


@pytest.fixture(autouse=True)
def _threads() -> Iterator[None]:
    """Scripts choose the threads of this process, which others are to find as they were."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def test_all_are_found():
    assert {"agents", "environment", "pooling", "transformers"} <= set(SCRIPTS)
    assert set(PRINTS) | LONG <= set(SCRIPTS)


def test_what_they_import_exists():
    """Also within functions, and of scripts that run at night only."""
    nodes = [node for path in FOLDER.glob("*.py") for node in ast.walk(ast.parse(path.read_text("utf-8")))]
    names = {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module}
    ours = {name for name in names if name.split(".")[0] in OURS}
    assert len(ours) > 50
    assert not {name for name in ours if importlib.util.find_spec(name) is None}


@pytest.mark.nightly
@pytest.mark.usefixtures("own_cache", "ray_session")
@pytest.mark.parametrize("name", sorted(LONG))
def test_it_runs_for_long(name, arguments_of, capsys):
    test_it_runs(name, arguments_of, capsys)


@pytest.mark.usefixtures("own_cache")
@pytest.mark.parametrize("name", sorted({*SCRIPTS} - LONG))
def test_it_runs(name, arguments_of, capsys):
    script = importlib.import_module(f"benchmarks.{name}")
    assert hasattr(script, "SMALLEST"), f"benchmarks/{name}.py does not say with which options it takes seconds"
    said = ""
    for line in script.SMALLEST:
        script.main(arguments_of(line))
        printed = capsys.readouterr().out
        assert FIGURE.search(printed), f"{line} printed no figure"
        assert not re.search(r"\bnan\b|\binf\b", printed), printed
        said += printed
    assert re.search(PRINTS.get(name, ""), said), said


BARE = """
import runpy, sys
for name in "datasets faiss hydra numba omegaconf pandas platformdirs polars pyarrow ray scipy sentence_transformers".split():
    sys.modules[name] = None  # as on a machine that lacks it
sys.argv = ["gpu", "--out", *sys.argv[1:]]
runpy.run_module("benchmarks.gpu", run_name="__main__")
"""  # noqa: E501


@pytest.mark.parametrize(
    ("part", "row"),
    [("search", "top documents"), pytest.param("training", "training minilm 4 pairs", marks=pytest.mark.nightly)],
)
def test_a_gpu_is_measured_with_torch_and_transformers_alone(part, row, tmp_path):
    out = tmp_path / "gpu.json"
    program = [sys.executable, "-c", BARE, str(out), "--only", part]
    subprocess.run(program, cwd=FOLDER.parent, check=True, capture_output=True)
    content = json.loads(out.read_text())
    assert row in {each["part"] for each in content["rows"]}
    assert content["left_out"] == []
