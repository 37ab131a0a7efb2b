"""Lists the titles and sentences of a pooling study's page and terminal; braces are filled in by the section."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyrite.analysis.counted import counted
from pyrite.analysis.reports.report import SectionWords
from pyrite.analysis.statistics.pool_summary import PoolConclusion, Unjudged

Case = tuple[Callable[[PoolConclusion], bool], str]
"""A condition, and the text that is used if it holds."""

TITLE = "In which order to judge: {}"
WARNING = "Warning: {}."
SIMULATED = "{methods}, {seeds} each; simulated in {seconds:.1f} seconds of one core."
TO_COME = "{} more are to come: the study is still running."
FAILED = "Failed"
METHODS = "Methods"
CONFIGURATION = "Configuration"
FOUND = SectionWords(
    "Relevant documents found",
    "Means over topics and seeds, as in tables 2 and 3 of Losada et al. 2016. The test pairs topics, of means "
    "over seeds, and is adjusted by Holm's method for all methods of a column. A mark means different, not "
    "better. Below the mean is the 95% bootstrap interval over topics and seeds: it is wide because topics "
    "differ, while the test compares the same topics.",
)
FOUND_TABLE = "Relevant documents found per topic, after N judgements"
BOLD = "Bold: the most found."
MARK = " * differs from {}: t-test over topics, p < .05, Holm."
GAINED_FIGURE = (
    "Relevant documents found beyond those of {}, against judgements on a log scale; means over topics and seeds. A "
    "line may leave the panel."
)
FOUND_FIGURE = (
    "Relevant documents found against judgements, means over topics and seeds. A small pool is judged whole "
    "before the budget of a large one is spent."
)
CONTRASTS = SectionWords("Contrasts named beforehand", "Paired t-test over topics, each contrast by itself; * p < .05.")
CONTRASTS_TABLE = "Contrasts named beforehand: how many more relevant documents per topic"
EFFORT = SectionWords(
    "Effort",
    "The area is that under the curve of relevant documents found, as a share of what finding all at once would "
    "give. The other columns are the judgements per topic that find this share of the pool's relevant documents. "
    "Means over seeds.",
)
ALL_FIGURES = "{}: all figures"
RANKING_QUALITY = SectionWords(
    "How well the judgements rank the runs",
    "The runs are ranked by mean AP (and by mean infAP) with the judgements of a budget, and compared with their "
    "ranking by AP with all judgements: Kendall's τ, τ_AP, which gives the top more weight, and the most ranks "
    "that a run loses. infAP assumes a uniform sample of the pool, which only a random order gives; its bias is "
    "part of what is shown.",
)
RANKING_FIGURE = (
    "Correlation of the ranking of the runs by the judgements so far with their ranking by all judgements. The "
    "worst tenth of the lines may leave a panel."
)
STOPPING = SectionWords(
    "When to stop",
    "Judgements per topic; means over seeds. Recall is the share found of all documents judged relevant, in the "
    "pool or not; whether a topic reaches the target depends on the relevant documents in the pool alone.",
)
STOPPING_FIGURE = "Where each rule would have stopped: a method is better the further right and up it is."
ESTIMATES = SectionWords(
    "Estimates",
    "Estimates of the whole pool from the judgements of a sampling order. Over the seeds: bias and root mean "
    "squared error of the relevant documents per topic, and how often the 95% interval holds the truth; then how "
    "often each topic's does, and the same for the runs' MAP and P@10. MAP from few judgements is biased (by −.016 "
    "to +.023 from 30 sampled ones, in simulations), and its interval then holds the truth less often than it says "
    "(88%).",
)
ESTIMATES_FIGURE = (
    "Relevant documents estimated from each budget's judgements, every seed, against those in the pool (the "
    "line); and the error of the runs' estimated MAP, and how often its 95% intervals hold the truth."
)
FAIRNESS = SectionWords(
    "Fairness",
    "Unique is the share of the relevant documents found that only the runs of one team hold; depth is the number "
    "of documents of a run that are judged before the first that is not, mean over runs and of the run with the "
    "least; crowded is the share of topics with more than a third of their judged documents relevant, so that "
    "many more must be expected unjudged (Voorhees 2018).",
)
REUSE = SectionWords(
    "Runs that took no part",
    "Each team is left out in turn: the pool is made and judged without its runs, which are then evaluated with "
    "those judgements. Lost is AP, fallen are ranks, against the same budget spent on the whole pool (seed 0).",
)
REUSE_FIGURE = "How far a run falls among all runs if the pool is made and judged without its team's runs."

FIRST: Sequence[Case] = (
    (lambda pool: pool.best is None, "{pool}: no judged document is relevant."),
    (
        lambda pool: pool.other is None,
        "{pool}: {best} finds 90% of the relevant documents after {judgements} per topic.",
    ),
    (
        lambda pool: pool.other_after == pool.after,
        "{pool}: {best} finds 90% of the relevant documents after {judgements} per topic, {other} too.",
    ),
    (
        lambda pool: True,
        "{pool}: {best} finds 90% of the relevant documents after {judgements} per topic, {other} after "
        "{other_after:,.0f}.",
    ),
)
"""Which method is first; the first case that holds is used, here and below."""
TESTED: Sequence[Case] = (
    (lambda pool: not pool.tested, ""),
    (lambda pool: not pool.better_at, " At no budget does {best} find significantly more than {baseline}."),
    (
        lambda pool: len(pool.better_at) == pool.tested,
        " {best} finds more than {baseline} at every budget (t-test over topics, p < .05, Holm).",
    ),
    (
        lambda pool: True,
        " {best} finds more than {baseline} at {budgets} judgements (t-test over topics, p < .05, Holm).",
    ),
)
"""What is tested."""
WITHOUT_JUDGEMENT = "without a judgement, taken as not relevant: {count:,} of {documents} ({share:.0%}); {remedy}"
FITS = "the judgements fit depth={}"
NO_DEPTH = "none of its depths is judged throughout: use other judgements"
LEADS = "{} up to {:,} judgements"
BY_BUDGET = " By budget, within 5% of the most found: {}, then {}."


def pool_sentence(conclusion: PoolConclusion) -> str:
    """Return the conclusion of a pool in words."""
    facts = vars(conclusion) | {
        "judgements": counted(round(conclusion.after), "judgement"), "budgets": ", ".join(conclusion.better_at),
    }  # fmt: skip
    first, tested = (next(text for holds, text in cases if holds(conclusion)) for cases in (FIRST, TESTED))
    text = (first + tested).format(**facts)
    early = [LEADS.format(*leader) for leader in conclusion.leaders[:-1]]
    return text + (BY_BUDGET.format(", ".join(early), conclusion.leaders[-1][0]) if early else "")


def unjudged_warning(found: Unjudged) -> str:
    """Return a warning about documents without a judgement."""
    remedy = NO_DEPTH if found.depth is None else FITS.format(found.depth)
    documents = counted(found.of, "pooled document")
    share = found.count / found.of
    return WITHOUT_JUDGEMENT.format(count=found.count, documents=documents, share=share, remedy=remedy)
