import numpy as np
import polars as pl
import pytest
from scipy import stats

from pyrite.analysis.statistics.convergence import convergence, rate_interval

DIFF, RAW = "policy.learn=['agent=ac','reward=diff']", "policy.learn=['agent=ac','reward=raw']"


def learned(learn: str, agent: int, *values: float | None) -> list[tuple[str, float | None]]:
    return [(f"policy=learned {learn} policy.agent={agent}", value) for value in values]


RUNS: list[tuple[str, float | None]] = [
    ("policy=random", 0.10),
    ("policy=random", 0.30),  # 0.20 on average
    *learned(DIFF, 0, 0.10, 0.40),  # 0.25: better
    *learned(DIFF, 1, 0.10, 0.29),  # 0.195: not
    *learned(DIFF, 2, 0.50, None),  # 0.50: better
    *learned(RAW, 0, 0.20, 0.20),  # as good is not better
    *learned(RAW, 1, None, None),  # nothing is known of it
    ("policy=fixed function=bm25", 0.60),
]


def test_rates_by_hand(written_trials):
    trials = written_trials(RUNS)
    rates, by_agent = convergence(trials)
    diff, raw = rates.sort("mean", descending=True).iter_rows(named=True)
    assert diff["method"] == "learned(random+bm25) · uniform · reward=diff"
    assert (diff["agents"], diff["better"], diff["rate"]) == (3, 2, pytest.approx(2 / 3))
    assert diff["mean"] == pytest.approx((0.10 + 0.40 + 0.10 + 0.29 + 0.50) / 5)
    assert diff["best"] == pytest.approx(0.50)
    assert diff["better_mean"] == pytest.approx((0.10 + 0.40 + 0.50) / 3)
    assert (diff["random"], diff["random_mean"]) == ("random(random+bm25) · uniform", pytest.approx(0.20))
    assert diff["difference"] == pytest.approx(diff["mean"] - 0.20)
    assert diff["t_p"] == pytest.approx(stats.ttest_ind([0.25, 0.195, 0.50], [0.1, 0.3]).pvalue)  # of agents
    assert diff["ks_p"] is None
    assert (diff["pairs"], diff["paired_p"]) == (0, None)  # no seeds in common
    assert diff["t_p_holm"] == pytest.approx(min(1, 2 * diff["t_p"]))  # two comparisons: this has the least p
    assert (raw["agents"], raw["better"], raw["rate"], raw["better_mean"]) == (1, 0, 0.0, None)
    found = by_agent.filter(pl.col("method").str.ends_with("diff"))
    assert found.select("agent", "runs", "better").rows() == [("0", 2, True), ("1", 2, False), ("2", 1, True)]
    assert found["mean"].to_list() == pytest.approx([0.25, 0.195, 0.50])
    for seed in range(5):  # whatever the order of the runs
        shuffled = trials.sample(fraction=1, shuffle=True, seed=seed)
        assert all(frame.equals(other) for frame, other in zip(convergence(shuffled), (rates, by_agent), strict=True))


def test_agents_are_held_against_the_random_policy_of_their_seeds_and_stand_in_their_order(written_trials):
    seeds = [seed for _ in range(4) for seed in (0, 1)]
    runs = [("policy=random", 0.1), ("policy=random", 0.4)]
    runs += [*learned(DIFF, 0, 0.2, 0.5), *learned(DIFF, 1, 0.1, 0.6), *learned(DIFF, 2, 0.5, 0.6)]  # .1, .1, .3 more
    found = convergence(written_trials(runs).with_columns(seed=pl.Series(seeds)))[0].row(0, named=True)
    assert (found["pairs"], found["agents"], found["rate"]) == (3, 3, 1.0)
    assert found["paired_p"] == pytest.approx(stats.ttest_1samp([0.1, 0.1, 0.3], 0).pvalue)
    assert found["sign_p"] == pytest.approx(2 / 8)
    runs = [run for agent in (10, 9, 0) for run in learned(DIFF, agent, 0.1)]
    assert convergence(written_trials(runs))[1]["agent"].to_list() == ["0", "9", "10"]


def test_an_agent_whose_run_failed_is_compared_over_the_seeds_that_it_has(written_trials):
    runs = [("policy=random", 0.6), ("policy=random", 0.6), ("policy=random", 0.1)]
    runs += [*learned(DIFF, 0, 0.55, 0.55, None), *learned(DIFF, 1, 0.5, 0.5, 0.05)]  # worse at every seed
    rates, agents = convergence(written_trials(runs).with_columns(seed=pl.Series([0, 1, 2] * 3)))
    assert rates.select("agents", "better", "rate").rows() == [(2, 0, 0.0)]
    assert agents["random_mean"].to_list() == pytest.approx([0.6, 1.3 / 3])


