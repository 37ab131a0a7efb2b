"""Holds every module to a first line that says what it does, and to a test that a reader finds.

A module is tested by `tests/<its folder>/test_<its name>.py`, by tests that import it, or, where it is reached only
through others, by the test that `REACHED` names.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("ranking", "sampling", "rl", "pooling", "cluster")
MODULES = sorted(
    file.relative_to(ROOT).as_posix() for package in PACKAGES for file in (ROOT / package).rglob("*.py")
)  # fmt: skip

REACHED = {
    "ranking/batches/order.py": "ranking/test_batches.py",
    "ranking/collections/arrow_files.py": "ranking/collections/test_cache.py",
    "ranking/collections/row_files.py": "ranking/collections/test_pairs.py",
    "ranking/collections/trec_markup.py": "ranking/collections/test_trec.py",
    "ranking/digest.py": "cluster/plan/test_sweep.py",
    "ranking/dropout.py": "ranking/test_training.py",
    "ranking/faiss_index.py": "ranking/test_vector_index.py",
    "ranking/frozen.py": "ranking/test_cross_encoder.py",
    "ranking/mean_vectors.py": "sampling/retrieval/test_tfidf.py",
    "ranking/rankers/colbert_folder.py": "ranking/test_late_interaction.py",
    "ranking/row_gradients.py": "ranking/test_lazy_adam.py",
    "ranking/vector_memory.py": "sampling/retrieval/test_memory.py",
    "sampling/function_stats.py": "sampling/test_sampler.py",
    "rl/rllib/lockstep.py": "rl/rllib/test_runner.py",
    "pooling/adjudicators/fusion.py": "pooling/test_adjudicators.py",
    "pooling/judging/state.py": "pooling/judging/test_session.py",
    "pooling/judging/view.py": "pooling/judging/test_session.py",
    "pooling/systems/catalogue.py": "pooling/systems/test_systems.py",
    "cluster/commands/mine.py": "cluster/mining/test_mine.py",
    "cluster/config/refusals.py": "cluster/config/test_configuration.py",
    "cluster/index/encoder.py": "cluster/index/test_build.py",
    "cluster/index/errors.py": "cluster/index/test_actor.py",
    "cluster/mining/data_card.py": "cluster/mining/test_mine.py",
    "cluster/mining/miner.py": "cluster/mining/test_mine.py",
    "cluster/mining/nearest.py": "cluster/mining/test_mine.py",
    "cluster/mining/rows.py": "cluster/mining/test_mine.py",
    "cluster/mining/shards.py": "cluster/mining/test_mine.py",
    "cluster/mining/spread.py": "cluster/mining/test_mine.py",
    "cluster/mining/writing.py": "cluster/mining/test_mine.py",
    "cluster/output/episodes.py": "cluster/commands/test_learn.py",
    "cluster/output/tables.py": "cluster/commands/test_study.py",
    "cluster/plan/point.py": "cluster/plan/test_sweep.py",
    "cluster/plan/pool.py": "cluster/commands/test_pool.py",
    "cluster/reports/learning_figures.py": "cluster/commands/test_learn.py",
    "cluster/reports/mixture_figures.py": "cluster/commands/test_learn_mixture.py",
    "cluster/reports/pool_figures.py": "cluster/commands/test_pool.py",
    "cluster/reports/pool_finalize.py": "cluster/commands/test_pool.py",
    "cluster/reports/pool_report.py": "cluster/commands/test_pool.py",
    "cluster/reports/pool_terminal_table.py": "cluster/commands/test_pool.py",
    "cluster/rollouts/hosted_copies.py": "cluster/commands/test_learn.py",
    "cluster/rollouts/live_line.py": "cluster/commands/test_learn.py",
    "cluster/rollouts/tracked_episodes.py": "cluster/telemetry/test_tracked_commands.py",
    "cluster/runs/measure.py": "cluster/runs/test_execute.py",
    "cluster/runs/rankers.py": "cluster/runs/test_execute.py",
    "cluster/runs/state_tables.py": "cluster/commands/test_learn.py",
    "cluster/telemetry/tracking/folder.py": "cluster/telemetry/test_trackers.py",
    "cluster/training/attach.py": "cluster/training/test_workers.py",
    "cluster/tune/agents.py": "cluster/commands/test_study.py",
    "cluster/tune/attempts.py": "cluster/tune/test_runner.py",
    "cluster/tune/local_pool.py": "cluster/tune/test_local.py",
    "cluster/tune/local_study.py": "cluster/tune/test_local.py",
    "cluster/tune/optuna_runs.py": "cluster/commands/test_study.py",
    "cluster/tune/pool.py": "cluster/commands/test_pool.py",
    "cluster/tune/pool_run.py": "cluster/commands/test_pool.py",
    "cluster/tune/progress.py": "cluster/tune/test_runner.py",
    "cluster/tune/study_run.py": "cluster/tune/test_runner.py",
    "cluster/tune/wanted_agents.py": "cluster/commands/test_study.py",
}
"""Modules that no test names or imports, and the test that runs them."""


def first_line(source: str) -> str:
    """What a module says of itself first."""
    return (ast.get_docstring(ast.parse(source)) or "").split("\n\n")[0].replace("\n", " ")


def says_what_it_does(line: str) -> bool:
    """Whether a line is a sentence without a subject, its verb in the third person: "Reads …", "Defines …"."""
    verb = line.split(" ")[0].rstrip(",")
    return line.endswith(".") and verb.replace("-", "").isalpha() and verb[0].isupper() and verb.endswith("s")


def imported(source: str) -> set[str]:
    """Modules that a file imports, also where it imports names from them."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{name.name}" for name in node.names)}
    return found


@pytest.mark.parametrize("package", PACKAGES)
def test_a_modules_first_line_says_what_it_does(package: str) -> None:
    lines = {file: first_line((ROOT / file).read_text("utf-8")) for file in MODULES if file.startswith(f"{package}/")}
    wrong = {file: line for file, line in lines.items() if not says_what_it_does(line)}
    assert not wrong, f"begin with a verb, as in 'Reads …', and end with a period: {wrong}"


def test_what_says_nothing_is_seen() -> None:
    assert says_what_it_does("Runs trials, and again where one is lost.")
    for line in ("", "What a run needs.", "Selectors: each picks.", "`pyrite pool` of a study.", "Runs it"):
        assert not says_what_it_does(line)


def test_every_module_has_a_test_that_a_reader_finds() -> None:
    named = set().union(*(imported(file.read_text("utf-8")) for file in (ROOT / "tests").rglob("*.py")))
    alone = set()
    for file in map(Path, MODULES):
        by_name = ROOT / "tests" / file.parent / f"test_{file.stem}.py"
        dotted = ".".join(file.with_suffix("").parts)
        if not file.stem.startswith("__") and not by_name.is_file() and dotted not in named:
            alone.add(file.as_posix())
    lost = sorted(file for file in REACHED if not (ROOT / "tests" / REACHED[file]).is_file())
    assert not lost, f"their tests are gone: {lost}"
    missing, stale = sorted(alone - REACHED.keys()), sorted(REACHED.keys() - set(MODULES))
    assert not missing, f"test them in a file of their name, or say in REACHED what runs them: {missing}"
    assert not stale, f"they are gone; take them out of REACHED: {stale}"
