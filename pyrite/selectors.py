"""Names the selectors, which pick negatives from candidates. `pyrite options selector=NAME` lists their options."""

from __future__ import annotations

from pyrite.parts import Part


class Selector(Part):
    """Base of the selectors.

    >>> Window(last=50).overrides()
    ['selector=window', 'selector.last=50']
    """

    group = "selector"


class Uniform(Selector, name="uniform"):
    """Any candidates, at random.

    >>> Uniform()
    Uniform()
    """


class Top(Selector, name="top"):
    """The first candidates of the list.

    >>> Top()
    Top()
    """


class Window(Selector, name="window"):
    """Candidates between two ranks of the list.

    >>> Window(first=5, last=50)
    Window(first=5, last=50)
    """


class Dynamic(Selector, name="dynamic"):
    """Candidates by the ranker's score, with probability falling as λ^rank (Zhang et al. 2013).

    >>> Dynamic(lam=0.0, candidates=64)
    Dynamic(lam=0.0, candidates=64)
    """


class SimANS(Selector, name="simans"):
    """Candidates that score about as high as the positive (Zhou et al. 2022).

    >>> SimANS(a=2.0)
    SimANS(a=2.0)
    """


class ErrorReduction(Selector, name="error_reduction"):
    """Candidates by expected error reduction (Roy and McCallum 2001).

    >>> ErrorReduction(candidates=8)
    ErrorReduction(candidates=8)
    """


class MarginBalanced(Selector, name="margin_balanced"):
    """Candidates with balanced margins of a teacher (Hofstätter et al. 2021).

    >>> MarginBalanced(bins=5)
    MarginBalanced(bins=5)
    """


class Adversarial(Selector, name="adversarial"):
    """Candidates that a generator expects to deceive the ranker (Wang et al. 2017).

    >>> Adversarial(candidates=8)
    Adversarial(candidates=8)
    """


class Shared(Selector, name="shared"):
    """The same documents for all queries of a batch.

    >>> Shared()
    Shared()
    """
