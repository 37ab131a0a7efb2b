import base64
import re
from typing import Any

import numpy as np
import polars as pl
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from pyrite.cluster.reports.canvas import COLOURS, svg
from pyrite.cluster.reports.embedding_map import PALETTE, embedding_map, planes

TWO = [("fixed", "bm25", "uniform", 0.3), ("fixed", "random", "uniform", 0.2)]
GREY = COLOURS[-1].lower()


def made_up_embeddings(
    runs: list[str], count: int = 24, categories: int = 3, collection: str = "pydocs", dimension: int = 5
) -> pl.DataFrame:
    """Queries in groups far apart, a category each: category c0 has most."""
    rng = np.random.default_rng(4)
    of = np.sort(np.arange(count) % categories)
    return pl.DataFrame(
        [
            {
                "run": run, "collection": collection, "query": f"q{query}", "category": f"c{category}",
                "subcategory": None, "vector": (rng.normal(size=dimension) + 20 * category).tolist(),
            }
            for run in runs for query, category in enumerate(of)
        ],
        schema_overrides={"subcategory": pl.String, "vector": pl.List(pl.Float32)},
    )  # fmt: skip


def study(made_up_study: Any, seeds: int = 1, **given: Any) -> tuple[pl.DataFrame, list[str]]:
    trials, _ = made_up_study(seeds=seeds, methods=TWO, **given)
    return trials, trials["run"].to_list()


def colours(figure: Figure, panel: int) -> list[str]:
    """The colour of each point of a panel."""
    return [to_hex(colour) for colour in figure.axes[panel].collections[0].get_facecolor()]


def legend_of(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.legends[0].texts]


def test_a_row_a_method_and_a_colour_a_category(made_up_study):
    trials, runs = study(made_up_study)
    figure = embedding_map(trials, made_up_embeddings(runs))
    titles = [ax.get_title(loc="left") for ax in figure.axes]
    assert titles == ["feed_forward · bm25 · uniform", "", "feed_forward · random · uniform", ""]
    assert re.fullmatch(r"PCA \(\d+% of the variance\)", figure.axes[0].get_xlabel())
    assert figure.axes[1].get_xlabel() == "t-SNE"
    assert legend_of(figure) == ["c0", "c1", "c2"]
    for panel, ax in enumerate(figure.axes):
        assert (len(ax.get_xticks()), len(ax.get_yticks())) == (0, 0)
        assert colours(figure, panel) == [colour.lower() for colour in PALETTE[:3] for _ in range(8)]
        points = np.asarray(ax.collections[0].get_offsets()).reshape(3, 8, 2)
        own = np.linalg.norm(points - points.mean(axis=1, keepdims=True), axis=2).max()
        centres = points.mean(axis=1)
        assert own < min(np.linalg.norm(centres[a] - centres[b]) for a, b in ((0, 1), (0, 2), (1, 2)))


def test_rare_and_missing_categories_are_grey_and_below(made_up_study):
    trials, runs = study(made_up_study)
    embeddings = made_up_embeddings(runs, count=66, categories=11)  # six queries each; of equals the first by name
    embeddings = embeddings.with_columns(
        category=pl.when(pl.col("query") == "q0").then(None).when(pl.col("query") == "q1").then(pl.lit(""))
        .when(pl.col("query") == "q65").then(pl.lit("other")).otherwise("category")
    )  # fmt: skip
    figure = embedding_map(trials, embeddings)
    # c0 with four and c10 (which is before c2) with five left are the rarest.
    assert legend_of(figure) == [*(f"c{number}" for number in range(1, 10)), "other"]
    drawn = colours(figure, 0)
    assert drawn[:12] == [GREY] * 12
    assert drawn.count(GREY) == 12
    assert len(set(drawn)) == 10


