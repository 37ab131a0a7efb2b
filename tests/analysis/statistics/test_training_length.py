import polars as pl
import pytest

from pyrite.analysis.statistics.training_length import TrainingLength, training_length
from tests.cluster.trial_rows import trials_of


def trials(*runs: tuple[int, int], status: str = "done") -> pl.DataFrame:
    """Runs by their best epoch and the number of epochs."""
    return trials_of(
        {
            "run": f"run{number}", "seed": number, "status": status, "best_epoch": best, "epochs": epochs,
            "curve_validation": [0.1] * epochs,
        }
        for number, (best, epochs) in enumerate(runs)
    )  # fmt: skip


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        ([(3, 5), (3, 5), (2, 4)], TrainingLength(3, 5, True)),
        ([(5, 5), (5, 5), (3, 5)], TrainingLength(5, 5, False)),
        ([(2, 5), (3, 5), (4, 5), (5, 5)], TrainingLength(4, 5, True)),  # one of four may still get better
        ([(2, 5), (3, 5), (5, 5)], TrainingLength(3, 5, False)),
    ],
)
def test_a_ranker_is_trained_long_enough_if_few_runs_are_best_at_their_end(runs, expected):
    assert training_length(trials(*runs)) == expected


def test_without_a_validation_curve_nothing_is_said():
    assert training_length(trials((1, 1))) is None
    assert training_length(trials((3, 5), status="failed")) is None
