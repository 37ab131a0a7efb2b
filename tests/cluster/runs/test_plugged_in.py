"""Classes from outside the repository: a class and a line of configuration each."""

from typing import Any

import polars as pl
import pytest

from cluster.config.compose import compose
from cluster.runs.artifacts import Artifacts
from cluster.runs.execute import run
from tests.cluster.command_line import command
from tests.sampling.outside import IN_BATCH, WINDOW

MODULE = '''
import numpy as np
import torch
from torch.nn import functional as F

from ranking.bm25 import Bm25Options
from ranking.objectives.softmax import SoftmaxLikelihood
from ranking.schedules import Schedule

SEEN = []


class MarginMSE(SoftmaxLikelihood):
    """Squared error of the ranker's margins against a teacher's, BM25 (Hofstätter et al. 2020, equation 4)."""

    def __init__(self, depth: int = 20):
        self.depth = depth

    def rank(self, sources):
        every = np.arange(len(sources.encoded.queries))
        return sources.bm25(Bm25Options()).search(every, self.depth)[0]

    def prepare(self, encoded, lists):
        self.lists = lists

    def loss(self, scores, block):
        documents, teacher = (part[block.queries.numpy()] for part in (self.lists.documents, self.lists.scores))
        same = documents[:, None, :] == block.documents.numpy()[:, :, None]
        known = torch.from_numpy(np.where(same & (documents >= 0)[:, None], teacher[:, None], 0).sum(2)).float()
        SEEN.append((block.source_scores.isfinite().sum().item(), block.gains[:, 0].min().item(), known.sum().item()))
        margins, wanted = scores[:, :1] - scores[:, 1:], known[:, :1] - known[:, 1:]
        return F.mse_loss(margins, wanted, reduction="none")[block.present[:, 1:]].mean()


class InverseSquareRoot(Schedule):
    """Falls with one over the square root of the steps."""

    def after_warmup(self, done):
        return (1 + 9 * done) ** -0.5
'''


@pytest.fixture
def elsewhere(tmp_path, monkeypatch) -> Any:
    """A module outside the project."""
    (tmp_path / "elsewhere.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    import elsewhere

    return elsewhere


def test_an_objective_with_a_teacher_and_a_schedule_plug_in(base, elsewhere):
    plugged = ["objective._target_=elsewhere.MarginMSE", "+objective.depth=30"]
    plugged += ["scheduler._target_=elsewhere.InverseSquareRoot", "scheduler.warmup=2"]
    config = compose([*base, *plugged, "function=bm25", "validation.negatives=2", "training.max_epochs=3"])
    parts = Artifacts().parts(config)
    outcome = run(config, parts)
    assert outcome.losses[0][-1] < outcome.losses[0][0]
    assert len(outcome.dev_losses[0]) == 3
    of_functions, gains, of_teacher = zip(*elsewhere.SEEN, strict=True)
    assert max(of_functions) > 0, "no function's scores reached the objective"
    assert min(gains) >= 1, "gains of positives are their grades"
    assert all(each > 0 for each in of_teacher)
    constant = run(config | {"scheduler": {"_target_": "ranking.schedules.Constant"}}, parts)
    assert constant.losses != outcome.losses


def test_a_selector_and_a_function_of_ones_own(base, tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(WINDOW + IN_BATCH)
    out = tmp_path / "out"
    overrides = [
        *base, "function=[]", "+function.others._target_=mine.OthersPositives",
        "selector._target_=mine.Window", "+selector.first=1", "+selector.last=6", f"out={out}",
    ]  # fmt: skip
    monkeypatch.syspath_prepend(str(tmp_path))  # as PYTHONPATH does
    assert command("train", *overrides) == 0
    samplers = pl.read_parquet(out / "samplers.parquet")
    assert samplers["function"].unique().to_list() == ["others"]
    assert samplers["negatives"].min() > 0
