"""Says which swept settings mattered, alone and together, and how the defaults stand among what was drawn.

A random forest learns what runs reached from their settings (a response surface), and a functional analysis of
variance shares out its variance: how much each setting explains by itself, and how much any two only together (Hutter,
Hoos and Leyton-Brown 2014, "An efficient approach for assessing hyperparameter importance"). Optuna's evaluator does
the same for single settings. Resampled runs tell how certain that is.
"""

from __future__ import annotations

import itertools
import math
import shlex
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from matplotlib.figure import Figure
from numpy.typing import NDArray

from cluster.config.compose import compose
from cluster.output.methods import evaluations, factors, measurements, swept, with_factors
from cluster.reports.canvas import COLOURS, grid, name_axes, section_titles
from cluster.reports.page import Markup, rendered, table
from cluster.reports.page import drawn as embedded
from ranking.errors import BadInput

Floats = NDArray[np.float64]
LEAST = 8
"""Runs and, of a setting that is not drawn, values below which nothing is told."""
RESAMPLED, TREES = 12, 32
POINTS, LEVELS, PAIR_LEVELS = 96, 12, 8
METHOD = "method"
"""What stands for the methods among the settings, where there are several."""
PLACE = dict.fromkeys(("collection", "ranker", "candidates", "measure"), pl.String)
SCHEMA: dict[str, Any] = {
    **PLACE,
    **dict.fromkeys(("setting", "together_with"), pl.String),
    **dict.fromkeys(("share", "low", "high", "explained"), pl.Float64),
    "runs": pl.Int64,
}
"""Columns of surface.parquet."""
DEFAULTS: dict[str, Any] = {
    **PLACE,
    **dict.fromkeys(("method", "settings"), pl.String),
    **dict.fromkeys(("expected", "rank", "low", "high"), pl.Float64),
    "drawn": pl.Int64,
    "inside": pl.Boolean,
}
"""Columns of defaults.parquet."""


@dataclass(frozen=True)
class _Searched:
    """The runs of a ranker on a collection.

    Args:
        place: the columns of PLACE.
        names: of the settings, the methods last where there are several.
        x: settings in the unit cube, a method by its number: [runs, settings].
        y: what runs reached.
        bounds: of each setting, on its scale.
        log: whether a setting's scale is logarithmic.
        methods: in order of their numbers.
        defaults: of the settings by method, as they are; nan where there is none.
    """

    place: dict[str, str]
    names: list[str]
    x: Floats
    y: Floats
    bounds: Floats
    log: list[bool]
    methods: list[str]
    defaults: dict[str, Floats]

    def forest(self, x: Floats, y: Floats, seed: int) -> Any:
        from sklearn.ensemble import RandomForestRegressor

        return RandomForestRegressor(TREES, min_samples_leaf=2, random_state=seed).fit(x, y)

    def levels(self, setting: int, count: int) -> Floats:
        """Values that stand for a setting's range."""
        if self.names[setting] == METHOD:
            return np.arange(len(self.methods), dtype=np.float64)
        return (np.arange(count) + 0.5) / count

    def points(self, rng: np.random.Generator) -> Floats:
        """Points of the whole space."""
        found = rng.random((POINTS, len(self.names)))
        if self.names[-1] == METHOD:
            found[:, -1] = rng.integers(len(self.methods), size=POINTS)
        return found

    def in_cube(self, setting: int, value: float) -> float:
        """A value where it stands between a setting's bounds."""
        low, high = self.bounds[setting]
        at = math.log(value) if self.log[setting] and value > 0 else value
        return (at - low) / (high - low)


