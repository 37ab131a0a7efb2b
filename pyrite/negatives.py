"""Describes where negatives come from: retrieval functions with their numbers, selectors and policies.

>>> from pyrite import BM25, InBatch, Random, Schedule
>>> InBatch() + BM25(1)
InBatch() + BM25(1)
>>> print(*Schedule(Random(), BM25(depth=50), epochs=3).overrides()[:3])
policy=schedule function=[random,bm25] function.bm25.depth=50
"""

from __future__ import annotations

import re
from typing import Any

from pyrite.parts import Part, is_whole
from pyrite.ranking.errors import BadInput


class Negatives:
    """Retrieval functions that supply a query's negatives together.

    >>> from pyrite import BM25, Negatives, Random
    >>> Negatives(Random(2), BM25(1)).overrides()
    ['policy=fixed', 'function=[random,bm25]', 'negatives.random=2', 'negatives.bm25=1', 'selector=uniform']

    Args:
        functions: the functions; a `RetrievalFunction` of your own is one too.
        policy: the policy that chooses among them; a `SamplingPolicy` of your own is one too. None takes the number of
            each function from every query.
    """

    def __init__(self, *functions: object, policy: object = None) -> None:
        self.functions = [Function.wrap(function) for function in functions]
        self.policy = None if policy is None else Part.of("policy", policy)
        if not self.functions:
            raise BadInput("negatives need a retrieval function", remedy="give one, as InBatch() or BM25(1)")
        names = [function.label for function in self.functions]
        for name in names:
            if names.count(name) > 1:
                remedy = "give one of them a name, as BM25(1, name='deep') or Function.own(YOURS, name='deep')"
                raise BadInput(f"two functions are called {name}", remedy=remedy)

    def __add__(self, other: object) -> Negatives:
        more = other.functions if isinstance(other, Negatives) else [Function.wrap(other)]
        return Negatives(*self.functions, *more, policy=self.policy)

    def __radd__(self, other: object) -> Negatives:
        return Negatives(other) + self

    def overrides(self) -> list[str]:
        """Return the overrides of one method of a study."""
        named = [function for function in self.functions if function.target is None]
        policy = self.policy
        texts = policy.choice() if isinstance(policy, Policy) else policy.overrides() if policy else ["policy=fixed"]
        texts.insert(1, f"function=[{','.join(function.choice for function in named)}]")
        settings = [text for function in self.functions for text in function.under(f"function.{function.label}")]
        counts = [f"negatives.{each.label}={each.count}" for each in self.functions if each.count is not None]
        if len(self.functions) == 1 and self.functions[0].pick is not None:
            picks = self.functions[0].pick.overrides()
        else:
            picks = ["selector=uniform"]
            for function in self.functions:
                if function.pick is not None:
                    picks += function.pick.overrides(f"selector.{function.label}")
        return [*texts[:2], *settings, *texts[2:], *counts, *picks]

    def __repr__(self) -> str:
        functions = " + ".join(map(repr, self.functions))
        return f"{self.policy!r} over {functions}" if self.policy else functions


class Function(Part):
    """A retrieval function.

    >>> from pyrite import BM25, Function
    >>> isinstance(BM25(), Function), BM25(1, k1=1.2).options
    (True, {'k1': 1.2})

    Args:
        count: how many negatives it supplies to each query. None takes `sampling.negatives`, or all that the batch has
            for `InBatch`.
        pick: what picks the negatives from its candidates: a selector, or a `Selector` of your own. None picks at
            random.
        name: the name of the function in tables, if it is used twice.
        options: options of the function (`pyrite options function=NAME`).
    """

    group = "function"

    def __init__(
        self, count: int | None = None, *, pick: object = None, name: str | None = None, **options: Any
    ) -> None:
        super().__init__(**options)
        self._supply(count, pick, name or self.name)

    def _supply(self, count: int | None, pick: object, name: str) -> None:
        if count is not None and not is_whole(count, 0):
            raise BadInput(f"{type(self).__name__}: count is {count!r}", remedy="choose a whole number from 0 up")
        if not re.fullmatch(r"\w*", name):
            raise BadInput(f"name is {name!r}", type(self).__name__, "choose letters, digits and _")
        self.count, self.label = None if count is None else int(count), name
        self.pick = None if pick is None else Part.of("selector", pick)

    @classmethod
    def own(cls, thing: object, count: int | None = None, *, pick: object = None, name: str | None = None) -> Function:
        """Return a `RetrievalFunction` of the user's own with a number of negatives, a selector or a name.

        Args:
            thing: an object of the class, or the class.
            count, pick: see `Function`.
            name: the name of the function in tables. None takes that of the class.
        """
        function = Function.of("function", thing)
        if function.target is None:
            raise BadInput(f"{thing!r} is no function of your own", "Function.own", "give it what it needs, as BM25(1)")
        function._supply(count, pick, name or function.target.rpartition(".")[2].lower())
        return function

    @classmethod
    def wrap(cls, thing: object) -> Function:
        """Return a function as it is, or one for a `RetrievalFunction` of the user's own."""
        if isinstance(thing, Function) or (isinstance(thing, type) and issubclass(thing, Part)):
            return Function.of("function", thing)
        return cls.own(thing)

    @property
    def choice(self) -> str:
        """The function as an entry of `function=[…]`."""
        return self.name if self.label == self.name else f"{self.name}@{self.label}"

    def overrides(self, at: str | None = None) -> list[str]:
        return Negatives(self).overrides()

    def __add__(self, other: object) -> Negatives:
        return Negatives(self) + other

    def __radd__(self, other: object) -> Negatives:
        return Negatives(other) + self

    def __repr__(self) -> str:
        own = [] if self.count is None else [str(self.count)]
        own += [f"{key}={value!r}" for key, value in self.options.items()]
        own += [] if self.pick is None else [f"pick={self.pick!r}"]
        return f"{type(self).__name__ if self.target is None else self.target.rpartition('.')[2]}({', '.join(own)})"


