"""Maps the embeddings of queries in two dimensions, coloured by category."""

from __future__ import annotations

import textwrap

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from pyrite.cluster.output.methods import METHOD_KEYS, first_runs
from pyrite.cluster.reports.canvas import COLOURS, Look, grid, legend, name_axes
from pyrite.cluster.reports.labels import title_of
from pyrite.cluster.reports.report import Drawing, Section

LEAST = 4
"""The least number of different points in a map."""
OTHER = "other"
# The last of the colours of methods is grey, for rare categories; two more are as far from the others.
PALETTE = (*COLOURS[:-1], "#7B52AB", "#999933")
PERPLEXITY = 30.0


def map_section(trials: pl.DataFrame, vectors: pl.DataFrame | None) -> list[Section]:
    """The map of queries; nothing without embeddings."""
    figure = None if vectors is None else embedding_map(trials, vectors)
    if figure is None:
        return []
    text = (
        "Each point is a query as a method's ranker embeds it (the run of the lowest seed), its colour the query's "
        "category: PCA shows the two directions in which embeddings differ most and keeps distant points apart, t-SNE "
        "keeps near neighbours near, and neither the size of its groups nor the space between them means anything.",
        "A colour that stays together shows that the ranker arranges queries by that category. A map leaves out most "
        "of a space, so if there are figures of the embeddings above, these decide.",
    )
    caption = "Embeddings of queries in two dimensions; queries of rarer categories, or of none, are grey."
    return [Section("Where the queries lie", [*text, Drawing("map", figure, caption)])]


def embedding_map(trials: pl.DataFrame, embeddings: pl.DataFrame) -> Figure | None:
    """Draw each method's embeddings by PCA and by t-SNE (van der Maaten and Hinton 2008), a row per method.

    The most frequent categories have colours, alike in all panels; all others, and queries without one, are grey. Of
    several runs of a method the one of the lowest seed is drawn. Vectors that are not finite are left out, and methods
    with fewer than four different ones; None if no method is left. The same embeddings give the same map, however many
    threads there are.
    """
    points = _points(trials, embeddings)
    maps = []
    for of in points.partition_by(METHOD_KEYS, maintain_order=True):
        vectors = np.array(of["vector"].to_list(), np.float64)
        if len(np.unique(vectors, axis=0)) >= LEAST:
            maps.append((of, *planes(vectors)))
    if not maps:
        return None
    colours = _colours(pl.concat([of for of, *_ in maps]))
    names = [of.select(METHOD_KEYS).row(0) for of, *_ in maps]
    several = len({collection for collection, *_ in names}) > 1
    titles = [f"{title_of(ranker, collection, several)} · {method}" for collection, ranker, method in names]
    figure, axes = grid([textwrap.fill(title, 110) for title in titles], ["", ""], height=3.8)
    shown: set[str] = set()
    for row, (of, pca, tsne, share) in enumerate(maps):
        left, right = axes[2 * row : 2 * row + 2]
        right.set_title("", loc="left")  # the left title is wide enough for both
        categories = [name if name in colours else OTHER for name in of["category"]]
        shown |= set(categories)
        for ax, plane, name in ((left, pca, f"PCA ({share:.0%} of the variance)"), (right, tsne, "t-SNE")):
            _scatter(ax, plane, [colours[category] for category in categories])
            name_axes(ax, name, "")
    if shown != {OTHER}:
        legend(figure, {name: Look(colour, "", "o") for name, colour in colours.items()}, shown, lines=False)
    return figure


def planes(vectors: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
    """Lay vectors of shape [n, dimension] out in two dimensions; at least two of them differ.

    Returns:
        PCA and t-SNE, [n, 2] each, and the share of the variance that PCA's two dimensions hold.
    """
    # Imported here: it takes a second, and most studies have no embeddings.
    from sklearn.decomposition import PCA
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits

    if vectors.shape[1] < 2:
        vectors = np.pad(vectors, ((0, 0), (0, 1)))
    perplexity = min(PERPLEXITY, (len(vectors) - 1) / 3)
    with threadpool_limits(1):  # sums over threads differ in their last bits, and t-SNE blows that up
        pca = PCA(2, svd_solver="full")
        flat = pca.fit_transform(vectors)
        near = TSNE(2, perplexity=perplexity, init="pca", random_state=0).fit_transform(vectors)
    return flat, near.astype(np.float64), float(pca.explained_variance_ratio_.sum())


def _points(trials: pl.DataFrame, embeddings: pl.DataFrame) -> pl.DataFrame:
    """The finite vectors of one finished run of each method, by method, in their order."""
    done = trials.filter(pl.col("run").is_in(embeddings["run"].unique().to_list()), status="done")
    first = first_runs(trials, done["run"].to_list()).sort(METHOD_KEYS).select("run", *METHOD_KEYS)
    finite = pl.col("vector").list.eval(pl.element().is_finite()).list.all()
    known = embeddings.drop("collection", strict=False).drop_nulls("vector").filter(finite)
    return first.join(known, on="run", maintain_order="left_right")


def _colours(points: pl.DataFrame) -> dict[str, str]:
    """A colour for each of the most frequent categories of different queries, and grey for the rest."""
    texts = points.unique(["collection", "query"], keep="first").filter(
        pl.col("category").fill_null("").is_in(["", OTHER]).not_()
    )
    counts = texts.group_by("category").len().sort("len", "category", descending=[True, False])
    return {OTHER: COLOURS[-1], **dict(zip(counts["category"].head(len(PALETTE)), PALETTE, strict=False))}


def _scatter(ax: Axes, plane: NDArray[np.float64], colours: list[str]) -> None:
    order = sorted(range(len(colours)), key=lambda point: colours[point] != COLOURS[-1])  # grey is below
    size = float(np.clip(6000 / len(plane), 6, 30))
    # As pixels: thousands of points would each be an element of the page; of few colours, they take few bytes.
    ordered = [colours[point] for point in order]
    ax.scatter(plane[order, 0], plane[order, 1], s=size, c=ordered, lw=0, rasterized=True, antialiased=False)
    ax.set_aspect("equal", adjustable="datalim")
    ax.set_xticks([])
    ax.set_yticks([])
    for spine in ax.spines.values():
        spine.set(visible=True, linewidth=0.6, alpha=0.4)
