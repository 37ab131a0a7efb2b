"""Puts the facts of a verdict into sentences: each is used if its condition holds."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence

import polars as pl

from pyrite.analysis.counted import counted
from pyrite.analysis.reports.labels import known, signed, signed_interval, without_zero
from pyrite.analysis.statistics.comparison import LEAST_SEEDS
from pyrite.analysis.statistics.verdict import Conclusion, OriginDependence, RankerTest, Verdict

WRONG_SIGNS = {50: 0.058, 100: 0.036, 200: 0.024, 400: 0.015}
"""The gain of one seed up to which one sign in ten is wrong, by the number of test queries: AP@100 of static vectors,
in docs/experiments/one_seed.md."""
MORE_OF = {
    **dict.fromkeys(("seeds", "runs"), f"seeds={LEAST_SEEDS}"),
    "agents": f"policy.agent=range(0,{LEAST_SEEDS}), or selector.agent= of a selector that learns",
}
"""The option with which a study gets enough to be tested, by what it counts."""
WHOLE_NAMES: Mapping[str, str] = {}
LISTED = 4
"""The most methods that a sentence names; of more it gives the number."""
SCHEMA = {
    **dict.fromkeys(("collection", "ranker", "candidates", "measure", "baseline", "take"), pl.String()),
    "best": pl.Boolean(),
    **dict.fromkeys(("better_than", "possible", "equal"), pl.String()),
    **dict.fromkeys(("lead", "lead_low", "lead_high", "ahead"), pl.Float64()),
    "sentence": pl.String(),
}
"""Columns of verdict.csv; several methods are joined by "; "."""


class Words:
    """The phrases of one verdict.

    Args:
        names: short names of methods; a method that has none keeps its own.
    """

    def __init__(self, verdict: Verdict, names: Mapping[str, str]) -> None:
        self.verdict = verdict
        self.names = names
        self.take = verdict.chosen

    def name(self, method: str) -> str:
        """Return the short name of a method."""
        return self.names.get(method, method)

    def listed(self, methods: Sequence[str], last: str = "and") -> str:
        """Return the names of some methods, or their number if there are many."""
        count = len(self.verdict.rows) - len(self.verdict.left_out) - 1
        if len(methods) > LISTED:
            return f"all {count} others" if len(methods) == count else f"{len(methods)} of the {count} others"
        *others, final = map(self.name, methods)
        return f"{', '.join(others)} {last} {final}" if others else final

    def which_is_best(self) -> str:
        """Return the names of the methods that may be the best, the recommended one too, or their number."""
        methods = [self.take, *self.verdict.possible]
        if len(methods) > LISTED:
            return f"one of {len(methods)} of the {len(self.verdict.rows)} methods"
        return self.listed(methods, "or")

    def price(self, methods: Sequence[str], than: str) -> str:
        """Return the training time of some methods in times of another one's."""
        seconds = self.verdict.seconds
        base, costs = seconds.get(than), [seconds[method] for method in methods]
        if not base or None in costs:
            return ""
        low, high = min(costs) / base, max(costs) / base
        verb = "take" + "s" * (len(methods) == 1)
        if low > 0.95 and high < 1.05:
            return f" and {verb} as long to train"
        span = f"{low:.1f}" if f"{low:.1f}" == f"{high:.1f}" else f"{low:.1f} to {high:.1f}"
        return f" and {verb} {span} times its time"

    def too_few(self) -> str:
        """Say from how many seeds on something is tested, and how to get them."""
        unit, rows = self.verdict.unit, self.verdict.rows
        lost = max(row["runs"] for row in rows) >= LEAST_SEEDS and any(row["failed"] for row in rows)
        more = "--resume runs what failed" if lost else f"{MORE_OF[unit]}; --resume keeps the runs so far"
        return (
            f"Nothing is tested with {counted(self.verdict.seeds, unit[:-1])}: a difference can be marked from "
            f"{LEAST_SEEDS} {unit} on ({more}).{self.coin()}"
        )

    def left_out(self) -> str:
        """Say which methods are not tested."""
        left, unit = self.verdict.left_out, self.verdict.unit
        share = f"{', '.join(map(self.name, left))} {'shares' if len(left) == 1 else 'share'}"
        return f" {share} fewer than {LEAST_SEEDS} {unit} with others, and can't be compared."

    def coin(self) -> str:
        """Say how large a gain of one seed must be to mean something; nothing with several seeds."""
        queries, sizes = self.verdict.known_queries, [*WRONG_SIGNS]
        if self.verdict.seeds != 1 or not queries:
            return ""
        least = sizes[max(bisect_right(sizes, queries) - 1, 0)]
        return (
            f" With {queries:,} queries a gain below {places(WRONG_SIGNS[least])} from one seed is little more than a "
            f"coin: one sign in ten or more is wrong (with {least}, in studies of 20 seeds)."
        )

    def lead(self) -> str:
        """Return by how much the recommended method is ahead, with the interval and its price."""
        lead = self.verdict.lead
        assert lead is not None
        by = f"by {places(lead.difference, '.4f')} (95%: {places(lead.low, '.4f')} to {places(lead.high, '.4f')})"
        return f"{by}{self.price([self.take], lead.against)}"

    def others(self) -> list[str]:
        """Return the methods that the recommended one is better than, other than the one of its lead."""
        lead = self.verdict.lead
        assert lead is not None
        return [method for method in self.verdict.better_than if method != lead.against]

    def is_close(self) -> str:
        """Say which methods differ by less than the margin."""
        return self.within_margin(self.name(self.verdict.reference))

    def is_close_to_it(self) -> str:
        """Say which methods differ from the recommended one by less than the margin, and their price."""
        return self.within_margin("it") + self.price(self.verdict.equal, self.take)

    def within_margin(self, reference: str) -> str:
        """Say which methods differ from another one by less than the margin."""
        equal = self.verdict.equal
        differ = "differ" + "s" * (len(equal) == 1)
        return f"{self.listed(equal)} {differ} from {reference} by less than {places(self.verdict.margin)}"

    def open(self) -> list[str]:
        """Return the methods that may be the best and are not shown to differ little."""
        return [method for method in self.verdict.possible if method not in self.verdict.equal]

    def may_be_better(self) -> str:
        """Say which methods may be better, and by how much at most."""
        by = f"by up to {places(self.verdict.ahead, '.4f')}" if self.is_bounded() else "by how much is not known"
        return f"{self.listed(self.open())} may be better, {by},{self.price(self.open(), self.take)}".removesuffix(",")

    def is_bounded(self) -> bool:
        """Return whether it is known how far the best may be ahead: not if a difference is the same in all seeds."""
        return math.isfinite(self.verdict.ahead)

    def not_told(self) -> str:
        """Say how far ahead the best may be, if no method is recommended."""
        told = f"No method can be told from the others with {self.verdict.seeds} {self.verdict.unit}"
        if self.is_bounded():
            return f"{told}: the best is at most {places(self.verdict.ahead, '.4f')} ahead of {self.name(self.take)}"
        return f"{told}: two differ by the same in all of them, which bounds nothing"

    def sample(self) -> str:
        """Return the sample that would show a small difference; empty if it is not known."""
        verdict, unit = self.verdict, self.verdict.unit
        if verdict.queries is not None:
            here = verdict.known_queries
            more = "; limits.test=null takes all" * (verdict.limit is not None and here >= verdict.limit)
            now = f" ({here:,} now{more})" if here else ""
            alone = f"; more {unit} alone are not enough"
            enough = f"about {verdict.queries:,} test queries{now} with {verdict.needed} {unit}{alone}"
        elif verdict.needed is not None and verdict.needed > verdict.seeds:
            enough = f"about {verdict.needed} {unit}" + (", for other queries too" if verdict.known_queries else "")
        else:
            return ""
        return f" To see a difference of {places(verdict.margin)} takes {enough}."


