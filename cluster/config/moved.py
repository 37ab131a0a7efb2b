"""Names the present paths of classes that version 0.2 installed under other packages."""

from __future__ import annotations

import importlib.util
import re

from pyrite.ranking.errors import BadInput

PACKAGES = ("cluster", "pooling", "ranking", "rl", "sampling")
"""Packages that are parts of `pyrite` since version 0.3."""
RENAMED = {
    "pooling.adjudicators.rank_similarity.Comb": "pooling.adjudicators.rank_similarity.CombMNZ",
    "pooling.adjudicators.uniform.Random": "pooling.adjudicators.uniform.AnyRun",
    "ranking.objectives.pairwise.PairwiseHinge": "ranking.objectives.pairwise.Hinge",
    "ranking.objectives.self_involvement.ConditionalSIR": "ranking.objectives.self_involvement.SIR",
    "ranking.objectives.softmax.SoftmaxLikelihood": "ranking.objectives.softmax.Softmax",
    "ranking.rankers.dssm.Dssm": "ranking.rankers.dssm.DSSM",
    "sampling.retrieval.bm25.Bm25Function": "sampling.retrieval.bm25.BM25",
    "sampling.retrieval.random.RandomFunction": "sampling.retrieval.random.Random",
}
"""Classes that have another name too, without `pyrite.`."""
_TARGET = re.compile(rf"(?<=_target_[=:])( ?)((?:{'|'.join(PACKAGES)})(?:\.\w+)+)")


def moved(path: str) -> str | None:
    """Return the present path of a module or class that version 0.2 had elsewhere; None if there is none.

    >>> moved("sampling.selection.simans.SimANS")
    'pyrite.sampling.selection.simans.SimANS'
    """
    old = path.removeprefix("pyrite.")
    if old in RENAMED:
        return f"pyrite.{RENAMED[old]}"
    head, *rest = path.split(".")
    if head not in PACKAGES or not rest:
        return None
    return f"pyrite.{path}" if importlib.util.find_spec(f"pyrite.{head}.{rest[0]}") else None


def with_present_paths(override: str) -> str:
    """Return an override of an older version with the present paths of its classes."""
    return _TARGET.sub(lambda found: found[1] + (moved(found[2]) or found[2]), override)


def moved_error(error: Exception, path: str) -> BadInput | None:
    """Return the line for a class or an import that has another path now; None if the error has another reason.

    Args:
        error: the error of importing the class's module.
        path: the path of the class.
    """
    if present := moved(path):
        remedy = "write that; a folder with results of version 0.2 needs pip install 'pyrite-ir<0.3'"
        return BadInput(f"is called {present} since version 0.3", path, remedy)
    if path.partition(".")[0] in PACKAGES:
        return BadInput("there is no such class", path, "classes of Pyrite begin with pyrite, see `pyrite options`")
    name = str(getattr(error, "name", None) or "")
    if isinstance(error, ImportError) and name.partition(".")[0] in PACKAGES:
        what = f"imports {name}, which is pyrite.{name} since version 0.3"
        return BadInput(what, path.rpartition(".")[0], f"write: from pyrite.{name} import …")
    return None
