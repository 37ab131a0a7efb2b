"""Classes from outside the repository: a class and a line of configuration each."""

from typing import Any

import numpy as np
import polars as pl
import pytest
import torch

from pyrite.cluster.config.build import locate
from pyrite.cluster.config.compose import compose
from pyrite.cluster.runs.artifacts import Artifacts
from pyrite.cluster.runs.assemble import make_ranker
from pyrite.cluster.runs.execute import run
from pyrite.ranking.errors import BadInput
from pyrite.results import TrainingResult
from tests.cluster.command_line import command
from tests.sampling.outside import IN_BATCH, WINDOW

MODULE = '''
import numpy as np
import torch
from torch.nn import functional as F

from pyrite.ranking.bm25 import Bm25Options
from pyrite.ranking.objectives.softmax import Softmax
from pyrite.ranking.schedules import RateSchedule

SEEN = []


class MarginMSE(Softmax):
    """Squared error of the ranker's margins against a teacher's, BM25 (Hofstätter et al. 2020, equation 4)."""

    def __init__(self, depth: int = 20):
        super().__init__()
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


class InverseSquareRoot(RateSchedule):
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
    assert (
        run(config | {"scheduler": {"_target_": "pyrite.ranking.schedules.Constant"}}, parts).losses != outcome.losses
    )


def test_a_selector_and_a_function_of_ones_own(base, tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(WINDOW + IN_BATCH)
    out = tmp_path / "out"
    overrides = [
        *base, "function=[]", "function.others._target_=mine.OthersPositives",
        "selector._target_=mine.Window", "selector.first=1", "+selector.last=6", f"out={out}",
    ]  # fmt: skip
    monkeypatch.syspath_prepend(str(tmp_path))  # as PYTHONPATH does
    assert command("train", *overrides) == 0
    samplers = pl.read_parquet(out / "samplers.parquet")
    assert samplers["function"].unique().to_list() == ["others"]
    assert samplers["negatives"].min() > 0


RANKER = """
import torch
from torch import nn
from pyrite.ranking.rankers.feed_forward import FeedForward
from pyrite.ranking.rankers.match_pyramid import MatchPyramid

class Drawn(FeedForward):
    def __init__(self, preset="tiny"):
        super().__init__(preset=preset)
        self.layer = nn.Linear(3, 3)  # by torch's global generator

class TooEarly(FeedForward):
    def __init__(self):
        self.layer = nn.Linear(3, 3)

class Weightless(FeedForward):
    def make(self, inputs):
        self.vectors = torch.from_numpy(inputs.words.copy())

class TooFew(MatchPyramid):
    def represent_documents(self, documents):
        return super().represent_documents(documents)[:-1]
"""


@pytest.fixture
def drawn(tmp_path, monkeypatch) -> None:
    """A module with rankers."""
    (tmp_path / "drawn.py").write_text(RANKER)
    monkeypatch.syspath_prepend(str(tmp_path))


@pytest.mark.usefixtures("drawn")
def test_layers_of_ones_own_ranker_are_drawn_with_the_runs_seed(base):
    config = compose([*base, "ranker._target_=drawn.Drawn"])
    text_base = Artifacts().parts(config)["base"]

    def layer(seed: int) -> torch.Tensor:
        return make_ranker(config, text_base, np.random.default_rng(seed)).layer.weight.detach()

    before = torch.get_rng_state()
    first = layer(0)
    torch.rand(5)
    assert torch.equal(first, layer(0))
    assert not torch.equal(first, layer(1))
    torch.set_rng_state(before)
    layer(0)
    assert torch.equal(torch.get_rng_state(), before), "the caller's generator has changed"


@pytest.mark.usefixtures("drawn")
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("TooEarly", "TooEarly: sets weights or layers .*; begin __init__ with super"),
        ("Weightless", "Weightless: has no weights to train; make its tensors nn.Parameter"),
        ("TooFew", "^TooFew.represent_documents: returned 1 rows for 2 texts; return one row per text$"),
    ],
)
def test_a_ranker_of_ones_own_that_can_not_be_trained_is_named(base, name, message):
    config = compose(base)
    text_base = Artifacts().parts(config)["base"]
    node = {
        "_target_": f"drawn.{name}",
    } | ({"preset": "tiny"} if name == "TooFew" else {})
    texts = text_base.encoded
    with pytest.raises(BadInput, match=message):
        make_ranker(config | {"ranker": node}, text_base, np.random.default_rng(0))(
            texts.queries.take(np.array([0])), texts.documents.take(np.array([0, 1]))
        )


def test_a_ranker_with_the_constructor_of_version_0_2_is_refused(tmp_path, monkeypatch):
    old = "class Old(Ranker):\n    def __init__(self, vectors, generator, width=2): ..."
    (tmp_path / "old.py").write_text(f"from pyrite.ranking.rankers.ranker import Ranker\n\n{old}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    message = (
        r"^old\.Old: takes (vectors|generator) in its constructor; .* in make\(self, inputs\), of inputs.vectors and"
    )
    with pytest.raises(BadInput, match=message):
        locate("old.Old")


def test_what_runs_share_can_not_be_changed_by_a_part_of_ones_own(base, own_cache):
    config = compose([*base, "function=bm25"])
    for _ in ("newly made", "from the cache"):
        parts = Artifacts().parts(config)
        encoded, lists = parts["base"].encoded, parts["function:bm25"].lists
        for values in (encoded.documents.tokens, encoded.judgements.documents, lists.documents):
            with pytest.raises(ValueError, match="read-only"):
                values[...] = 0


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("\nclass X(:", "broken.py:2: broken can't be imported .invalid syntax.; correct this line"),
        ("import nothing_like_it\nclass X: ...", "broken.py:1: broken can't be imported"),
        ("\nfrom numpy import nothing_like_it", "broken.py:2: broken can't be imported"),
        ("", "broken.X: there is no such class"),
    ],
)
def test_a_module_that_can_not_be_imported_is_named_with_its_line(tmp_path, monkeypatch, content, message):
    (tmp_path / "broken.py").write_text(content)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(BadInput, match=message):
        locate("broken.X")


def test_train_says_that_its_training_diverged(base, tmp_path, monkeypatch, capsys):
    loss = "lambda self, scores, block: scores.sum() * float('nan')"
    content = f"from pyrite.ranking.objectives.softmax import Softmax as S\nNaN = type('NaN', (S,), {{'loss': {loss}}})"
    (tmp_path / "nans.py").write_text(content)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert command("train", *base, "objective._target_=nans.NaN", "function=bm25", f"out={tmp_path / 'out'}") == 0
    said = "The training diverged (its loss is no longer a number); the ranker before training is measured."
    assert said in " ".join(capsys.readouterr().out.split())
    result = TrainingResult(str(tmp_path / "out"))
    assert result.diverged
    assert "diverged" in repr(result)
