"""Made-up studies in the form that the study runner leaves."""

import io
from collections.abc import Callable, Sequence

import numpy as np
import polars as pl
import pytest
from rich.console import Console

from pyrite.analysis.reports.report import Report, drawings
from tests.cluster.trial_rows import trials_of


@pytest.fixture
def console() -> Console:
    """Keeps what is printed, in `file`."""
    return Console(file=io.StringIO(), width=200)


METHODS = (
    ("fixed", "random", "uniform", 0.20),
    ("fixed", "bm25", "uniform", 0.30),
    ("fixed", "bm25", "dynamic", 0.28),
    ("random", "random+bm25", "uniform", 0.26),
    ("learned", "random+bm25", "uniform", 0.33),
)


@pytest.fixture(scope="session")
def made_up_study() -> Callable[..., tuple[pl.DataFrame, pl.DataFrame]]:
    """Make trials and queries: the means above over BM25's candidates, the reverse over random ones."""

    def make(
        seeds: int = 4,
        rankers: Sequence[str] = ("feed_forward",),
        methods: Sequence[tuple[str, str, str, float]] = METHODS,
        swept: Sequence[tuple[str, Sequence[str]]] = (),
        failed: int = 0,
        collection: str = "pydocs",
    ) -> tuple[pl.DataFrame, pl.DataFrame]:
        generator = np.random.default_rng(7)
        trials, queries = [], []
        for ranker in rankers:
            for policy, function, selector, mean in methods:
                for seed in range(seeds):
                    pairs = [{"key": key, "value": values[seed % len(values)]} for key, values in swept]
                    run = f"{collection}-{ranker}-{policy}-{function}-{selector}-{seed}"
                    fails = len(trials) < failed
                    epochs = int(generator.integers(2, 5))
                    reached = {
                        "epochs": epochs, "best_epoch": epochs - 1, "steps": epochs * 10, "seconds": 12.5,
                        "curve_loss": np.linspace(2, 1, epochs).tolist(),
                        "curve_validation": np.linspace(mean / 2, mean, epochs).tolist(),
                    }  # fmt: skip
                    row = {
                        "run": run, "ranker": ranker, "policy": policy, "function": function, "selector": selector,
                        "overrides": f"ranker={ranker} policy={policy} function={function} seed={seed}",
                        "objective": dict(p.values() for p in pairs).get("objective", "softmax"),
                        "seed": seed, "status": "failed" if fails else "done",
                        "error": "<b>out of memory</b> & gone" if fails else None, "collection": collection,
                        "fingerprint": "0123456789abcdef", **({} if fails else reached),
                        "validation_measure": "AP@100", "swept": pairs,
                    }  # fmt: skip
                    for origin, centre in (("bm25", mean), ("random", 0.6 - mean)):
                        per_query = np.clip(centre + generator.normal(0, 0.02, 12), 0, 1)
                        for measure, share in (("AP@100", 1.0), ("RR@10", 1.2)):
                            row[f"{origin}:{measure}"] = None if fails else float(per_query.mean() * share)
                            own = {"bm25": 0.5, "random": 0.7}[origin] * share
                            row[f"{origin}:{measure}:bm25"] = None if fails else own
                        if not fails:
                            queries += [
                                {"run": run, "query": f"q{q}", "origin": origin, "AP@100": v, "RR@10": 1.2 * v}
                                for q, v in enumerate(per_query)
                            ]
                    trials.append(row)
        return trials_of(trials), pl.DataFrame(queries)

    return make


@pytest.fixture(scope="session")
def written_trials() -> Callable[..., pl.DataFrame]:
    """Make trials from overrides and what each run reached over BM25's candidates, None where it failed."""

    def make(
        runs: Sequence[tuple[str, float | None]],
        swept: Sequence[str] = ("policy.learn", "policy.agent", "selector.agent"),
        collection: str = "medquad",
    ) -> pl.DataFrame:
        rows = []
        for number, (overrides, value) in enumerate(runs):
            own = dict(text.split("=", 1) for text in overrides.split())
            parts = {key: own[key] for key in ("policy", "selector", "objective") if key in own}
            rows.append({
                "run": f"{collection}-{number:03}", "overrides": f"{overrides} seed={number}", "seed": number,
                "ranker": own.get("ranker", "feed_forward"), "function": own.get("function", "random+bm25"), **parts,
                "status": "failed" if value is None else "done", "collection": collection,
                "fingerprint": f"fingerprint of {collection}", "bm25:AP@100": value,
                "swept": [{"key": key, "value": own[key]} for key in swept if key in own],
            })  # fmt: skip
        return trials_of(rows)

    return make


def files_of(report: Report) -> set[str]:
    """The names of a report's figures."""
    return {drawing.name for section in report.sections for drawing in drawings(section.parts)}
