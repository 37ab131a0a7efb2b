from collections.abc import Callable

import numpy as np
import pytest

from pooling.adjudicators.bandit.bandit import Bandit
from pooling.adjudicators.max_mean import MaxMean
from pooling.pool import topic_pool
from pooling.priors import AgreementPrior, CommonPrior, PriorFile
from pooling.simulation import simulate
from ranking.errors import BadInput

RUNS = ["a", "b", "c"]


@pytest.fixture
def table(tmp_path) -> Callable[[str], PriorFile]:
    def make(text: str) -> PriorFile:
        (tmp_path / "priors.tsv").write_text(text)
        return PriorFile(str(tmp_path / "priors.tsv"))

    return make


def test_the_same_for_all():
    pool = topic_pool(np.array([[0], [1], [2]], np.int32), 3)
    alpha, beta = CommonPrior(0.5, 2)(pool, RUNS)
    assert alpha.tolist() == [0.5, 0.5, 0.5]
    assert beta.tolist() == [2, 2, 2]


def test_agreement():
    # 0 is held by both others, 1 by one other, 2 and 3 by none: the runs' means are 1/2 (of 1/1, 1/2, 0/1), 3/4 and
    # 1/2; drawn to 1/2 by one more document of which half the others think well: (mean · 3 + 1/2) / 4.
    pool = topic_pool(np.array([[0, 1, 2], [1, 0, -1], [0, 3, -1]], np.int32), 4)
    alpha, beta = AgreementPrior(strength=4, depth=3)(pool, RUNS)
    assert alpha == pytest.approx([2.0, 2.75, 2.0])
    assert beta == pytest.approx([2.0, 1.25, 2.0])
    # The first document of each alone: 1, 1/2 and 1; (mean + 1/2) / 2.
    alpha, beta = AgreementPrior(strength=1, depth=1)(pool, RUNS)
    assert alpha == pytest.approx([0.75, 0.5, 0.75])
    assert alpha + beta == pytest.approx([1, 1, 1])


def test_agreement_of_one_run_or_none():
    alone = topic_pool(np.array([[0, 1]], np.int32), 2)
    missing = topic_pool(np.array([[0, 1], [-1, -1]], np.int32), 2)
    for pool, runs in ((alone, ["a"]), (missing, ["a", "b"])):
        alpha, beta = AgreementPrior()(pool, runs)
        assert (alpha > 0).all()
        assert (beta > 0).all()


def test_a_table(table):
    pool = topic_pool(np.array([[0], [1], [2]], np.int32), 3)
    prior = table("c 3 1\n\na,1,2\nb\t0.5\t.25\n")
    alpha, beta = prior(pool, RUNS)
    assert alpha.tolist() == [1, 0.5, 3]
    assert beta.tolist() == [2, 0.25, 1]
    with pytest.raises(BadInput, match=r"priors.tsv: no prior for the run 'd'"):
        prior(pool, [*RUNS, "d"])


@pytest.mark.parametrize("line", ["b 1", "b 1 2 3", "b one 2", "b 0 1", "b 1 -1", "b nan 1", "b 1 inf"])
def test_a_broken_table(table, line):
    with pytest.raises(BadInput, match=r"priors.tsv:2: .* is no prior"):
        table(f"a 1 1\n{line}\n")


def test_a_run_has_one_prior(table):
    with pytest.raises(BadInput, match=r"priors.tsv:3: the run 'a' is given two priors"):
        table("a 1 1\na 1 1\na 2 1\n")


def test_no_table(tmp_path):
    with pytest.raises(BadInput, match="can't be read"):
        PriorFile(str(tmp_path / "absent"))
    (tmp_path / "binary").write_bytes(b"a 1 \xff\n")
    with pytest.raises(BadInput, match="can't be read"):
        PriorFile(str(tmp_path / "binary"))


def test_the_prior_decides_who_is_first(pool_of, tmp_path):
    (tmp_path / "priors").write_text("run0 1 3\nrun1 1 1\nrun2 1 2\n")
    pool = pool_of([[[0, 1], [2, 3], [4, 5]]], [[0] * 6])
    # Means 1/4, 1/2, 1/3; each document that is not relevant adds one to β: 1/3 (stays), 1/4, 1/3, 1/4.
    [order] = simulate(Bandit(MaxMean(PriorFile(str(tmp_path / "priors"))), ties="first"), pool, [0])
    assert order.documents[0].tolist() == [2, 3, 4, 5, 0, 1]


def test_a_team_has_the_mean_of_its_runs_priors(pool_of, tmp_path):
    (tmp_path / "priors").write_text("run0 1 1\nrun1 5 1\nrun2 2 1\n")
    pool = pool_of([[[0, -1], [1, 2], [3, 4]]], [[0] * 5], teams="aab")
    # Team a begins at 3/4, b at 2/3. In a the second run is first: 1 takes a to 3/5. b has 3: 2/4. 2 takes a to 3/6 and
    # it stays: 0, which takes it to 3/7. 4 is left.
    [order] = simulate(Bandit(MaxMean(PriorFile(str(tmp_path / "priors"))), ties="first", teams=True), pool, [0])
    assert order.documents[0].tolist() == [1, 3, 2, 0, 4]
