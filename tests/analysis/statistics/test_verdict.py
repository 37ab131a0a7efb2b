"""Tests of verdicts, which recommend a method, and of contrasts: what was made up is found, by seeds and queries."""

import io
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from rich.console import Console

from pyrite.analysis.methods import SWEPT
from pyrite.analysis.reports.analysis_sections import contrasts
from pyrite.analysis.reports.labels import Letters
from pyrite.analysis.reports.report import Report, Section
from pyrite.analysis.reports.verdict_section import NO_COMMANDS, _mining, verdict_section
from pyrite.analysis.reports.verdict_words import WRONG_SIGNS, depends, sentence, verdict_table
from pyrite.analysis.statistics.best_settings import best_settings
from pyrite.analysis.statistics.named_methods import check_contrasts
from pyrite.analysis.statistics.verdict import Conclusion, Verdict
from pyrite.analysis.study_comparison import Comparison
from pyrite.cluster.config.comparison_command import comparison_command
from pyrite.cluster.reports.study_results import COMMANDS
from pyrite.ranking.errors import BadInput
from pyrite.ranking.evaluation.significance import paired_t_test
from tests.cluster.trial_rows import trials_of

QUERIES = 60


def study(
    lead: Mapping[str, float | Mapping[str, float]],
    seconds: Mapping[str, float] | None = None,
    seeds: int = 6,
    rankers: Mapping[str, float] | None = None,
    origins: Sequence[str] = ("bm25",),
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Runs of functions with a lead (by origin), over what seeds and queries have in common."""
    rng, rows, values = np.random.default_rng(0), [], []
    common = rng.normal(0.4, 0.05, (1, QUERIES)) + rng.normal(0, 0.003, (seeds, 1))
    for ranker, more in (rankers or {"static": 0.0}).items():
        for function, above in lead.items():
            for seed in range(seeds):
                run = f"{ranker}{function}{seed}"
                row = {
                    "run": run, "ranker": ranker, "function": function, "seed": seed, "documents_read": 1000,
                    "overrides": f"function={function} seed={seed}", "memory": 300.0,
                    "seconds": (seconds or {}).get(function), "curve_validation": [0.1],
                }  # fmt: skip
                for origin in origins:
                    leads = above if isinstance(above, Mapping) else dict.fromkeys(origins, above)
                    own = common[seed] + leads[origin] + more + rng.normal(0, 0.01, QUERIES)
                    row[f"{origin}:AP@10"] = float(own.mean())
                    values += [{"run": run, "query": f"q{q}", "origin": origin, "AP@10": v} for q, v in enumerate(own)]
                rows.append(row)
    return trials_of(rows), pl.DataFrame(values)


def concluded(
    trials: pl.DataFrame, queries: pl.DataFrame | None, baseline: str | None = None, within: float | None = None
) -> Conclusion:
    summary = Comparison(trials, queries).summary(baseline, within)
    return Comparison(trials, queries).verdict(summary, within, COMMANDS.test_limit)


def test_the_cheapest_of_the_best_is_taken():
    lead = {"none": 0.0, "one": 0.0301, "four": 0.03, "bad": -0.03}
    trials, queries = study(lead, {"none": 10.0, "one": 20.0, "four": 60.0, "bad": 5.0})
    (verdict,) = concluded(trials, queries, "function=none").verdicts
    assert verdict.take == "one · uniform"
    assert verdict.baseline == verdict.rows[0]["method"] == "none · uniform"
    assert set(verdict.better_than) == {"none · uniform", "bad · uniform"}
    assert list(verdict.possible) == ["four · uniform"]
    test, names = verdict.tests["one · uniform"], {f"{name} · uniform": name for name in lead}
    by = f"{test.difference:.4f} (95%: {test.low:.4f} to {test.high:.4f})".replace("0.", ".")
    ahead = f"{verdict.ahead:.4f}"[1:]
    assert sentence(verdict, names) == (
        f"Take one: it is better than none by {by} and takes 2.0 times its time, and better than bad; "
        f"four may be better, by up to {ahead}, and takes 3.0 times its time."
    )
    assert test.low < 0.03 < test.high
    (equal,) = concluded(trials, queries, "function=none", 0.02).verdicts
    assert list(equal.equal) == ["four · uniform"]
    assert "four differs from it by less than .02 and takes 3.0 times its time" in sentence(equal, names)
    (free,) = concluded(trials, queries).verdicts
    assert (free.take, free.baseline, free.reference, free.best) == ("one · uniform", None, "one · uniform", False)
    assert sentence(free, names).startswith("Take one: it is better than none and bad; four may be better, by up to .0")


def test_the_sentence_says_by_how_much_and_at_what_price():
    trials, queries = study({"a": 0.03, "b": 0.0}, {"a": 30.0, "b": 20.0})
    for baseline in ("function=b", None):  # the table compares a with b, or b with a
        (verdict,) = concluded(trials, queries, baseline).verdicts
        text = sentence(verdict, {"a · uniform": "a", "b · uniform": "b"})
        found = re.fullmatch(
            r"Take a: it is better than b by (.*) \(95%: (.*) to (.*)\) and takes 1.5 times its time.", text
        )
        assert found is not None
        lead, low, high = map(float, found.groups())
        means = queries.group_by(pl.col("run").str.slice(6, 1)).agg(pl.col("AP@10").mean()).sort("run")["AP@10"]
        assert lead == pytest.approx(means[0] - means[1], abs=1e-4)
        assert (low + high) / 2 == pytest.approx(lead, abs=1e-4)


def test_without_a_winner_and_of_many_methods_the_sentence_says_what_is_equal_and_the_number():
    trials, queries = study({"a": 0.05, **{f"b{n}": 0.001 * n for n in range(6)}})
    (verdict,) = concluded(trials, queries).verdicts
    assert sentence(verdict).startswith("Take a · uniform: it is the best, ahead of b5 · uniform, the next, by .0")
    (kept,) = concluded(*study({f"b{n}": 0.0 for n in range(6)}), "function=b0").verdicts
    assert "; all 5 others may be better, by up to .0" in sentence(kept)
    trials, queries = study({"a": 0.001, "b": 0.0, "c": 0.0005})
    for within, close, more in ((0.5, "; {b} and c differ from a by less than .5.", False), (0.0001, "", True)):
        (verdict,) = concluded(trials, queries, within=within).verdicts
        best, *others = (row["method"] for row in verdict.rows)
        assert set(verdict.equal) == (set(others) if close else set())
        text = sentence(verdict, dict(zip([best, *sorted(others)], ("a", "{b}", "c"), strict=True)))
        assert text.startswith("No method can be told from the others with ")
        assert close in text
        assert ("To see a difference" in text) == more


@pytest.mark.parametrize("methods", ["abcdef", "abcdefg"])
def test_of_many_that_may_be_the_best_the_recommended_one_is_one(methods):
    rows = [{"method": method, "mean": 0.5, "seconds": None} for method in methods]
    verdict = Verdict({}, rows, take="a", possible=["b", "c", "d", "e"], seeds=5, ahead=0.01)
    assert sentence(verdict).startswith(f"Take a: the best is one of 5 of the {len(methods)} methods")
    assert sentence(replace(verdict, possible=["b"])).startswith("Take a: the best is a or b")


def test_what_is_better_than_the_baseline_is_so_in_all_words():
    """By Holm's method over the baseline's comparisons b is better, over those of b it is not."""
    rows = []
    noise = np.array([-1, 1, -1, 1, -1, 1]) * 0.001
    leads = {
        "a": 0.0 * noise,
        "b": 0.02 + np.array([-20, 10, 25, -8, -2, -5]) * 0.001,
        "c": 0.021 + noise,
        "d": 0.0205 - noise,
    }
    for function, lead in leads.items():
        seconds = 1.0 if function == "b" else 5.0
        for seed in range(6):
            row = {"run": f"{function}{seed}", "function": function, "seed": seed, "seconds": seconds}
            rows.append(row | {"bm25:AP@10": 0.4 + 0.001 * seed + float(lead[seed])})
    (verdict,) = concluded(trials_of(rows), None, "function=a").verdicts
    assert verdict.take == "b · uniform"
    assert verdict.tests["b · uniform"].direction == 1
    assert list(verdict.better_than) == ["a · uniform"]
    assert set(verdict.possible) <= {"c · uniform", "d · uniform"}


def test_the_time_of_a_method_is_the_median_of_its_runs():
    """The first run of a process takes longer, whatever its method."""
    trials, queries = study({"a": 0.0, "b": 0.0}, {"a": 2.0, "b": 4.0}, seeds=3)
    first = (pl.col("function") == "a") & (pl.col("seed") == 0)
    trials = trials.with_columns(pl.when(first).then(100.0).otherwise("seconds").alias("seconds"))
    (verdict,) = concluded(trials, queries, "function=a").verdicts
    assert " and takes 2.0 times its time" in sentence(verdict)


def test_failed_runs_are_named_and_pairs_compared():
    trials, queries = study({"a": 0.0, "b": 0.03, "c": 0.0})
    lost = ["staticb0", *(f"staticc{seed}" for seed in range(6))]
    shift = pl.when(pl.col("run") == "statica0").then(pl.col("bm25:AP@10") - 0.2).otherwise("bm25:AP@10")
    failed = pl.col("run").is_in(lost)
    trials = trials.with_columns(shift.alias("bm25:AP@10")).with_columns(
        pl.when(failed).then(pl.lit("failed")).otherwise("status").alias("status"),
        pl.when(failed).then(None).otherwise("bm25:AP@10").alias("bm25:AP@10"),
    )
    queries = queries.filter(~failed)
    text = " ".join(printed(section_of(trials, queries, "function=a")))
    assert "c · uniform: no run finished. Differences are over the seeds that both methods finished." in text
    (verdict,) = concluded(trials, queries, "function=a").verdicts
    test = verdict.tests["b · uniform"]
    assert test.difference == pytest.approx((test.low + test.high) / 2) == pytest.approx(0.03, abs=0.01)


def test_a_sweep_of_many_values_says_that_they_are_pooled():
    trials, queries = study({"a": 0.0}, seeds=9)
    sweep = pl.Series([[{"key": "negatives.bm25", "value": str(seed)}] for seed in trials["seed"]], dtype=SWEPT)
    text = " ".join(printed(section_of(trials.with_columns(swept=sweep), queries)))
    remedy = "pyrite report OUT 'factors=[negatives.bm25]'"
    assert f"All values of negatives.bm25 are pooled; to compare them: {remedy}." in text
    assert "against" not in text


def search() -> pl.DataFrame:
    """Two methods with two drawn rates each, two seeds per rate."""
    rows = []
    for function, rates in {
        "a": {"0.1": (0.2, 0.4), "0.2": (0.5, 0.3)},
        "b": {"0.3": (0.6, 0.6), "0.4": (0.1, 0.9)},
    }.items():
        for rate, validations in rates.items():
            for seed, validation in enumerate(validations):
                rows.append({
                    "run": f"{function}{rate}{seed}", "function": function, "seed": seed,
                    "overrides": f"ranker=static function={function} path='a b' optimizer.lr={rate} seed={seed}",
                    "swept": [{"key": "optimizer.lr", "value": rate}], "drawn": ["optimizer.lr"],
                    "curve_validation": [0.0, validation, 0.05], "bm25:AP@10": validation / 2,
                })  # fmt: skip
    return trials_of(rows)


def test_the_best_settings_of_a_search_are_those_that_validated_best_over_their_seeds():
    trials = search()
    found = best_settings(trials)
    assert found.select("method", "settings", "tried", "seeds").rows() == [
        ("b · uniform", "optimizer.lr=0.3", 2, 2),
        ("a · uniform", "optimizer.lr=0.2", 2, 2),
    ]
    assert found["validation"].to_list() == pytest.approx([0.6, 0.4])
    assert found["bm25"].to_list() == pytest.approx([0.3, 0.2])
    lacking = trials.with_columns(status=pl.when(pl.col("run") == "b0.30").then(pl.lit("failed")).otherwise("status"))
    assert best_settings(lacking)["settings"].to_list() == ["optimizer.lr=0.4", "optimizer.lr=0.2"]
    command = shlex.split(comparison_command(found, 2))
    assert command[:4] == ["pyrite", "study", "ranker=static", "path=a b"]
    assert command[-1] == "seed=range(2,12)"
    [methods] = [text for text in command if text.startswith("methods=")]
    assert OverridesParser.create().parse_override(methods).value() == [
        {"label": "b · uniform", "overrides": ["function=b", "optimizer.lr=0.3"]},
        {"label": "a · uniform", "overrides": ["function=a", "optimizer.lr=0.2"]},
    ]
    learned = found.tail(1).with_columns(overrides=pl.lit("policy=learned policy.checkpoint=x policy.agent=1 seed=0"))
    assert comparison_command(learned, 2) == (
        "pyrite study policy=learned policy.checkpoint=x seed=0 'seed=range(2,12)'"
    )
    alone = comparison_command(found.tail(1), 2)
    assert alone == "pyrite study ranker=static function=a 'path=a b' optimizer.lr=0.2 'seed=range(2,12)'"


def test_a_search_ends_with_its_best_settings_and_says_why_nothing_is_tested():
    trials = search()
    section = section_of(trials, None)
    text = " ".join(printed(section))
    assert "Nothing is tested: there are two methods without a run of the same seed and settings." in text
    assert "b optimizer.lr=0.3 .6000 .3000 2" in re.sub(" +", " ", text)
    assert "With new seeds: pyrite study ranker=static" in text
    assert section.frames["best_settings.parquet"].height == 2
    same = trials.with_columns(swept=trials["swept"].gather([0, 1, 2, 3] * 2))  # both methods have the same two rates
    assert "with 4 runs" in sentence(Comparison(same).verdict(Comparison(same).summary()).verdicts[0])
    few, _ = study({"a": 0.0, "b": 0.1})
    assert best_settings(few).is_empty()
    assert "best_settings.parquet" not in section_of(few, None).frames


def test_with_one_query_the_note_speaks_of_these():
    trials, queries = study({"a": 0.0, "b": 0.05})
    for frame, words in (
        (queries, "other seeds and other queries"),
        (queries.filter(query="q0"), "other seeds and these queries"),
    ):
        assert words in " ".join(printed(section_of(trials, frame, "function=a")))


def test_nothing_is_taken_if_nothing_can_be_told_apart():
    trials, queries = study({"a": 0.0, "b": 0.0002})
    (verdict,) = concluded(trials, queries).verdicts
    assert verdict.take is None
    assert sentence(verdict).startswith("No method can be told from the others with 6 seeds: the best is at most .0")
    for learned in ("ab", "b"):
        agents = [
            [{"key": "policy.agent", "value": str(seed)}] if function in learned else []
            for seed, function in trials.select("seed", "function").iter_rows()
        ]
        (of_agents,) = concluded(trials.with_columns(swept=pl.Series(agents, dtype=SWEPT)), queries).verdicts
        assert sentence(of_agents).startswith("No method can be told from the others with 6 agents: ")
    (kept,) = concluded(trials, queries, "function=a").verdicts
    assert kept.take == "a · uniform"
    assert sentence(kept).startswith("Keep a · uniform: no method is shown to be better; b · uniform may be better, by")


def test_where_queries_are_too_few_no_number_of_seeds_is_named():
    trials, queries = study({"a": 0.0, "b": 0.0})
    uneven = pl.Series("shift", np.random.default_rng(1).normal(0, 0.2, QUERIES).tolist() * 6)
    of_b = queries.filter(pl.col("run").str.contains("b")).with_columns(pl.col("AP@10") + uneven)
    queries = pl.concat([queries.filter(~pl.col("run").str.contains("b")), of_b])
    means = dict(queries.group_by("run").agg(pl.col("AP@10").mean()).rows())
    trials = trials.with_columns(pl.col("run").replace_strict(means).alias("bm25:AP@10"))
    (verdict,) = concluded(trials, queries).verdicts
    assert verdict.needed == verdict.seeds == 6
    # Two effects of a query with a deviation of .2: (.2 · 2.8 / .01)² queries, about.
    assert verdict.queries == pytest.approx((0.2 * 2.8 / 0.01) ** 2, rel=0.4)
    assert "test queries (60 now) with 6 seeds; more seeds alone are not enough" in sentence(verdict)
    for overrides, more in {
        "limits.test=60": "; limits.test=null takes all",
        "scale=tiny": "; limits.test=null takes all",  # 50
        "limits.test=61": "",
        "limits.test=null": "",
    }.items():
        (verdict,) = concluded(trials.with_columns(overrides=pl.lit(overrides)), queries).verdicts
        assert f"test queries (60 now{more}) with 6 seeds; more seeds alone" in sentence(verdict)
    limited = trials.with_columns(overrides=pl.lit("limits.test=60"))
    checkpoints = [pl.lit([{"key": "ranker.checkpoint", "value": f"/m/{name}"}], SWEPT) for name in "xy"]
    two = [limited.with_columns(pl.col("run") + str(n), swept=each) for n, each in enumerate(checkpoints)]
    values = [queries.with_columns(pl.col("run") + str(n)) for n in range(2)]
    for verdict in concluded(pl.concat(two), pl.concat(values)).verdicts:  # of "static (x)" and "static (y)"
        assert verdict.limit == 60


def with_another_collection(trials: pl.DataFrame, queries: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """A study and the same runs on another collection, which has queries of its own."""
    other = pl.lit("other") + pl.col("run")
    elsewhere = trials.with_columns(run=other, collection=pl.lit("d"), fingerprint=pl.lit("d"))
    other_queries = queries.with_columns(run=other, query=pl.lit("other") + pl.col("query"))
    return pl.concat([trials, elsewhere]), pl.concat([queries, other_queries])


def test_the_queries_of_another_collection_do_not_count():
    """They have no values here: the verdict of each collection is that of a study of it alone."""
    trials, queries = study({"a": 0.0, "b": 0.0002})
    uneven = pl.Series(np.repeat(np.random.default_rng(1).normal(0, 0.01, QUERIES)[None], 6, 0).ravel())
    of_b = queries.filter(pl.col("run").str.contains("b")).with_columns(pl.col("AP@10") + uneven)
    queries = pl.concat([queries.filter(~pl.col("run").str.contains("b")), of_b])
    for seeds in (6, 1):
        few = trials.filter(pl.col("seed") < seeds)
        of_few = queries.filter(pl.col("run").is_in(few["run"].to_list()))
        (alone,) = concluded(few, of_few).verdicts
        both = concluded(*with_another_collection(few, of_few)).verdicts
        assert [verdict.known_queries for verdict in both] == [QUERIES] * 2
        assert [(verdict.needed, verdict.queries) for verdict in both] == [(alone.needed, alone.queries)] * 2
        assert (alone.needed is None) == (seeds == 1)


def test_few_seeds_carry_no_mark():
    trials, queries = study({"a": 0.0, "b": 0.2}, seeds=2)
    assert set(Comparison(trials, queries).summary("function=a")["marks"]) == {""}
    (verdict,) = concluded(trials, queries, "function=a").verdicts
    assert verdict.take is None
    assert "from 3 seeds on" in sentence(verdict)
    more, of_more = study({"a": 0.0, "b": 0.2}, seeds=3)
    assert "*" in Comparison(more, of_more).summary()["marks"][0]


def test_candidates_matter_only_if_a_test_says_so_and_rankers_are_compared():
    both = {"a": {"bm25": 0.03, "full": -0.03}, "b": {"bm25": 0.0, "full": 0.0}}
    trials, queries = study(both, origins=("bm25", "full"))
    (line,) = depends(concluded(trials, queries))
    assert "take a · uniform over bm25 candidates, b · uniform over full candidates" in line
    noise = {"a": {"bm25": 0.0005, "full": -0.0005}, "b": {"bm25": 0.0, "full": 0.0}}
    trials, queries = study(noise, origins=("bm25", "full"))
    assert depends(concluded(trials, queries)) == []
    rest = line.removeprefix("It")
    trials, queries = with_another_collection(*study(both, origins=("bm25", "full")))
    assert depends(concluded(trials, queries)) == [f"On c it{rest}", f"On d it{rest}"]
    trials, queries = study({"a": 0.0, "b": 0.01}, rankers={"static": 0.0, "mine": 0.05})
    assert [line.split(":")[0] for line in depends(concluded(trials, queries))] == [
        "mine with a · uniform is better than static", "mine with b · uniform is better than static",
    ]  # fmt: skip
    summary = Comparison(trials, queries).summary("ranker=static function=a")
    mine = summary.filter(ranker="mine", function="a").row(0, named=True)
    assert mine["baseline"] == "a · uniform"
    assert mine["baseline_difference"] == pytest.approx(0.05, abs=0.01)
    assert mine["baseline_p_both_holm"] < 0.001


def test_origins_that_not_all_runs_have_are_not_compared():
    turned = {"a": {"bm25": 0.03, "full": -0.03}, "b": {"bm25": -0.03, "full": 0.03}, "c": 0.0}
    trials, queries = study(turned, origins=("bm25", "full"))
    assert len(depends(concluded(trials, queries))) == 1
    of_a = pl.col("run").str.starts_with("statica")
    absent = trials.with_columns(pl.when(~of_a).then("full:AP@10").alias("full:AP@10"))  # `a` is of another study
    of_others = queries.filter(~of_a | (pl.col("origin") == "bm25"))
    first = queries.filter(pl.col("run") != "statica0")  # a run without its values per query
    for known in ((absent, of_others), (trials, first)):
        found = concluded(*known)
        assert found.verdicts[0].take == "a · uniform"
        assert depends(found) == []


def test_without_values_per_query_runs_decide_and_one_method_has_nothing_to_compare():
    trials, _ = study({"a": 0.0, "b": 0.05})
    assert verdict_table(concluded(trials, None)).select("take", "better_than").rows() == [
        ("b · uniform", "a · uniform")
    ]
    assert "nothing to compare" in sentence(Verdict({}, [{"method": "a"}]))


def section_of(trials: pl.DataFrame, queries: pl.DataFrame | None, baseline: str | None = None) -> Section:
    summary = Comparison(trials, queries).summary(baseline)
    return verdict_section(Comparison(trials, queries).verdict(summary), summary, trials, Letters(), COMMANDS)


def printed(*sections: Section) -> list[str]:
    out = io.StringIO()
    Report("", list(sections)).to_terminal(Console(file=out, width=80))
    return [line.rstrip() for line in out.getvalue().splitlines()]


def test_a_star_beside_an_interval_with_zero_is_explained():
    trials, queries = study({"none": 0.0, "bm25": 0.03})
    summary = Comparison(trials, queries).summary("function=none")
    conclusion = Comparison(trials, queries).verdict(summary)

    def notes(low: float, p: float) -> bool:
        (verdict,) = conclusion.verdicts
        tests = {method: replace(test, low=low, high=0.04, p=p) for method, test in verdict.tests.items()}
        shown = replace(conclusion, verdicts=[replace(verdict, tests=tests)])
        return "interval that contains 0" in " ".join(printed(verdict_section(shown, summary, trials, Letters())))

    assert notes(-0.001, 0.03)
    assert not notes(0.001, 0.03)
    assert not notes(-0.001, 0.06)


def test_the_terminal_shows_the_best_in_eighty_columns():
    lead = {"none": 0.0, "a_function_with_a_long_name": 0.03, "bad": -0.03}
    trials, queries = study(lead, {"none": 10.0, "a_function_with_a_long_name": 720.0, "bad": 5.0})
    section = section_of(trials, queries, "function=none")
    assert section.last
    assert any("Bold is the mean of the recommended method" in str(part) for part in section.parts)
    lines = printed(section)
    assert max(map(len, lines)) <= 80
    assert "B = a_function_with_a_long_name" in lines
    (row,) = [line for line in lines if line.startswith(" B ")]
    assert all(part in row for part in ("*", "12 min", "72.0×", "1.0k", "300 MiB"))
    assert any(line.startswith("Take a_function_with_a_long_name: it is better than none") for line in lines)
    assert "corrected for all of them (Holm)" in " ".join(lines)
    trials, queries = study({f"a_function_with_the_number_{n}": 0.01 * n for n in range(30)}, seeds=3)
    lines = printed(section_of(trials, queries))
    assert max(map(len, lines)) <= 80
    assert "A = a_function_with_the_number_29" in lines
    assert len([line for line in lines if " MiB" in line]) == 20
    assert "10 more methods: report.html and summary.csv." in lines
    assert "corrected for all of them (over all pairs, Shaffer)" in " ".join(lines)


def test_a_method_has_one_letter_in_all_tables_and_it_is_explained_once():
    long = "a_function_with_a_long_name"
    lead = {"none": 0.0, long: 0.03, "bad": {"bm25": -0.03, "random": 0.1}}
    trials, queries = study(lead, origins=("bm25", "random"))
    summary, letters = Comparison(trials).summary(), Letters()
    verdict = verdict_section(Comparison(trials).verdict(summary), summary, trials, letters)
    planned = contrasts(Comparison(trials, queries).contrasts(["bad", long, "none"], 0.005)[0], letters)
    lines = printed(verdict, planned)
    assert [line for line in lines if line[1:4] == " = "] == [f"A = {long}", "B = none", "C = bad"]
    assert "C against others: AP@10, BM25's top passages" in lines
    assert [line.split()[0] for line in lines if " to -" in line and "MiB" not in line] == ["A", "B"]
    assert max(map(len, lines)) <= 80
    first, second = ([line.split()[0] for line in lines if line.endswith(" MiB")][at : at + 3] for at in (0, 3))
    assert (first, second) == (["A", "B", "C"], ["C", "A", "B"])


def test_a_lead_is_found_by_seed_and_the_best_of_a_kind_stands_for_it():
    trials, queries = study({"bm25": 0.02, "random": 0.0, "tfidf": 0.005, "dense": 0.02}, origins=("bm25", "random"))
    dev = {"bm25": 0.5, "random": 0.3, "tfidf": 0.4, "dense": 0.5}
    trials = trials.reverse().with_columns(
        curve_validation=pl.concat_list(pl.lit(0.1), pl.col("function").replace_strict(dev))
    )
    queries = queries.sample(fraction=1, shuffle=True, seed=1)
    requested = ["function=bm25", "function=random | function=tfidf", "function=dense"]
    found, lines = Comparison(trials, queries).contrasts(requested)
    assert found.height == 4
    assert not lines
    first = found.filter(candidates="bm25")
    assert first["against"].to_list() == ["tfidf · uniform", "dense · uniform"]  # tfidf was better on dev queries
    assert first["difference"].to_list() == pytest.approx([0.015, 0.0], abs=0.002)
    assert (first["low_both"] < first["difference"]).all()
    assert (first["difference"] < first["high_both"]).all()
    assert first[0, "p_holm"] == pytest.approx(4 * first[0, "p"])  # two opponents at two origins
    assert first[0, "p_both_holm"] == pytest.approx(4 * first[0, "p_both"])
    assert first["equal_p"].null_count() == 2
    equal, _ = Comparison(trials, queries).contrasts(["function=bm25", "function=random", "function=dense"], 0.01)
    assert equal[0, "equal_p"] > 0.9
    assert equal[1, "equal_p"] < 0.01
    assert first[0, "p_holm"] < 0.001 < 0.05 < first[1, "p_holm"]
    means = [trials.filter(function=name).sort("seed")["bm25:AP@10"].to_numpy() for name in ("bm25", "tfidf")]
    assert first[0, "p"] == pytest.approx(paired_t_test(*means))
    assert first[0, "std"] == pytest.approx(means[0].std(ddof=1))
    assert "tfidf" in str(contrasts(found).to_html())


def test_a_method_with_a_diverged_run_did_not_validate_best():
    """Its validations are NaN, which counts neither as the highest nor as if the run were not there."""
    trials, queries = study({"bm25": 0.02, "random": 0.0, "tfidf": 0.005})
    dev = pl.col("function").replace_strict({"bm25": 0.5, "random": 0.6, "tfidf": 0.4})
    for diverged in (pl.col("seed") >= 0, pl.col("seed") == 2):
        value = pl.when(diverged, function="random").then(float("nan")).otherwise(dev)
        curves = trials.with_columns(curve_validation=pl.concat_list(value))
        found, _ = Comparison(curves, queries).contrasts(["function=bm25", "function=random | function=tfidf"])
        assert found["against"].to_list() == ["tfidf · uniform"]
    diverged = pl.col("run").is_in(["b0.30", "a0.20"])
    validation = pl.when(diverged).then(pl.lit([float("nan")])).otherwise("curve_validation")
    settings = best_settings(search().with_columns(curve_validation=validation))
    assert settings.select("settings", "validation").rows() == [
        ("optimizer.lr=0.4", 0.5),
        ("optimizer.lr=0.1", pytest.approx(0.3)),
    ]


def test_contrasts_that_can_not_be_made_are_named():
    trials, queries = study({"bm25": 0.02, "random": 0.0, "dense": 0.02}, origins=("bm25",))
    bm25, random, dense = (f"function={name}" for name in ("bm25", "random", "dense"))
    nowhere = "no finished run has 'nowhere' in its overrides; it is left out"
    for requested, count, line in (
        ([bm25, "nowhere", random], 1, nowhere),
        (["nowhere", bm25, random], 0, nowhere),
        ([bm25, random, "bm25"], 1, "'function=bm25' and 'bm25' are both bm25 · uniform; the second is left out"),
    ):
        tested, lines = Comparison(trials, queries).contrasts(requested)
        assert lines == [line]
        assert len(tested) == count
    unpaired = trials.filter((pl.col("function") != "random") | (pl.col("seed") > 1))
    unpaired = unpaired.filter((pl.col("function") != "dense") | (pl.col("seed") < 2))
    tested, lines = Comparison(unpaired, queries).contrasts([random, dense, bm25])
    both = "random · uniform and dense · uniform have no finished run of the same seed over bm25"
    assert lines == [
        f"{both}; they are not compared",
        "8 of 10 runs of random · uniform and bm25 · uniform are compared; the others have not finished, or lack one "
        "of the same seed to compare with",
    ]
    assert tested["against"].to_list() == ["bm25 · uniform"]
    of_random = pl.col("run").is_in(trials.filter(function="random")["run"].to_list()) & (pl.col("query") == "q1")
    other = pl.when(of_random).then(pl.lit("other")).otherwise("query").alias("query")
    for differing in (queries.filter(~of_random), queries.with_columns(other)):  # one query less, or another one
        tested, lines = Comparison(trials, differing).contrasts([bm25, random, dense])
        both = "bm25 · uniform and random · uniform have values of different queries over bm25"
        assert lines == [f"{both}; they are not compared"]
        assert tested["against"].to_list() == ["dense · uniform"]


def test_runs_of_one_seed_are_no_further_queries_in_contrasts():
    trials, queries = study({"a": 0.0, "b": 0.005})
    again = (trials.with_columns(pl.col("run") + "z"), queries.with_columns(pl.col("run") + "z"))
    of_a = again[0].filter(function="a"), again[1].filter(pl.col("run").str.starts_with("statica"))
    once, _ = Comparison(trials, queries).contrasts(["function=a", "function=b"])
    for more in (again, of_a):  # as two agents of both methods, or of one
        twice, lines = Comparison(pl.concat([trials, more[0]]), pl.concat([queries, more[1]])).contrasts(
            ["function=a", "function=b"]
        )
        assert not lines
        assert twice.equals(once)
    other = again[0].with_columns(collection=pl.lit("other"), fingerprint=pl.lit("ffff"))
    both, _ = Comparison(pl.concat([trials, other]), pl.concat([queries, again[1]])).contrasts(
        ["function=a", "function=b"]
    )
    assert both[0, "high_both"] < once[0, "high_both"]  # queries of another collection are others, of any name


def studies_of(*given: tuple[pl.DataFrame, pl.DataFrame]) -> Comparison:
    trials, queries = zip(*given, strict=True)
    return Comparison(pl.concat(trials), pl.concat(queries))


def with_agents(agents: int, luck: float, seed: int) -> Comparison:
    """A learned policy as good as another on average, whose agents are luckier or less lucky than others."""
    rng, given = np.random.default_rng(seed), [study({"b": 0.0}, seeds=4)]
    for agent, shift in enumerate(rng.normal(0, luck, agents)):
        trials, queries = study({"a": shift}, seeds=4)
        swept = pl.lit([{"key": "policy.agent", "value": str(agent)}], SWEPT)
        trials = trials.with_columns(pl.col("run") + f"x{agent}", swept=swept, policy=pl.lit("learned"))
        given.append((trials, queries.with_columns(pl.col("run") + f"x{agent}")))
    return studies_of(*given)


@pytest.mark.parametrize("agents", [2, 4])
def test_contrasts_take_agents_as_a_sample_as_the_summary_does(agents):
    comparison = with_agents(agents, 0.02, seed=agents)
    tested, lines = comparison.contrasts(["function=a", "function=b"], 0.01)
    assert not lines
    found = tested.row(0, named=True)
    summary = comparison.summary("function=b", 0.01).filter(function="a").row(0, named=True)
    assert found["pairs"] == summary["pairs"] == agents
    columns = ("difference", "low_both", "high_both", "p_both", "equal_p")
    for name, of_summary in (*zip(columns, columns, strict=True), ("p", "paired_p")):
        expected = summary[of_summary]
        assert found[name] == (None if expected is None else pytest.approx(expected, rel=1e-6))
    assert (found["p_both"] is None) == (agents == 2)
    if agents == 4:
        assert found["p_both"] > 0.05  # .0001 without the agents


def test_contrasts_are_not_tested_with_two_seeds():
    comparison = Comparison(*study({"a": 0.0, "b": 0.02}, seeds=2))
    (found,) = comparison.contrasts(["function=b", "function=a"], 0.01)[0].to_dicts()
    assert (found["pairs"], found["difference"]) == (2, pytest.approx(0.02, abs=0.004))
    tests = ("low_both", "high_both", "p_both", "p_both_holm", "equal_p", "p", "p_holm")
    assert {found[name] for name in tests} == {None}


def failing(trials: pl.DataFrame, queries: pl.DataFrame, *runs: str) -> tuple[pl.DataFrame, pl.DataFrame]:
    """A study some of whose runs failed."""
    failed = pl.col("run").is_in(list(runs))
    measured = pl.when(failed).then(None).otherwise("bm25:AP@10").alias("bm25:AP@10")
    return trials.with_columns(measured, status=pl.when(failed).then(pl.lit("failed")).otherwise("status")), (
        queries.filter(~failed)
    )


def test_a_failed_run_of_one_ranker_does_not_move_a_contrast():
    trials, queries = study({"a": 0.01, "b": 0.0}, rankers={"static": 0.0, "mp": 0.3}, seeds=5)
    whole, lines = Comparison(trials, queries).contrasts(["function=a", "function=b"])
    assert not lines
    assert whole.select("ranker", "method", "against_ranker", "pairs").rows() == [
        ("mp", "a · uniform", "mp", 5), ("static", "a · uniform", "static", 5)
    ]  # fmt: skip
    found, lines = Comparison(*failing(trials, queries, "mpa2")).contrasts(["function=a", "function=b"])
    assert found["pairs"].to_list() == [4, 5]
    assert found["difference"].to_list() == pytest.approx([0.01, 0.01], abs=0.004)
    both = "a · uniform (mp) and b · uniform (mp)"
    assert lines == [
        f"8 of 10 runs of {both} are compared; the others have not finished, or lack one of the same seed to "
        "compare with"
    ]
    shown = " ".join(printed(contrasts(found)))
    assert all(f"({ranker}) against others" in shown for ranker in ("mp", "static"))
    none = failing(trials, queries, *(f"mpa{seed}" for seed in range(5)))
    found, lines = Comparison(*none).contrasts(["function=a", "function=b"])
    assert found["ranker"].to_list() == ["static"]
    assert lines == ["no finished run of mp has 'function=a' in its overrides"]
    nowhere_both = failing(*none, *(f"staticb{seed}" for seed in range(5)))
    assert Comparison(*nowhere_both).contrasts(["function=a", "function=b"])[0].is_empty()


def test_rankers_are_compared_with_each_other_if_the_methods_share_none():
    comparison = Comparison(*study({"a": 0.0}, rankers={"static": 0.0, "mp": 0.3}, seeds=4))
    named = comparison.trials.with_columns(overrides=pl.format("ranker={} {}", "ranker", "overrides"))
    found, lines = Comparison(named, comparison.queries).contrasts(["ranker=mp", "ranker=static"])
    assert not lines
    assert found.select("ranker", "method", "against_ranker", "against").row(0) == ("mp", "a · uniform", "static",
                                                                                    "a · uniform")  # fmt: skip
    assert found[0, "difference"] == pytest.approx(0.3, abs=0.004)
    assert "a · uniform (static)" in " ".join(printed(contrasts(found)))


def test_a_failed_run_on_one_collection_does_not_move_a_contrast():
    """Its seed is left out on the other collection too; queries of both count together."""
    trials, queries = study({"a": 0.01, "b": 0.0}, seeds=5)
    both = with_another_collection(trials, queries)
    harder = pl.col("AP@10") - pl.when(pl.col("run").str.starts_with("other")).then(0.3).otherwise(0.0)
    trials, queries = failing(both[0], both[1].with_columns(harder), "otherstatica1")
    found, lines = Comparison(trials, queries).contrasts(["function=a", "function=b"])
    assert found["pairs"].to_list() == [4]
    assert found[0, "difference"] == pytest.approx(0.01, abs=0.004)
    assert lines[0].startswith("16 of 20 runs of a · uniform and b · uniform are compared")


def test_the_best_of_a_kind_is_chosen_on_the_collections_that_all_have():
    """c validates worse than b on either collection, but only on the easier one did its runs finish."""
    trials, queries = study({"a": 0.0, "b": 0.01, "c": 0.02}, seeds=3)
    trials, queries = with_another_collection(trials, queries)
    dev = pl.col("function").replace_strict({"a": 0.5, "b": 0.6, "c": 0.5})
    hard = pl.when(collection="d").then(-0.3).otherwise(0.0)
    trials = trials.with_columns(curve_validation=pl.concat_list(dev + hard))
    failed = [f"otherstaticc{seed}" for seed in range(3)]
    found, _ = Comparison(*failing(trials, queries, *failed)).contrasts(["function=a", "function=b | function=c"])
    assert found["against"].to_list() == ["b · uniform"]


def test_an_opponent_that_is_named_twice_is_tested_once():
    trials, queries = study({"a": 0.0, "b": 0.02, "c": -0.02})
    tested, lines = Comparison(trials, queries).contrasts(["function=c", "function=a | function=b", "function=a"])
    assert lines == ["'function=a | function=b' and 'function=a' are both a · uniform; the second is left out"]
    assert tested["p_holm"].to_list() == tested["p"].to_list()


@pytest.mark.parametrize(
    ("requested", "message"),
    [
        (["function=bm25", "function=nowhere"], "'function=nowhere' in its overrides; choose from .*function=bm25"),
        (["function=bm25", "function=bm25"], "compares 'function=bm25' twice; leave one of them out"),
        (["function=bm25", "bm25"], "compares 'function=bm25' and 'bm25', the same runs"),
        (["function=bm25"], "takes two methods"),
    ],
)
def test_contrasts_that_the_plan_does_not_have_are_refused(requested, message):
    trials, _ = study({"bm25": 0.0, "random": 0.0}, origins=("bm25",))
    planned = trials.with_columns(status=pl.lit("failed"))  # nothing has run
    with pytest.raises(BadInput, match=message):
        check_contrasts(planned, requested)
    check_contrasts(planned, ["function=bm25", "function=random"])
    if "choose from" in message:  # by a search, later
        check_contrasts(planned, [*requested, "elsewhere"], complete=False)


def test_contrasts_name_whole_words():
    """Not their beginnings: `negatives=1` is not `negatives=12`."""
    trials, queries = study({"a": 0.0, "b": 0.02, "c": -0.02}, origins=("bm25",))
    numbers = {"a": "1", "b": "4", "c": "12"}
    number = pl.col("function").replace_strict(numbers)
    texts = pl.format("policy=fixed sampling.negatives={} guard.relative=0.05 {}", number, pl.col("overrides"))
    trials = trials.with_columns(overrides=texts)
    tested, lines = Comparison(trials, queries).contrasts(["sampling.negatives=1", "sampling.negatives=4"])
    assert not lines
    assert tested.select("method", "against").row(0) == ("a · uniform", "b · uniform")
    turned = Comparison(trials, queries).contrasts(["function=c policy=fixed", "sampling.negatives=4 policy=fixed"])[0]
    assert turned.select("method", "against").row(0) == ("c · uniform", "b · uniform")
    with pytest.raises(BadInput, match="'guard' in its overrides"):
        check_contrasts(trials, ["guard", "function=a"])
    with pytest.raises(BadInput, match='"one of BM25\'s" in its overrides'):
        check_contrasts(trials, ["one of BM25's", "function=a"])


def test_two_methods_that_a_one_sided_bound_tells_apart_are_not_told_apart():
    values = {"a": (0.5, 0.7, 0.6), "b": (0.4, 0.5, 0.3)}  # p is .074 from two sides, .037 from one
    rows = [
        {
            "run": f"{function}{seed}", "ranker": "static", "function": function, "seed": seed, "documents_read": 1000,
            "overrides": f"function={function} seed={seed}", "memory": 300.0, "seconds": 1.0,
            "curve_validation": [0.1], "bm25:AP@10": value,
        }
        for function, of_seeds in values.items()
        for seed, value in enumerate(of_seeds)
    ]  # fmt: skip
    (verdict,) = concluded(trials_of(rows), None).verdicts
    assert verdict.take is None
    assert not verdict.best
    assert sentence(verdict).startswith("No method can be told from the others with 3 seeds: ")


def test_a_reference_that_the_results_chose_is_compared_in_the_family_of_all_pairs():
    trials, queries = study({"a": 0.02, "b": 0.0, "c": 0.02, "d": -0.01})
    (verdict,) = concluded(trials, queries).verdicts
    assert not verdict.best
    (named,) = concluded(trials, queries, f"function={verdict.reference[0]}").verdicts
    assert named.reference == verdict.reference
    for method, test in verdict.tests.items():
        of_three = named.tests[method]  # three comparisons, and not six
        assert test.difference == of_three.difference
        assert test.high - test.low > of_three.high - of_three.low
        assert test.p >= of_three.p


@pytest.mark.parametrize(("apart", "several"), [(1e-9, False), (0.05, True)])
def test_rankers_that_start_alike_are_one_baseline(apart, several):
    """Processors differ in the last bits; starts that differ by more are said not to be a baseline of all."""
    trials, queries = study({"a": 0.02, "b": 0.0}, seeds=3)
    start = pl.when(seed=1).then(0.3 + apart).otherwise(0.3)
    trials = trials.with_columns(start.alias("bm25:AP@10:untrained"))
    known = trials.select("run", pl.col("bm25:AP@10:untrained").alias("AP@10:untrained"))
    comparison = Comparison(trials, queries.join(known, on="run"))
    summary = comparison.summary("before training")
    conclusion = comparison.verdict(summary)
    assert (conclusion.verdicts[0].baseline is None) == several
    said = " ".join(printed(verdict_section(conclusion, summary, trials, Letters())))
    assert ("Runs start from rankers that differ, so none of them is the baseline here" in said) == several


def test_one_seed_says_up_to_which_gain_it_is_a_coin():
    trials, queries = study({"a": 0.0, "b": 0.05}, seeds=1)
    (verdict,) = concluded(trials, queries).verdicts
    assert verdict.known_queries == QUERIES
    at = next(size for size in sorted(WRONG_SIGNS, reverse=True) if size <= QUERIES)
    assert f"With {QUERIES} queries a gain below {WRONG_SIGNS[at]:.3f}".replace("0.", ".") in sentence(verdict)
    few = queries.filter(pl.col("query").is_in([f"q{number}" for number in range(7)]))
    assert "With 7 queries a gain below .058" in sentence(concluded(trials, few).verdicts[0])
    for known in (concluded(*study({"a": 0.0, "b": 0.05}, seeds=2)), concluded(trials, None)):
        assert "coin" not in sentence(known.verdicts[0])


def test_the_limits_of_one_seed_are_those_of_the_experiment():
    page = (Path(__file__).parents[3] / "docs/experiments/one_seed.md").read_text("utf-8")
    for queries, gain in WRONG_SIGNS.items():
        assert f"\n| {queries} | {gain:.3f} |".replace("0.", ".") in page


@pytest.mark.parametrize(
    ("best", "words"), [(3, "epoch 3 of 5: yes."), (5, "5 of 5: no, more may help (training.max_epochs=10)")]
)
def test_whether_the_ranker_is_trained_long_enough_is_answered_from_its_validation(best, words):
    trials, queries = study({"a": 0.0, "b": 0.05}, seeds=3)
    trials = trials.with_columns(
        best_epoch=pl.lit(best), epochs=pl.lit(5), curve_validation=pl.lit([0.1] * 5), bm25=pl.lit(0.9)
    )
    trials = trials.rename({"bm25": f"{next(name for name in trials.columns if ':' in name)}:bm25"})
    text = " ".join(section_of(trials, queries).parts[1].split())
    assert "has .9000, more than any method here. Is this ranker trained long enough? Validation was best at" in text
    assert words in text


def test_a_line_says_that_negatives_of_a_method_cannot_be_mined():
    def refused(overrides: Sequence[str]) -> str:
        raise BadInput("Memory needs a training")

    trials, queries = study({"a": 0.0, "b": 0.05}, seeds=3)
    [section] = _mining(concluded(trials, queries), trials, replace(NO_COMMANDS, mine=refused))
    assert section.parts == ["Such negatives can't be mined: Memory needs a training."]
    assert section.terminal == ["Such negatives can't be mined: Memory needs a training.", ""]


@pytest.mark.parametrize(("trainer", "says"), [("", True), ("trainer.run=mine.py:train ", False)])
def test_more_epochs_are_suggested_of_a_training_that_reads_them(trainer, says):
    trials, queries = study({"a": 0.0, "b": 0.05}, seeds=3)
    trained = pl.lit(trainer) + pl.col("overrides")
    trials = trials.with_columns(pl.lit(0.9).alias("bm25:AP@10:bm25"), epochs=pl.lit(1), overrides=trained)
    text = " ".join(section_of(trials, queries).parts[1].split())
    assert "has .9000, more than any method here." in text
    assert ("training.max_epochs=4 shows whether more training helps" in text) == says
