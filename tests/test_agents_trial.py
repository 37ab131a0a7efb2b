"""The trial of the paper's agent: its intervals, its units, and the planted effect."""

import re
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from benchmarks import agents_control
from benchmarks.agents_control import Control, controlled, controls, fixed
from benchmarks.agents_credit import critic, effect
from benchmarks.agents_report import REPORTS, of_queries, welch
from benchmarks.agents_trial import CHOSEN, best_rates, main, room, second_by_decision
from benchmarks.unit_files import Unit, archive, conduct, results_of

ROOT = Path(__file__).parents[1]


def test_both_sides_are_samples():
    first, second = [0.1, 0.3, 0.2, 0.25], [0.05, 0.2, 0.1]
    mean, low, high, p = welch(first, second)
    expected = stats.ttest_ind(first, second, equal_var=False)
    interval = expected.confidence_interval()
    assert (mean, low, high, p) == pytest.approx((0.2125 - 0.35 / 3, interval.low, interval.high, expected.pvalue))
    table = np.array([[0.1, 0.5], [0.3, 0.1]])
    variance = of_queries(table, np.zeros((3, 2)))
    assert variance == pytest.approx(np.var([0.2, 0.3], ddof=1) / 2)
    assert welch(first, second, variance)[2] > high
    assert welch([0.2, 0.2], [0.1, 0.1]) == pytest.approx((0.1, 0.1, 0.1, 0.0))


def test_units_that_have_a_file_are_not_run_again(tmp_path):
    ran: list[str] = []

    def body(name: str, out: Path) -> dict[str, Any]:
        ran.append(name)
        return {"value": len(ran)}

    units = [Unit(name, partial(body, name)) for name in ("one", "two")]
    conduct(tmp_path / "step", units, hours=0.0, cores=1)
    assert ran == []
    conduct(tmp_path / "step", units[:1], hours=1.0, cores=1)
    conduct(tmp_path / "step", units, hours=1.0, cores=1)
    assert ran == ["one", "two"]
    assert [(each["unit"], each["value"]) for each in results_of(tmp_path / "step")] == [("one", 1), ("two", 2)]


def test_a_step_continues_from_its_archive(tmp_path):
    ran: list[str] = []

    def body(name: str, out: Path) -> dict[str, Any]:
        ran.append(name)
        return {"value": 0.25}

    units = [Unit(name, partial(body, name)) for name in ("one", "two", "three")]
    conduct(tmp_path / "step", units[:1], hours=1.0, cores=1)
    archive(tmp_path / "step")
    (tmp_path / "step" / "one.json").unlink()
    conduct(tmp_path / "step", units[:2], hours=1.0, cores=1)
    archive(tmp_path / "step")
    conduct(tmp_path / "step", units, hours=1.0, cores=1)
    assert ran == ["one", "two", "three"]
    assert [each["unit"] for each in results_of(tmp_path / "step")] == ["one", "three", "two"]
    assert len((tmp_path / "step.jsonl").read_text().splitlines()) == 2


def test_what_agents_learned_is_told_by_decision(capsys):
    assert second_by_decision([[1, 1, 1]] * 10 + [[0, 1], [1, 1, 0]] * 25) == [0.5, 1.0, 0.0]  # of the last 50
    coin = [{"unit": "c", "arm": "coin", "value": value, "queries": [value] * 2} for value in (0.1, 0.2, 0.15)]
    agents = [
        {"unit": f"e-{n}", "arm": "e", "validations": [0.1] * 50 + [0.2 + 0.1 * n] * 50, "bm25": [0.25, 1.0],
         "runs": [{"value": 0.2, "queries": [0.2, 0.2]}] * 2}
        for n in range(2)
    ]  # fmt: skip
    REPORTS["test"]([*coin, *agents])
    printed = capsys.readouterr().out
    assert "| e-1 | 0.1000 | 0.3000 | 0.2000 | 25%, 100% |" in printed
    assert "last less first: +0.1500 (-0.4853 to +0.7853), over agents" in printed  # t of one degree: 12.706 * .05


ARCHIVE = ROOT / "docs/experiments/data/agents_trial"


@pytest.mark.parametrize(
    "archived", [ARCHIVE, *sorted(filter(Path.is_dir, ARCHIVE.iterdir()))], ids=lambda each: each.name
)
def test_the_page_has_what_the_archive_reports(archived, capsys):
    main(["report", str(archived)])
    page = (ROOT / "docs/experiments/agents_trial.md").read_text("utf-8").replace("−", "-")
    rows = [line for line in capsys.readouterr().out.splitlines() if re.match(r"\| \w.*\d", line)]
    assert len(rows) > 10
    assert [row for row in rows if re.sub(r"\b0\.(?=\d)", ".", row) not in page] == []


def test_an_oracle_is_ahead_of_bm25_if_its_first_ranks_are_hidden_positives(tmp_path):
    control = Control(8, 6, late=False)
    ends = {name: fixed(control, name, 6, {}, tmp_path)["ends"] for name in ("BM25", "random", "oracle")}
    assert ends["oracle"] == ends["random"]
    assert np.mean(ends["oracle"]) != np.mean(ends["BM25"])
    late = Control(8, 6, late=True)
    assert fixed(late, "oracle", 6, {}, tmp_path)["ends"] != fixed(late, "random", 6, {}, tmp_path)["ends"]


def test_steps_have_the_units_of_the_protocol():
    assert len(room([], 20)) == 20 * 10
    names = [unit.name for unit in controls(40, 10, 10, 300)]
    assert len(names) == len(set(names)) == 2 * 4 + 10 * 2 * (4 * 6 + 2)
    rates = [{"arm": "printed", "rate": rate, "validations": [value]} for rate, value in ((1.0, 0.3), (0.1, 0.2))]
    assert best_rates(rates) == {**CHOSEN, "printed": 1.0}


def test_a_critic_of_features_that_an_action_changes_rewards_the_wrong_one():
    rng = np.random.default_rng(0)
    actions = rng.integers(0, 2, (400, 12)).astype(float)
    clock = np.broadcast_to(np.linspace(1, 0, 12), actions.shape)  # much is to be gained early
    loss = clock + 0.5 * np.concatenate([np.zeros((400, 1)), actions[:, :-1]], 1)  # which an action raises
    rewards = 0.1 * clock - 0.001 * actions + 0.001 * rng.normal(size=actions.shape)
    plain, low = effect(actions, rewards)
    assert plain + low < 0
    fooled, reach = effect(actions, rewards + critic(loss[..., None], rewards))
    assert fooled - reach > 0
    honest, _ = effect(actions, rewards + critic(clock[..., None], rewards))
    assert honest == pytest.approx(plain, abs=1e-12)


@pytest.mark.nightly
@pytest.mark.usefixtures("ray_session")
def test_a_learning_continues_from_its_state(tmp_path, monkeypatch):
    monkeypatch.setattr(agents_control, "KEEP", 4)
    control = Control(8, 3, late=True)
    run = partial(controlled, control, "printed", 0.001, 0)
    whole = run(12, {}, tmp_path / "late-printed-0.001-0")
    run(8, {}, tmp_path / "late-printed-0.01-0")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "late-printed-0.001-0.safetensors", "late-printed-0.01-0.safetensors",
    ]  # fmt: skip
    continued = run(12, {}, tmp_path / "late-printed-0.01-0")
    assert continued["ends"] == whole["ends"]
    assert continued["decisions"] == whole["decisions"]