Rule = tuple[Callable[[Words], bool], Callable[[Words], str]]
ALONE: Sequence[Rule] = (
    (lambda w: len(w.verdict.rows) < 2, lambda w: "There is one method, so there is nothing to compare."),
    (
        lambda w: not w.verdict.seeds,
        lambda w: "Nothing is tested: there are two methods without a run of the same seed and settings.",
    ),
    (lambda w: w.verdict.seeds < LEAST_SEEDS, Words.too_few),
)
"""Sentences that are the whole verdict; the first whose condition holds is used."""
FIRST: Sequence[Rule] = (
    (lambda w: w.verdict.take is None, Words.not_told),
    (
        lambda w: w.take == w.verdict.baseline and not w.verdict.better_than,
        lambda w: f"Keep {w.name(w.take)}: no method is shown to be better",
    ),
    (
        lambda w: w.take == w.verdict.baseline,
        lambda w: f"Keep {w.name(w.take)}: it is better than {w.listed(w.verdict.better_than)}",
    ),
    (
        lambda w: w.verdict.best and w.verdict.baseline is None and len(w.verdict.tests) > 1,
        lambda w: (
            f"Take {w.name(w.take)}: it is the best, ahead of {w.name(w.verdict.lead.against)}, the next, "  # type: ignore[union-attr]
            f"{w.lead()}"
        ),
    ),
    (
        lambda w: w.verdict.lead is not None,
        lambda w: (
            f"Take {w.name(w.take)}: it is better than {w.name(w.verdict.lead.against)} {w.lead()}"  # type: ignore[union-attr]
            + (f", and better than {w.listed(w.others())}" if w.others() else "")
        ),
    ),
    (
        lambda w: bool(w.verdict.better_than),
        lambda w: f"Take {w.name(w.take)}: it is better than {w.listed(w.verdict.better_than)}",
    ),
    (
        lambda w: True,
        lambda w: f"Take {w.name(w.take)}: the best is {w.which_is_best()}",
    ),
)
"""Beginnings of a verdict; the first whose condition holds is used."""
THEN: Sequence[Rule] = (
    (lambda w: w.verdict.take is None and bool(w.verdict.equal), Words.is_close),
    (lambda w: w.verdict.take is not None and bool(w.verdict.equal), Words.is_close_to_it),
    (lambda w: w.verdict.take is not None and bool(w.open()), Words.may_be_better),
)
"""What follows; all whose condition holds are used."""
LAST: Sequence[Rule] = (
    (lambda w: bool(w.verdict.left_out), Words.left_out),
    (
        lambda w: (not w.verdict.better_than and bool(w.open())) or w.verdict.take is None,
        lambda w: "" if len(w.verdict.equal) == len(w.verdict.rows) - 1 else w.sample(),
    ),
)


