"""Every experiment of a paper has its row in papers.md, and the pages are as the archived runs print them."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import yaml

from benchmarks import archives, paper_tables, place_tables, pool_tables, seed_tables
from benchmarks.published import PAPERS
from pyrite.analysis.methods import SWEPT, with_methods
from pyrite.cluster.config.groups import group_options
from tests.cluster.trial_rows import trials_of

INVENTORY: dict[str, Any] = yaml.safe_load((archives.DATA / "papers.yaml").read_text("utf-8"))
ITEMS: list[dict[str, Any]] = [item for paper in INVENTORY["papers"] for item in paper["items"]]


@pytest.mark.nightly
def test_every_published_file_has_a_row():
    published = {path.stem for path in PAPERS.glob("*.yaml")}
    named = {name for item in ITEMS for name in item.get("experiments", [])}
    assert published <= named <= set(group_options()["experiment"])


def test_a_status_is_said_and_what_is_not_run_has_a_reason():
    known = {
        "implemented",
        "repeated",
        "contradicted",
        "contradicted in size",
        "not told apart",
        "not tested",
        "not run",
    }
    assert len(ITEMS) > 70
    for item in ITEMS:
        assert item.get("status") in known if "tests" not in item else item.get("status", "repeated") in known
        assert item.get("status") != "not run" or item["why"]


@pytest.mark.nightly
def test_pages_are_as_printed(capsys):
    paper_tables.main(["--check"])
    assert " 0 differ" in capsys.readouterr().out


def test_a_page_has_a_table_as_printed():
    [marker, *_] = paper_tables.BLOCK.finditer((archives.DOCS / "pooling.md").read_text("utf-8"))
    assert marker[0] == marker[1] + paper_tables._printed(marker[2], marker[3]) + marker[4]


@pytest.mark.nightly
def test_a_page_that_was_edited_is_found(monkeypatch):
    monkeypatch.setattr(paper_tables, "papers", lambda _: "something else")
    with pytest.raises(SystemExit, match=r"papers\.md"):
        paper_tables.main(["--check"])


@pytest.fixture
def made_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> archives.Archive:
    """An archive of two labels by two sizes: `new` is ahead by .25 at each size, in 3 seeds and 4 queries."""
    monkeypatch.setattr(archives, "DATA", tmp_path)
    rng, trials, queries = np.random.default_rng(0), [], []
    for label, gain in (("old", 0.0), ("new", 0.25)):
        for size in ("20", "100"):
            for seed in range(3):
                run = f"{label}-{size}-{seed}"
                values = 0.25 + gain + int(size) / 1000 + rng.normal(0, 0.001, 4)
                pairs = [{"key": "label", "value": label}, {"key": "limits.train", "value": size}]
                trials.append({
                    "run": run, "overrides": f"limits.train={size} optimizer.lr=0.{size}", "collection": "b",
                    "seed": seed, "swept": pairs, "diverged": False, "seconds": 1.0,
                    "curve_dev_loss": [0.0, gain, 0.0, gain + seed / 100], "curve_validation": [gain, 2 * gain, gain],
                    "bm25:AP": float(values.mean()), "bm25:AP:bm25": 0.5,
                })  # fmt: skip
                queries += [{"run": run, "query": f"q{n}", "origin": "bm25", "AP": v} for n, v in enumerate(values)]
    out = tmp_path / "out"
    out.mkdir()
    trials_of(trials).write_parquet(out / "trials.parquet")
    pl.DataFrame(queries).write_parquet(out / "queries.parquet")
    archives.archive("made_up", out, {"baseline": "old", "command": "pyrite study", "timed": False})
    return archives.Archive("made_up")


def test_a_test_decides_the_status(made_up):
    methods = {"archive": "made_up", "first": "new · limits.train=100", "second": "old · limits.train=100"}
    [ours], seeds, least, status = paper_tables._result({"tests": {"here": methods}})
    assert (ours[:5], seeds, status) == ("+.250", "3", "repeated")
    assert float(least) < 0.01
    exchanged = methods | {"first": methods["second"], "second": methods["first"]}
    assert paper_tables._tested(exchanged)[3] == "contradicted"
    assert paper_tables._tested(methods, "not tested")[3] == "not tested"
    steadier = paper_tables._tested(methods | {"figure": "dev loss"})
    assert steadier[1:] == ("3", steadier[2], "repeated")
    both = {"tests": {"one place": methods, "another": exchanged}}
    figures, seeds, least, status = paper_tables._result(both, ["another", "a third", "one place"])
    assert [figure[:5] for figure in figures] == ["−.250", "", "+.250"]
    assert (seeds, status) == ("3", "in part: repeated (one place), contradicted (another)")
    assert len(least.split("; ")) == 2
    one = {"tests": {"one place": methods, "another": methods}}
    assert paper_tables._result(one, ["one place", "another"])[3] == "repeated"


def test_figures_of_whole_runs_by_hand(made_up):
    rows = seed_tables.printed("figures", "made_up: seconds, bm25:AP").splitlines()
    assert rows[1] == "| method | seconds | difference (95%, over seeds) | bm25:AP | difference (95%, over seeds) |"
    assert rows[3].startswith("| new · limits.train=20 | 1.0000 ± .0000 | .0000 (.0000 to .0000) | .5")
    assert rows[3].split(" | ")[4].startswith("+.2499 (+.24")
    assert rows[4].split(" | ")[:3] == ["| **old · limits.train=20**", "1.0000 ± .0000", ""]
    assert made_up.figure("new · limits.train=20", "seconds") == [1.0, 1.0, 1.0]


def test_partial_judgements_by_hand(tmp_path, monkeypatch):
    """By five judgements `a` wins, by all `b` does; `a` gains .2 if its own rankers were pooled."""
    monkeypatch.setattr(archives, "DATA", tmp_path)
    judged = [("judging.order", "mm"), ("judging.budget", "5")]
    fed = [*judged, ("judging.feeders", "[a]")]
    values = [("a", [], 0.1), ("b", [], 0.4), ("a", judged, 0.5), ("b", judged, 0.4), ("a", fed, 0.7), ("b", fed, 0.4)]
    trials = [
        {
            "run": f"{name}-{len(pairs)}-{seed}", "function": name, "seed": seed, "diverged": False,
            "swept": [{"key": key, "value": text} for key, text in [("function", name), *pairs]],
            "bm25:AP": value + seed * (1 + (name == "b")) / 1000, "bm25:AP:bm25": 0.5,
        }
        for name, pairs, value in values for seed in range(3)
    ]  # fmt: skip
    (tmp_path / "few").mkdir()
    trials_of(trials).write_parquet(tmp_path / "few" / "trials.parquet")
    (tmp_path / "few" / "about.json").write_text('{"command": "pyrite study"}', "utf-8")
    assert "| c | mm | 5 | −1.00 | a | b | 0 of 1 | 1 |" in seed_tables.printed("partial", "few")
    assert "| c | a | a | .7010 | .5010 | +.2000 | " in seed_tables.printed("profits", "few")


def test_labels_leave_agents(made_up, tmp_path):
    agents = [[{"key": "policy.agent", "value": str(seed)}] for seed in made_up.trials["seed"]]
    trials = made_up.trials.with_columns(swept=pl.Series(agents, dtype=SWEPT), function=pl.col("run").str.head(3))
    trials.write_parquet(tmp_path / "out" / "trials.parquet")
    labels = {f"{function} · uniform": function for function in ("old", "new")}
    archives.archive("agents", tmp_path / "out", {"baseline": "old"}, labels)
    assert {run.agent for run in archives.Archive("agents").methods("bm25")["new"].runs} == {"0", "1", "2"}


def test_a_label_may_hold_the_ranker(made_up, tmp_path):
    plain = made_up.trials.with_columns(swept=pl.Series([[]] * len(made_up.trials), dtype=SWEPT))
    other = plain.with_columns(pl.lit("dssm").alias("ranker"), pl.format("{} dssm", "run").alias("run"))
    trials = pl.concat([plain, other])
    trials.write_parquet(tmp_path / "out" / "trials.parquet")
    labels = {each: f"{each} · {{ranker}}" for each in with_methods(trials)["method"].unique()}
    archives.archive("rankers", tmp_path / "out", {"baseline": "old"}, labels)
    archive = archives.Archive("rankers")
    assert {name.rsplit(" · ", 1)[1] for name in archive.methods("bm25")} == {"dssm", made_up.trials["ranker"][0]}
    assert archive.place.startswith("dssm, ")


def test_a_method_is_compared_with_all_others_over_places(made_up):
    printed = place_tables.places("new · limits.train=100", [made_up, made_up])
    means, best, each = (part.splitlines() for part in printed.split("\n\n") if part.startswith("|"))
    assert means[2].startswith("| **new · limits.train=100** | **.60")
    assert means[2].endswith("| +.2500 | .100 .100 |")  # dev: .5 of two methods, 0 of two
    assert best[2].startswith("| b | new · limits.train=20 | +.0")
    assert best[2].count("| 1.00 |") == 2  # .08 is not within .005
    rivals = [row.split(" | ")[0] for row in each[2:]]
    assert rivals == ["| new · limits.train=20", "| old · limits.train=100", "| old · limits.train=20"]


def test_a_method_is_compared_with_the_baseline_of_its_factors(made_up):
    assert made_up.baseline("new · limits.train=20") == "old · limits.train=20"
    rows = [line for line in paper_tables.comparison(made_up).splitlines() if line.startswith(("| new", "| **old"))]
    sizes = [f"| new{size} **old{size}**" for size in (" · limits.train=20", " · limits.train=100")]
    assert [f"{new.split(' | ')[0]} {old.split(' | ')[0][2:]}" for new, old in (rows[:2], rows[2:])] == sizes
    assert all("+.25" in row and "4/0" in row for row in rows if "new" in row)
    assert "these runs show a difference of .0" in paper_tables.comparison(made_up)


def test_a_way_costs_the_documents_that_it_reads(made_up):
    read = {"new": 300, "old": 100}
    trials = made_up.trials.with_columns(documents_read=pl.col("run").str.head(3).replace_strict(read))
    trials.write_parquet(archives.DATA / "made_up" / "trials.parquet")
    rows = paper_tables.comparison(archives.Archive("made_up")).splitlines()
    assert [row.rsplit(" | ", 1)[1] for row in rows if row.startswith("| ")][2:] == ["3.0× |", "1.0× |"] * 2
    against = archives.Archive("made_up", "new")
    rows = paper_tables.comparison(against).splitlines()
    assert sum("| 0.3× |" in row for row in rows if row.startswith("| old")) == 2
    assert "Differences are from **new**" in paper_tables.comparison(against)


@pytest.fixture
def pooled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a pooling study: `mm` finds 3 or 4 documents by seed, `mtf` one less on one of three topics."""
    monkeypatch.setattr(archives, "DATA", tmp_path)
    rows = [
        {"pool": "p", "method": method, "seed": seed, "budget": budget, "topic": topic, "judged": 9,
         "found": 3 + seed - (method == "mtf" and not topic)}
        for method in ("mm", "mtf") for seed in range(2) for budget in (5, 0) for topic in range(3)
    ]  # fmt: skip
    pl.DataFrame(rows).write_parquet(tmp_path / "budgets.parquet")
    pl.DataFrame({"seconds": [1.0]}).write_parquet(tmp_path / "trials.parquet")
    seeds = {"pool": "p", "method": "mm", "seed": [0, 1], "budget": 5}
    of_seed = {"relevant": [9.0, 13.0], "relevant_low": [8.0, 12.0], "relevant_high": [11.0, 14.0]}
    shares = {"topics_covered": 0.5, "map_covered": 1.0, "p10_covered": 0.25, "map_bias": -0.25, "map_rmse": 0.5}
    pl.DataFrame(seeds | of_seed | shares | {"relevant_true": 10.0, "tau": [0.25, 0.75]}).write_parquet(
        tmp_path / "estimates.parquet"
    )
    quality = {"tau": [0.5, 1.0], "inf_tau": 1.0, "drop": [3.0, 2.0], "lowest_recall": 0.0}
    pl.DataFrame(seeds | quality).write_parquet(tmp_path / "ranking_quality.parquet")
    fallen = {"pool": "p", "method": "mm", "budget": 5, "team": ["a", "b"], "run": ["a", "b"], "fallen": [0.0, 10.5]}
    pl.DataFrame(fallen).write_parquet(tmp_path / "reuse.parquet")
    return tmp_path


