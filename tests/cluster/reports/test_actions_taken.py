from __future__ import annotations

import polars as pl

from cluster.reports.actions_taken import actions_section
from cluster.reports.report import Report
from cluster.reports.study_tables import action_rows
from cluster.runs.outcome import Outcome
from tests.cluster.reports.conftest import Study


def test_actions_are_counted_by_epoch(made_up_study: Study) -> None:
    trials, _ = made_up_study(seeds=2, methods=[("aligned", "in_batch+bm25", "uniform", 0.3)])
    rows = []
    for run, second in zip(trials["run"], ("bm25", "bm25@simans"), strict=True):
        decisions = [
            {"fold": 0, "epoch": 1, "step": 5, "action": "bm25", "values": {"bm25": 2.0, "bm25@simans": 1.0}},
            {"fold": 0, "epoch": 2, "step": 10, "action": second, "values": {"bm25": 1.0, "bm25@simans": 1.0}},
        ]
        rows += [{"run": run, **row} for row in action_rows(Outcome(decisions=decisions))]
    assert len(rows) == 8
    assert sum(row["taken"] for row in rows) == 4
    page = Report("", actions_section(trials, pl.DataFrame(rows))).to_html()
    text = pl.Series([page]).str.replace_all("<[^>]+>", " ").str.replace_all(r"\s+", " ")[0]
    assert "action epoch 1 epoch 2" in text
    assert "bm25 100% 50%" in text
    assert "bm25@simans 50%" in text
    assert actions_section(trials, None) == []
