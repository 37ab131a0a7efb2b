"""Holds every module to a first line that says what it does, and to a test that a reader finds.

A module is tested by `tests/<its folder>/test_<its name>.py`, by tests that import it, by those of a module that
imports it, or by the test that `REACHED` names.
"""

import ast
from pathlib import Path

import pytest

from tests.test_imports import imported

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("ranking", "sampling", "rl", "pooling", "analysis", "cluster")
MODULES = sorted(
    file.relative_to(ROOT).as_posix() for package in PACKAGES for file in (ROOT / package).rglob("*.py")
)  # fmt: skip

REACHED = {
    "analysis/reports/audit_rates.py": "cluster/commands/test_audit.py",
    "analysis/reports/pool_figures.py": "cluster/commands/test_pool.py",
    "analysis/reports/pool_report.py": "cluster/commands/test_pool.py",
    "analysis/statistics/audit_rates.py": "cluster/commands/test_audit.py",
    "analysis/statistics/by_query.py": "analysis/statistics/test_summary.py",
    "analysis/statistics/compared_runs.py": "analysis/statistics/test_summary.py",
    "cluster/commands/options.py": "cluster/commands/test_first_steps.py",
    "cluster/commands/study_end.py": "cluster/commands/test_study.py",
    "cluster/commands/train.py": "cluster/runs/test_cut_checkpoints.py",
    "cluster/commands/train_lines.py": "cluster/runs/test_cut_checkpoints.py",
    "cluster/config/schema/audit.py": "cluster/config/test_declared.py",
    "cluster/config/schema/command.py": "cluster/config/test_declared.py",
    "cluster/config/schema/evaluate.py": "cluster/config/test_declared.py",
    "cluster/config/schema/judge.py": "cluster/config/test_declared.py",
    "cluster/config/schema/kinds.py": "cluster/config/test_declared.py",
    "cluster/config/schema/learn.py": "cluster/config/test_declared.py",
    "cluster/config/schema/mine.py": "cluster/config/test_declared.py",
    "cluster/config/schema/rank.py": "cluster/config/test_declared.py",
    "cluster/config/schema/run.py": "cluster/config/test_declared.py",
    "cluster/mining/data_card.py": "cluster/mining/test_mine.py",
    "cluster/mining/miner.py": "cluster/mining/test_mine.py",
    "cluster/mining/writing.py": "cluster/mining/test_mine.py",
    "cluster/runs/model_card.py": "cluster/runs/test_cut_checkpoints.py",
    "ranking/collections/json_rows.py": "ranking/collections/test_cases_files.py",
    "ranking/frozen.py": "ranking/test_bi_encoder.py",
}
"""Modules that none of these rules reaches, and the test that runs them."""


def first_line(source: str) -> str:
    """What a module says of itself first."""
    return (ast.get_docstring(ast.parse(source)) or "").split("\n\n")[0].replace("\n", " ")


def says_what_it_does(line: str) -> bool:
    """Whether a line is a sentence without a subject, its verb in the third person: "Reads …", "Defines …"."""
    verb = line.split(" ")[0].rstrip(",")
    return line.endswith(".") and verb.replace("-", "").isalpha() and verb[0].isupper() and verb.endswith("s")


@pytest.mark.parametrize("package", [*PACKAGES, "benchmarks", "pyrite"])
def test_a_modules_first_line_says_what_it_does(package):
    lines = {file.name: first_line(file.read_text("utf-8")) for file in (ROOT / package).rglob("*.py")}
    wrong = {file: line for file, line in lines.items() if not says_what_it_does(line)}
    assert not wrong, f"begin with a verb, as in 'Reads …', and end with a period: {wrong}"


@pytest.mark.nightly
def test_every_module_has_a_test_that_a_reader_finds():
    named = set().union(*(imported(file.read_text("utf-8")) for file in (ROOT / "tests").rglob("*.py")))
    dotted = {
        file: f"pyrite.{file}".removesuffix(".py").replace("/", ".") for file in MODULES if not file.endswith("__.py")
    }
    tested = {
        file for file, name in dotted.items()
        if name in named or (ROOT / "tests" / Path(file).parent / f"test_{Path(file).stem}.py").is_file()
    }  # fmt: skip
    through = set().union(*(imported((ROOT / file).read_text("utf-8")) for file in tested))
    alone = {file for file, name in dotted.items() if file not in tested and name not in through}
    lost = sorted(file for file in REACHED if not (ROOT / "tests" / REACHED[file]).is_file())
    assert not lost, f"their tests are gone: {lost}"
    missing = sorted(alone - REACHED.keys())
    assert not missing, f"test them in a file of their name, or say in REACHED what runs them: {missing}"