def test_without_agents_or_a_random_policy_there_is_no_rate(written_trials):
    trials = written_trials([run for run in RUNS if "random" not in run[0]])
    found, agents = convergence(trials)
    assert found["agents"].to_list() == [3, 1]
    for column in ("better", "rate", "better_mean", "random", "random_mean", "difference", "t_p", "ks_p"):
        assert found[column].null_count() == 2
    assert agents["better"].null_count() == 4
    trials = written_trials([("policy=random", 0.1), ("policy=learned", 0.2), ("policy=learned", 0.3)])
    found, agents = convergence(trials)
    assert agents["agent"].to_list() == ["-"]
    assert found.select("agents", "rate", "mean").rows() == [(1, 1.0, 0.25)]
    for frame in (*convergence(trials.filter(policy="random")), *convergence(trials.clear())):
        assert frame.is_empty()


def test_the_random_policy_or_documents_most_like_it_are_taken(written_trials):
    trials = written_trials(
        [
            ("policy=random function=bm25+random selector=uniform", 0.1),
            ("policy=random function=bm25+random selector=dynamic", 0.2),
            ("policy=random function=bm25+tfidf selector=dynamic", 0.3),
            ("policy=learned function=random+bm25 selector=dynamic", 0.9),  # the same two functions
            ("policy=learned function=tfidf+random selector=top", 0.8),  # of no random policy: the uniform one serves
            ("policy=fixed function=bm25 selector=learned selector.agent=4", 0.7),  # documents: likewise
        ]
    )
    found, agents = convergence(trials)
    assert dict(found.select("method", "random").iter_rows()) == {
        "learned(random+bm25) · dynamic": "random(bm25+random) · dynamic",
        "learned(tfidf+random) · top": "random(bm25+random) · uniform",
        "bm25 · learned": "random(bm25+random) · uniform",
    }
    assert set(agents["agent"]) == {"-", "4"}
    trials = written_trials(
        [
            ("policy=random", 0.5),
            ("policy=fixed function=bm25 selector=uniform", 0.4),
            ("policy=fixed function=tfidf selector=uniform", 0.2),
            ("policy=fixed function=tfidf selector=dynamic", 0.6),
            ("policy=fixed function=tfidf selector=learned selector.agent=0", 0.3),
        ]
    )
    assert convergence(trials)[0].select("random", "random_mean", "rate").rows() == [("tfidf · uniform", 0.2, 1.0)]


def test_other_settings_rankers_and_collections_are_never_mixed(written_trials):
    trials = written_trials(
        [
            ("policy=random objective=hinge", 0.1),
            ("policy=random objective=softmax", 0.3),
            ("policy=learned objective=hinge policy.agent=0", 0.2),
            ("policy=learned objective=softmax policy.agent=0", 0.2),
            ("policy=learned objective=ranknet policy.agent=0", 0.2),
        ],
        ("objective", "policy.agent"),
    )
    rates = {row["method"].split("=")[-1]: row["rate"] for row in convergence(trials)[0].iter_rows(named=True)}
    assert rates == {"hinge": 1.0, "softmax": 0.0, "ranknet": None}
    runs = [("policy=random", 0.3), ("policy=learned policy.agent=0", 0.2)]
    other = [(f"{text} ranker=match_pyramid", value) for text, value in [("policy=random", 0.1), runs[1]]]
    frames = written_trials([*runs, *other]), written_trials([*runs, *other], collection="cranfield")
    found = convergence(pl.concat(frames))[0].select("collection", "ranker", "rate").rows()
    assert found == [(c, *r) for c in ("cranfield", "medquad") for r in (("feed_forward", 0.0), ("match_pyramid", 1.0))]


def test_the_interval_of_a_rate_is_no_narrower_than_that_of_a_share():
    rng = np.random.default_rng(0)
    chance = pl.DataFrame({"seed": range(5), "value": [0.3] * 5})
    values = 0.4 + 0.01 * rng.random(15)
    sure = pl.DataFrame({"agent": list("abc") * 5, "seed": np.repeat(range(5), 3), "value": values})
    assert rate_interval(sure, chance) == pytest.approx((0.025 ** (1 / 3), 1.0))  # three of three: p³ = .025
    assert rate_interval(sure.filter(seed=0), chance) == (None, None)
    # All agents share what their seeds do to them: they may all be above the mean or all below it.
    luck = np.repeat(rng.normal(0, 0.1, 5), 16)
    together = pl.DataFrame({
        "agent": [f"{agent:02}" for agent in range(16)] * 5, "seed": np.repeat(range(5), 16),
        "value": 0.3 + luck + rng.normal(0, 0.001, 80),
    })  # fmt: skip
    assert rate_interval(together, chance) == (0.0, 1.0)


def test_the_interval_counts_agents_with_a_failed_run():
    """An agent is compared at the seeds that it has; a seed that one lacks is not taken from the others."""
    chance = pl.DataFrame({"seed": range(3), "value": [0.6, 0.6, 0.1]})
    whole = {"agent": ["a"] * 3, "seed": [*range(3)], "value": [0.5, 0.5, 0.9]}  # better for the third seed alone
    failed = {"agent": ["b"] * 2, "seed": [0, 1], "value": [0.55, 0.55]}
    runs = pl.concat([pl.DataFrame(whole), pl.DataFrame(failed)])
    low, high = rate_interval(runs, chance)
    exact = stats.binomtest(1, 2).proportion_ci(0.95, method="exact")
    assert low <= exact.low
    assert high >= exact.high
