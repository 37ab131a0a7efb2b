"""Describes one action of a policy: a function, ranks of its list, a selector by scores, and a share of the queries."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pyrite.ranking.errors import BadInput, refuse
from pyrite.sampling.policies.shares import reindexed, share_negatives, share_queries
from pyrite.sampling.selection.ahns import AHNS
from pyrite.sampling.selection.dynamic import Dynamic
from pyrite.sampling.selection.from_margin import FromMargin
from pyrite.sampling.selection.selector import Selector
from pyrite.sampling.selection.simans import SimANS
from pyrite.sampling.selection.top import Top
from pyrite.sampling.selection.uniform import Uniform

SELECTORS: dict[str, Callable[[int], Selector]] = {
    "ahns": lambda candidates: AHNS(candidates=candidates),
    "dynamic": lambda candidates: Dynamic(0.0, candidates),
    "from_margin": lambda candidates: FromMargin(candidates=candidates),
    "simans": lambda candidates: SimANS(candidates=candidates),
    "top": lambda candidates: Top(),
    "uniform": lambda candidates: Uniform(),
}
"""Selectors by name, of a number of candidates."""
CANDIDATES = 16


@dataclass(frozen=True)
class Action:
    """Where the negatives of some batches come from.

    >>> str(Action.parse("bm25:1-20@dynamic:64*.5"))
    'bm25:1-20@dynamic:64*0.5'

    Args:
        function: name of the function that supplies the negatives.
        window: first and last rank of the function's list that are visible; None for all.
        selector: name of the selector, a key of `SELECTORS`; None for the run's. `dynamic` picks the highest score.
        candidates: documents per query that the selector draws and scores; None for 16.
        share: the share of the queries, or of their negatives, that the function supplies; the first function supplies
            the rest. With `each`, a whole number above 1 gives every query that multiple of `each` negatives.
    """

    function: str
    window: tuple[int, int] | None = None
    selector: str | None = None
    candidates: int | None = None
    share: float = 1.0

    def __str__(self) -> str:
        window = "" if self.window is None else f":{self.window[0]}-{self.window[1]}"
        number = "" if self.candidates is None else f":{self.candidates}"
        selector = "" if self.selector is None else f"@{self.selector}{number}"
        return f"{self.function}{window}{selector}" + ("" if self.share == 1 else f"*{self.share:g}")

    @classmethod
    def parse(cls, text: str) -> Action:
        """Parse `FUNCTION[:FIRST-LAST][@SELECTOR[:CANDIDATES]][*SHARE]`.

        Raises:
            BadInput: if the text has another form.
        """
        match = re.fullmatch(r"(\w+)(?::(\d+)-(\d+))?(?:@(\w+)(?::(\d+))?)?(?:\*(\d*\.?\d+))?", str(text))
        remedy = "write bm25, bm25:1-10 for its ranks, bm25@dynamic:64 for a selector, bm25*.5 for a share"
        if match is None:
            raise BadInput(f"can't read the action {text!r}", "actions", remedy)
        name, first, last, selector, candidates, share = match.groups()
        if selector is not None and selector not in SELECTORS:
            raise BadInput(f"no selector {selector!r} in {text!r}", "actions", f"choose one of {', '.join(SELECTORS)}")
        size = float(share or 1)
        window = (int(first), int(last)) if first else None
        in_order = window is None or 1 <= window[0] <= window[1]
        refuse(
            (size > 1 and not size.is_integer()) or not int(candidates or 1) or not in_order,
            f"can't read the action {text!r}",
            "actions",
            "ranks count from 1, a share is 0 to 1 or a whole number, and candidates 1 or more",
        )
        return cls(name, window, selector, int(candidates) if candidates else None, size if share else 1.0)

    def selectors(self) -> dict[str, Selector]:
        """Return the selector of its function by name; empty if that is the run's."""
        return {} if self.selector is None else {self.function: SELECTORS[self.selector](self.candidates or CANDIDATES)}

    def check_ranks(self, depth: int) -> None:
        """Raise `BadInput` if its ranks begin beyond the lists of its function.

        Args:
            depth: the length of these lists; 0 if the function has none.
        """
        if self.window is None or self.window[0] <= depth:
            return
        lists = f"lists of {depth} documents" if depth else "no lists, so that its documents have no ranks"
        remedy = f"choose ranks up to {depth}, or raise function.{self.function}.depth" if depth else "leave them out"
        raise BadInput(f"{self} names ranks, and {self.function} has {lists}", "actions", remedy)

    def check(self, functions: Sequence[str]) -> None:
        """Raise `BadInput` if the run has no such function."""
        refuse(
            self.function not in functions,
            f"no function {self.function!r}",
            "actions",
            f"choose one of {', '.join(functions)}",
        )

    def assign(
        self,
        functions: Sequence[str],
        queries: int,
        count: int,
        each: int | None,
        rng: np.random.Generator,
        times: int = 1,
    ) -> NDArray[np.int64]:
        """Return the index of the function of each negative, int64 [queries, count], −1 for none.

        Args:
            functions: names of the functions, which the indices refer to; the first supplies what the action does not.
            each: if it is a number, the first function supplies all queries, and the action's function supplies `each`
                negatives to its share of them. None gives the action its share of each query's negatives.
            times: the multiple of `each` that is not supplied by the first function, whatever the action.

        Raises:
            BadInput: if nothing is left for the first function, or a share above 1 is of negatives.
        """
        index = functions.index(self.function)
        if each is None and self.share == 1:
            return np.full((queries, count), index, np.int64)
        if each is None:
            refuse(
                self.share > 1,
                f"{self} is a multiple of policy.each, which is not given",
                "actions",
                "give policy.each=1",
            )
            chosen = share_negatives(np.array([1 - self.share]), queries, count, rng)
            return reindexed(chosen, np.array([0, index]))
        own_times = max(int(self.share), 1)
        # The first function's part is the same for all actions of a policy.
        width = count - each * (max(times, own_times) * (len(functions) - 1) - own_times)
        chosen = share_queries(np.array([0.0, min(self.share, 1.0)]), queries, width, each * own_times, rng)
        # An action of the first function adds nothing to what it supplies anyway.
        chosen = np.where(chosen == 1, index or -1, chosen)
        padded = np.full((queries, count), -1, np.int64)
        padded[:, : chosen.shape[1]] = chosen
        return reindexed(padded, np.arange(len(functions)))