class Policy(Part):
    """A policy over retrieval functions.

    >>> from pyrite import BM25, Policy, Random, Schedule
    >>> isinstance(Schedule(Random(), BM25()), Policy)
    True

    Args:
        functions: the functions it chooses among, easy to hard for a schedule.
        options: options of the policy (`pyrite options policy=NAME`).
    """

    group = "policy"

    def __init__(self, *functions: object, **options: Any) -> None:
        super().__init__(**options)
        self.negatives = Negatives(*functions, policy=self)

    def overrides(self, at: str | None = None) -> list[str]:
        return self.negatives.overrides()

    def choice(self) -> list[str]:
        """Return the overrides that choose the policy and set its options, without its functions."""
        return [f"policy={self.name}", *self.settings("policy")]

    def __repr__(self) -> str:
        given = [repr(function) for function in self.negatives.functions]
        given += [f"{key}={value!r}" for key, value in self.options.items()]
        return f"{type(self).__name__}({', '.join(given)})"


def as_negatives(thing: object) -> Negatives:
    """Return negatives of anything that can stand for them: a function, a sum, a policy, a class of the user's own."""
    if isinstance(thing, Negatives):
        return thing
    if isinstance(thing, Policy):
        return thing.negatives
    return Negatives(thing)


class Random(Function, name="random"):
    """Documents from the whole collection, at random.

    >>> Random(2)
    Random(2)
    """


class BM25(Function, name="bm25"):
    """The documents that BM25 ranks first.

    >>> BM25(1, k1=1.2)
    BM25(1, k1=1.2)
    """


class InBatch(Function, name="in_batch"):
    """The positives of the other queries of the batch.

    >>> InBatch(hard=True)
    InBatch(hard=True)
    """


class Dense(Function, name="dense"):
    """The nearest documents by the vectors of the ranker in training.

    >>> Dense(1, refresh={'mode': 'lagged', 'every': 100})
    Dense(1, refresh={'mode': 'lagged', 'every': 100})
    """


class Embedding(Function, name="embedding"):
    """The nearest documents by the vectors of a fixed bi-encoder.

    >>> Embedding(1, checkpoint='models/minilm')
    Embedding(1, checkpoint='models/minilm')
    """


class TfIdf(Function, name="tfidf"):
    """The nearest documents by tf-idf-weighted mean word vectors.

    >>> TfIdf(1)
    TfIdf(1)
    """


class Memory(Function, name="memory"):
    """Documents of the previous batches.

    >>> Memory(512)
    Memory(512)
    """


class Judged(Function, name="judged"):
    """Documents judged not relevant.

    >>> Judged(1)
    Judged(1)
    """


class Given(Function, name="given"):
    """The negatives that came with the pairs.

    >>> Given(1)
    Given(1)
    """


class RunFile(Function, name="run_file"):
    """The documents of a TREC run.

    >>> RunFile(1, path='hdct.run')
    RunFile(1, path='hdct.run')
    """


class SameSubcategory(Function, name="subcategory"):
    """Documents of the query's subcategory.

    >>> SameSubcategory(1)
    SameSubcategory(1)
    """


class SameCategory(Function, name="category"):
    """Documents of the query's category; with `whole=False`, outside its subcategory.

    >>> SameCategory(1)
    SameCategory(1)
    """


class OtherCategory(Function, name="outside"):
    """Documents outside the query's category.

    >>> OtherCategory(1)
    OtherCategory(1)
    """


class RandomPolicy(Policy, name="random"):
    """Chooses a function at random for each batch.

    >>> RandomPolicy(BM25(), Random())
    RandomPolicy(BM25(), Random())
    """


class Mixture(Policy, name="mixture"):
    """Chooses functions with weights, per batch, query or negative.

    >>> Mixture(Random(), BM25(), weights=[0.2, 0.8])
    Mixture(Random(), BM25(), weights=[0.2, 0.8])
    """


class Schedule(Policy, name="schedule"):
    """Chooses the last function more and more often.

    >>> Schedule(Random(), BM25(), epochs=2)
    Schedule(Random(), BM25(), epochs=2)
    """


class Curriculum(Policy, name="curriculum"):
    """Chooses the function from which the ranker learns most (Graves et al. 2017).

    >>> Curriculum(Random(), BM25())
    Curriculum(Random(), BM25())
    """


class Refined(Policy, name="refined"):
    """Divides the negatives among categories (Saeidi et al. 2017).

    >>> Refined(SameSubcategory(), SameCategory(), OtherCategory())
    Refined(SameSubcategory(), SameCategory(), OtherCategory())
    """