def test_without_categories_there_is_no_legend_and_one_good_run_of_a_method_is_drawn(made_up_study):
    trials, runs = study(made_up_study, seeds=2, failed=1)
    embeddings = made_up_embeddings([*runs, "of another study"]).with_columns(category=pl.lit(None, pl.String))
    figure = embedding_map(trials, embeddings)
    assert [ax.get_title(loc="left") for ax in figure.axes[::2]] == [
        "feed_forward · bm25 · uniform", "feed_forward · random · uniform",
    ]  # fmt: skip
    assert figure.legends == []
    assert set(colours(figure, 3)) == {GREY}
    others = embeddings.filter(~pl.col("run").is_in([runs[0], runs[3]]))  # a failed one, and the second of a method
    again = embedding_map(trials, others)
    for panel, ax in enumerate(figure.axes):
        assert (ax.collections[0].get_offsets() == again.axes[panel].collections[0].get_offsets()).all()


def test_collections_and_dimensions_may_differ(made_up_study):
    one, other = study(made_up_study), study(made_up_study, collection="medquad")
    embeddings = [made_up_embeddings(one[1], 8), made_up_embeddings(other[1], 6, 2, "medquad", dimension=3)]
    figure = embedding_map(pl.concat([one[0], other[0]]), pl.concat(embeddings))
    assert [ax.get_title(loc="left").split(" · ")[0] for ax in figure.axes[::2]] == [
        *["feed_forward on medquad"] * 2,
        *["feed_forward on pydocs"] * 2,
    ]


def test_methods_of_too_few_points_and_vectors_that_are_not_finite_are_left_out(made_up_study):
    trials, runs = study(made_up_study)
    three, four = (made_up_embeddings([run], count) for run, count in zip(runs, (3, 4), strict=True))
    figure = embedding_map(trials, pl.concat([three, four]))
    assert len(figure.axes) == 2
    assert embedding_map(trials, three) is None
    assert embedding_map(trials, three.clear()) is None
    collapsed = made_up_embeddings(runs).with_columns(vector=pl.lit([1.0, 1.0], pl.List(pl.Float32)))
    assert embedding_map(trials, collapsed) is None
    broken = made_up_embeddings(runs[:1], 8).with_columns(
        vector=pl.when(pl.col("query") == "q0").then(pl.lit([np.nan] * 5, pl.List(pl.Float32)))
        .when(pl.col("query") == "q1").then(pl.lit([np.inf] * 5, pl.List(pl.Float32)))
        .when(pl.col("query") == "q2").then(None).otherwise("vector")
    )  # fmt: skip
    figure = embedding_map(trials, broken)
    assert len(colours(figure, 0)) == 5


@pytest.mark.by_day(1)
@pytest.mark.parametrize(("count", "dimension"), [(4, 1), (4, 2), (40, 7), (80, 3)])
def test_planes(count, dimension):
    vectors = np.random.default_rng(count).normal(size=(count, dimension))
    pca, tsne, share = planes(vectors)
    assert pca.shape == tsne.shape == (count, 2)
    assert np.isfinite(tsne).all()
    centred = vectors - vectors.mean(axis=0)
    singular = np.linalg.svd(centred, compute_uv=False)
    assert share == pytest.approx((singular[:2] ** 2).sum() / (singular**2).sum())
    assert np.linalg.norm(pca, axis=0) == pytest.approx(np.pad(singular[:2], (0, 2 - len(singular[:2]))))
    again = planes(vectors)
    assert (again[0] == pca).all()
    assert (again[1] == tsne).all()


def test_points_are_pixels(made_up_study):
    trials, runs = study(made_up_study)
    figure = embedding_map(trials, made_up_embeddings(runs, 60))
    element = svg(figure, "map")
    images = re.findall(r'href="data:image/png;base64,([^"]*)"', element)
    assert len(images) == 4
    assert all(base64.b64decode(image).startswith(b"\x89PNG") for image in images)
    assert element.count("<use") < 50
    assert len(element) < 150_000
    assert element == svg(figure, "map")
