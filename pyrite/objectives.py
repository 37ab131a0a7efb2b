"""Names the training objectives. `pyrite options objective=NAME` lists the options of each."""

from __future__ import annotations

from pyrite.parts import Part


class Objective(Part):
    """Base of the training objectives.

    >>> Hinge(margin=1.0).overrides()
    ['objective=hinge', 'objective.margin=1.0']
    """

    group = "objective"


class Softmax(Objective, name="softmax"):
    """The likelihood of the positive in a softmax.

    >>> Softmax()
    Softmax()
    """


class Contrastive(Objective, name="contrastive"):
    """InfoNCE; several relevant documents each against the negatives.

    >>> Contrastive(temperature=0.05)
    Contrastive(temperature=0.05)
    """


class Hinge(Objective, name="hinge"):
    """A margin between the positive and each negative.

    >>> Hinge(margin=1.0)
    Hinge(margin=1.0)
    """


class RankNet(Objective, name="ranknet"):
    """Pairwise logistic loss (Burges et al. 2005).

    >>> RankNet()
    RankNet()
    """


class LambdaRank(Objective, name="lambdarank"):
    """Pairs weighted by their effect on nDCG (Wang et al. 2018).

    >>> LambdaRank(cutoff=10)
    LambdaRank(cutoff=10)
    """


class ListNet(Objective, name="listnet"):
    """Cross-entropy between distributions of grades and scores (Cao et al. 2007).

    >>> ListNet()
    ListNet()
    """


class MarginMSE(Objective, name="margin_mse"):
    """The teacher's margins (Hofstätter et al. 2020).

    >>> MarginMSE()
    MarginMSE()
    """


class SIR(Objective, name="sir_v4"):
    """SIR V4: all levels of compressed candidates (Pu et al. 2021).

    >>> SIR(levels=[48, 16])
    SIR(levels=[48, 16])
    """


class Matryoshka(Objective, name="matryoshka"):
    """An objective on the first dimensions of the vectors too (Kusupati et al. 2022).

    >>> Matryoshka(dimensions=[128, 64])
    Matryoshka(dimensions=[128, 64])
    """