def sentence(verdict: Verdict, names: Mapping[str, str] = WHOLE_NAMES) -> str:
    """Return the verdict in words, with short names of methods if they are given."""
    words = Words(verdict, names)
    alone = next(_said(ALONE, words), None)
    if alone is not None:
        return alone
    parts = [next(_said(FIRST, words)), *_said(THEN, words)]
    return "; ".join(parts) + "." + "".join(_said(LAST, words))


def _said(rules: Sequence[Rule], words: Words) -> Iterator[str]:
    """Yield the sentences whose condition holds."""
    return (say(words) for condition, say in rules if condition(words))


def training(verdict: Verdict, names: Mapping[str, str] = WHOLE_NAMES) -> str:
    """Say whether training helps a ranker that starts from a checkpoint; empty if that is not tested."""
    if verdict.trained is None:
        return ""
    method, test = verdict.trained
    name = Words(verdict, names).name(method)
    low, high = (places(bound, "+.4f") for bound in (test.low, test.high))
    shown = f"{name} has {places(test.difference, '+.4f')} against the ranker before training (95%: {low} to {high})"
    return f"{TRAINING[test.direction]}: {shown}."


def depends(conclusion: Conclusion) -> list[str]:
    """Return sentences on the rankers whose verdict depends on what is ranked, or on which ranker is ahead."""
    return [*map(_of_origins, conclusion.origins), *map(_of_rankers, conclusion.rankers)]


def _of_origins(found: OriginDependence) -> str:
    (one, other), (a, b) = found.origins, found.methods
    chosen = f"take {a} over {one} candidates, {b} over {other} candidates"
    verdict = f"On {found.collection} it" if found.collection else "It"
    return f"{verdict} depends on the candidates (p = {found.p:.2g}): {chosen}."


TRAINING = {1: "Training helps", -1: "Training harms", 0: "Whether training helps is open"}
RANKERS = {1: "is better than", -1: "is worse than", 0: "can't be told from"}
"""What is said of a test, by its direction."""
UNTESTED = "{name} against {reference}: {figures}; nothing is tested with fewer than {least} seeds."


def _of_rankers(found: RankerTest) -> str:
    test = found.test
    figures = "".join(filter(None, [signed(test.difference), IN_BRACKETS(test.low, test.high), P_OF(test.p)]))
    name = f"{found.ranker} with {found.method}" + (f" on {found.collection}" if found.collection else "")
    if test.pair.pairs < LEAST_SEEDS:
        return UNTESTED.format(name=name, reference=found.reference, figures=figures, least=LEAST_SEEDS)
    return f"{name} {RANKERS[test.direction]} {found.reference}: {figures}."


IN_BRACKETS = known(lambda low, high: f" ({signed_interval(low, high)})")
P_OF = known(", p = {:.2g}".format)
"""Figures that are left out if they are not known."""


def verdict_table(conclusion: Conclusion) -> pl.DataFrame:
    """Return the table in verdict.csv."""
    rows = [
        {
            **verdict.place, "baseline": verdict.baseline, "take": verdict.take, "best": verdict.best,
            **{name: "; ".join(getattr(verdict, name)) for name in ("better_than", "possible", "equal")},
            **({} if verdict.lead is None else {"lead": verdict.lead.difference, "lead_low": verdict.lead.low,
                                                "lead_high": verdict.lead.high}),
            "ahead": verdict.ahead if verdict.tests and math.isfinite(verdict.ahead) else None,
            "sentence": f"{sentence(verdict)} {training(verdict)}".strip(),
        }
        for verdict in conclusion.verdicts
    ]  # fmt: skip
    return pl.DataFrame(rows, schema=SCHEMA)


def places(number: float, form: str = "g") -> str:
    """Return a number without the zero before its point."""
    return without_zero(f"{number:{form}}")