def test_pools_stand_beside_the_paper(pooled):
    (pooled / "papers.yaml").write_text("pools: {mm: [3, 4]}", "utf-8")
    for name in ("a", "b"):
        pool_tables.archive_pools(name, pooled, {"command": f"pyrite pool {name}"})
    printed = pool_tables.printed("pools", "a b")
    assert "| mm, paper | 3 | 4 |\n| ours | 3.50 | 3.50 |" in printed
    assert "pyrite pool b" in printed
    item = {"found": {"archive": "a", "method": "mm", "budget": 5}, "seeds": 2, "status": "repeated"}
    assert paper_tables._result(item, ["here", "there"]) == (["3.50", ""], "2", "", "repeated")


@pytest.mark.parametrize(
    ("marker", "rows"),
    [
        ("found a: mtf, mm, mm − mtf", ["| mtf | 3.17 |", "| mm | **3.50** |", "| mm − mtf | +.33 |", "| p | .423 |"]),
        ("found a: mtf, (mm)", ["| mtf | **3.17** |", "| mm | 3.50 |"]),
        ("estimates a: mm", ["| mm | 5 | 11.00 | 2.24 | 50% | 50% | −.250 | .500 | 100% | .500 | 25% |"]),
        ("ranking a 5: mm", ["| mm | .750 (2) |"]),  # the mean of 3 and 2, to the even number
        ("reuse a: mm", ["| judged | p: 5 |", "| mm | 5.25 (10) |"]),
    ],
)
def test_pooling_tables_by_hand(pooled, marker, rows):
    pool_tables.archive_pools("a", pooled, {"command": "pyrite pool"})
    printed = pool_tables.printed(*marker.split(" ", 1))
    assert [row for row in rows if f"{row}\n" not in printed] == []
    assert printed.endswith("```\npyrite pool\n```\n\n")


@pytest.mark.parametrize("path", sorted(archives.DATA.glob("*/rates.parquet")), ids=lambda path: path.parent.name)
def test_a_methods_rate_is_the_best_on_dev_queries(path):
    archive, means = archives.Archive(path.parent.name), pl.read_parquet(path)
    means = means.group_by("arm", "lr").agg(pl.col("dev").mean(), seeds=pl.col("seed").n_unique())
    assert means["seeds"].unique().to_list() == [3]
    assert set(means["arm"]) == set(archive.methods("bm25"))
    for (method,), rates in means.group_by("arm"):
        assert len(rates) == 3
        assert place_tables.rate(archive, str(method)) == rates.sort("dev")["lr"][-1]


def test_no_archive_holds_a_path_of_the_machine_it_was_made_on():
    archived = sorted(archives.DATA.glob("*/trials.parquet"))
    assert archived
    for path in archived:
        assert not [text for text in pl.read_parquet(path)["overrides"] if re.search(r"=[\'\"]*/", text)], path