def surface(trials: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The shares of settings, and the ranks of defaults, by the leading measure over the leading origin.

    Args:
        trials: the frame of `trials.parquet`.

    Returns:
        The columns of SCHEMA: `share` of the variance that a setting explains, or that it explains only together with
        another, from `low` to `high` in nine of ten resamplings; `explained`, how much of the runs' variance the
        surface foretells in runs that it has not seen. And those of DEFAULTS: the rank that the surface gives the
        defaults of a method among the settings that were drawn for it, whether or not they lie inside their range.
    """
    shares: list[dict[str, Any]] = []
    ranks: list[dict[str, Any]] = []
    for own in _searched(trials):
        rng = np.random.default_rng(0)
        whole = own.forest(own.x, own.y, 0)
        taken = [rng.integers(len(own.y), size=len(own.y)) for _ in range(RESAMPLED)]
        forests = [own.forest(own.x[each], own.y[each], seed) for seed, each in enumerate(taken, 1)]
        points = own.points(rng)
        found = _shares(own, whole, points)
        again = [_shares(own, forest, points) for forest in forests]
        explained = _foretold(own)
        for key, share in found.items():
            spread = np.quantile([each[key] for each in again], (0.05, 0.95))
            names = [own.names[setting] for setting in key]
            told = {"setting": names[0], "together_with": names[1] if len(names) > 1 else None, "share": share}
            bounds = {"low": float(spread[0]), "high": float(spread[1])}
            shares.append(own.place | told | bounds | {"explained": explained, "runs": len(own.y)})
        ranks += _ranks(own, whole, forests)
    return pl.DataFrame(shares, schema=SCHEMA), pl.DataFrame(ranks, schema=DEFAULTS)


def _searched(trials: pl.DataFrame) -> list[_Searched]:
    """The families that settings were drawn for, or swept over many values."""
    pairs = swept(trials).drop_nulls("number").select("run", "key", "number")
    values = pairs.group_by("key").agg(pl.col("number").n_unique())
    drawn = set(trials["drawn"].explode().drop_nulls()) if "drawn" in trials.columns else set()
    many = (pl.col("number") >= LEAST) | ((pl.col("number") > 2) & pl.col("key").is_in(sorted(drawn)))
    keys = values.filter(many)["key"].sort().to_list()
    if not keys or not evaluations(trials):
        return []
    candidates, measure = evaluations(trials)[0]
    by_name = with_factors(trials, [key for key in factors(trials) if key not in keys])
    every = measurements(by_name).filter(candidates=candidates, measure=measure).drop_nulls("value")
    wide = pairs.filter(pl.col("key").is_in(keys)).pivot("key", index="run", values="number")
    every = every.join(wide, on="run").join(trials.select("run", "overrides"), on="run")
    found = []
    for (collection, ranker), family in every.partition_by("collection", "ranker", as_dict=True).items():
        own = family.drop_nulls(keys).sort("run")
        if len(own) < LEAST or np.ptp(own["value"].to_numpy()) < 1e-12:
            continue
        numbers = own.select(keys).to_numpy().astype(np.float64)
        log = [bool(column.min() > 0 and column.max() > 20 * column.min()) for column in numbers.T]
        scaled = np.where(log, np.log(np.where(log, numbers, 1.0)), numbers)
        bounds = np.stack([scaled.min(0), scaled.max(0)], 1)
        x = (scaled - bounds[:, 0]) / np.maximum(bounds[:, 1] - bounds[:, 0], 1e-12)
        methods = own["method"].unique().sort().to_list()
        names = list(keys)
        if len(methods) > 1:
            x = np.column_stack([x, [methods.index(method) for method in own["method"]]])
            names.append(METHOD)
        first = own.group_by("method").agg(pl.col("overrides").first())
        defaults = {method: _defaults(overrides, keys) for method, overrides in first.rows()}
        place = {"collection": str(collection), "ranker": str(ranker), "candidates": candidates, "measure": measure}
        found.append(_Searched(place, names, x, own["value"].to_numpy(), bounds, log, methods, defaults))
    return found


def _defaults(overrides: str, keys: Sequence[str]) -> Floats:
    """What settings are where nobody sets them."""
    found = []
    config: dict[str, Any] = {}
    with suppress(BadInput):  # of a class that is not there any more
        config = compose([text for text in shlex.split(overrides) if text.partition("=")[0].lstrip("+") not in keys])
    for key in keys:
        node: Any = config
        for part in key.split("."):
            node = node.get(part) if isinstance(node, dict) else None
        found.append(float(node) if isinstance(node, int | float) else math.nan)
    return np.array(found)


def _shares(own: _Searched, forest: Any, points: Floats) -> dict[tuple[int, ...], float]:
    """The share of the surface's variance of each setting, and of each two beyond what they explain alone."""
    total = float(forest.predict(points).var())
    every = range(len(own.names))
    single: dict[tuple[int, ...], float] = {
        (i,): float(_marginal(own, forest, points, (i,), LEVELS).var()) for i in every
    }
    both: dict[tuple[int, ...], float] = {}
    for pair in itertools.combinations(every, 2):
        means = _marginal(own, forest, points, pair, PAIR_LEVELS)
        both[pair] = max(float(means.var() - means.mean(0).var() - means.mean(1).var()), 0.0)
    scale = max(total, sum(single.values()) + sum(both.values()), 1e-15)
    return {key: value / scale for key, value in {**single, **both}.items()}


def _marginal(own: _Searched, forest: Any, points: Floats, settings: tuple[int, ...], count: int) -> Floats:
    """The surface over some settings, averaged over all others."""
    levels = [own.levels(setting, count) for setting in settings]
    places = np.array(list(itertools.product(*levels)))
    background = points[: POINTS // 2] if len(settings) > 1 else points
    asked = np.tile(background, (len(places), 1))
    asked[:, list(settings)] = np.repeat(places, len(background), axis=0)
    means = forest.predict(asked).reshape(len(places), -1).mean(1)
    return np.asarray(means).reshape([len(each) for each in levels])


def _foretold(own: _Searched) -> float:
    """The share of the variance that forests foretell of runs that they have not seen; below 0 counts as 0."""
    order = np.random.default_rng(1).permutation(len(own.y))
    said = np.empty(len(own.y))
    for part in np.array_split(order, 5):
        rest = np.setdiff1d(order, part)
        said[part] = own.forest(own.x[rest], own.y[rest], 0).predict(own.x[part])
    return max(0.0, 1 - float(((own.y - said) ** 2).mean() / own.y.var()))


def _ranks(own: _Searched, whole: Any, forests: Sequence[Any]) -> list[dict[str, Any]]:
    """Where the surface puts each method's defaults among what was drawn for it."""
    rows = []
    for number, method in enumerate(own.methods):
        values = own.defaults[method]
        known = np.flatnonzero(~np.isnan(values))
        if not len(known):
            continue
        at = np.array([own.in_cube(int(setting), float(values[setting])) for setting in known])
        there = own.x if len(own.methods) == 1 else own.x[own.x[:, -1] == number]
        asked = there.copy()  # what has no number by default is averaged over what was drawn
        asked[:, known] = at

        def rank(forest: Any, there: Floats = there, asked: Floats = asked) -> float:
            return 1.0 + float((forest.predict(there) > forest.predict(asked).mean() + 1e-12).sum())

        low, high = np.quantile([rank(forest) for forest in forests], (0.05, 0.95))
        told = {"method": method, "settings": " ".join(f"{own.names[each]}={values[each]:g}" for each in known)}
        expected = float(whole.predict(asked).mean())
        figures = {"expected": expected, "rank": rank(whole), "low": float(low), "high": float(high)}
        inside = bool(((at >= 0) & (at <= 1)).all())
        rows.append(own.place | told | figures | {"drawn": len(there), "inside": inside})
    return rows


def draw(trials: pl.DataFrame, shares: pl.DataFrame) -> Figure | None:
    """Draw shares with their intervals, and the surface over the setting, or the two, that matter most."""
    families = _searched(trials)
    if not families or shares.is_empty():
        return None
    titles = section_titles([(own.place["collection"], own.place["ranker"]) for own in families])
    most = max(len(own.names) + len(own.names) * (len(own.names) - 1) // 2 for own in families)
    figure, axes = grid(titles, ["share of the surface's variance", "the surface"], 1.9 + 0.22 * most)
    for row, own in enumerate(families):
        bars, shape = axes[2 * row : 2 * row + 2]
        here = shares.filter(collection=own.place["collection"], ranker=own.place["ranker"]).sort("share")
        for y, told in enumerate(here.iter_rows(named=True)):
            bars.barh(y, told["share"], color=COLOURS[told["together_with"] is not None], height=0.6)
            bars.plot((told["low"], told["high"]), (y, y), color="#555555", lw=1.4)
        bars.set_yticks(range(len(here)), [_of(told) for told in here.iter_rows(named=True)])
        bars.set_xlim(0, 1.02)
        name_axes(bars, "share, and nine of ten resamplings", "")
        _shape(own, here, shape, figure)
    return figure


def _shape(own: _Searched, here: pl.DataFrame, ax: Any, figure: Figure) -> None:
    """The surface over the two numbers that matter most, or over one, a line a method."""
    forest, points = own.forest(own.x, own.y, 0), own.points(np.random.default_rng(0))
    single = here.filter(pl.col("together_with").is_null(), pl.col("setting") != METHOD).sort("share", descending=True)
    best = [own.names.index(name) for name in single["setting"]]
    measure = own.place["measure"]

    def real(setting: int, at: Floats) -> Floats:
        low, high = own.bounds[setting]
        value = low + at * (high - low)
        return np.asarray(np.exp(value) if own.log[setting] else value)

    if len(best) > 1:
        x, y = best[:2]
        means = _marginal(own, forest, points, (x, y), 16)
        at = own.levels(0, 16)
        shown = ax.pcolormesh(real(x, at), real(y, at), means.T, cmap="viridis", shading="nearest")
        ax.scatter(real(x, own.x[:, x]), real(y, own.x[:, y]), s=9, color="white", edgecolor="black", lw=0.5)
        if own.log[y]:
            ax.set_yscale("log")
        figure.colorbar(shown, ax=ax, label=measure)
        name_axes(ax, own.names[x], own.names[y])
    else:
        x, at = best[0], own.levels(best[0], 24)
        for number, method in enumerate(own.methods):
            several = own.names[-1] == METHOD
            asked = np.column_stack([at, np.full(len(at), number)]) if several else at[:, None]
            colour = COLOURS[number % len(COLOURS)]
            mine = own.x[:, -1] == number if several else np.ones(len(own.y), bool)
            ax.plot(real(x, at), forest.predict(asked), color=colour, lw=1.6, label=method)
            ax.scatter(real(x, own.x[mine, x]), own.y[mine], s=9, color=colour, alpha=0.7, lw=0)
        if len(own.methods) > 1:
            ax.legend(fontsize=7, frameon=False)
        name_axes(ax, own.names[x], measure)
    if own.log[x]:
        ax.set_xscale("log")


def _of(row: dict[str, Any]) -> str:
    return row["setting"] + (f" with {row['together_with']}" if row["together_with"] else "")


def section(shares: pl.DataFrame, ranks: pl.DataFrame, figure: Figure | None) -> Markup:
    """The part of the report; nothing where no setting was searched."""
    if figure is None:
        return Markup("")
    rows = [
        [row["ranker"], _of(row), f"{row['share']:.0%}", f"{row['low']:.0%}–{row['high']:.0%}",
         f"{row['explained']:.0%}", row["runs"]]
        for row in shares.sort("collection", "ranker", "share", descending=[False, False, True]).iter_rows(named=True)
    ]  # fmt: skip
    of_defaults = [
        [row["ranker"], row["method"], row["settings"], f"{row['expected']:.4f}",
         f"{row['rank']:.0f} of {row['drawn'] + 1}", f"{row['low']:.0f}–{row['high']:.0f}",
         "" if row["inside"] else "outside what was drawn"]
        for row in ranks.iter_rows(named=True)
    ]  # fmt: skip
    head = ["ranker", "setting", "share", "nine of ten", "surface foretells", "runs"]
    caption = "Shares with nine of ten resamplings of the runs, and the surface averaged over all other settings."
    return rendered(
        "surface.html",
        shares=table(head, rows, left=2),
        ranks=table(["ranker", "method", "defaults", "expected", "rank", "nine of ten", ""], of_defaults, left=3)
        if of_defaults
        else None,
        figure=embedded("surface", figure, caption),
    )
