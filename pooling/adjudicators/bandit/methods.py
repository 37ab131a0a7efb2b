"""Names the bandits over runs that papers describe: `Bandit` with an index and what belongs to it."""

from __future__ import annotations

from pyrite.pooling.adjudicators.bandit.bandit import Bandit
from pyrite.pooling.adjudicators.epsilon_greedy import EpsilonGreedy
from pyrite.pooling.adjudicators.max_mean import MaxMean
from pyrite.pooling.adjudicators.move_to_front import MoveToFront
from pyrite.pooling.adjudicators.thompson import Thompson
from pyrite.pooling.adjudicators.uniform import AnyRun
from pyrite.pooling.adjudicators.upper_confidence import UCB1, UCB1Tuned
from pyrite.pooling.priors import AgreementPrior
from pyrite.pooling.rewards import Graded


class MM(Bandit, arm=MaxMean()):
    """MM, MaxMean: the highest posterior mean (Losada et al. 2016, 2.1.4)."""


class MMNonStationary(Bandit, arm=MaxMean(stay="rewarded"), rate=0.0):
    """MM-NS: MM for which only the last document counts (Losada et al. 2016, 3.3).

    Of the runs that are tied, the one played last is played again only after a relevant document, otherwise chance
    decides.
    """


class MMAgreement(Bandit, arm=MaxMean(prior=AgreementPrior())):
    """MM whose prior is how many runs agree with each (Losada et al. 2016, 6)."""


class MMGraded(Bandit, arm=MaxMean(), reward=Graded()):
    """MM that is paid by the grade (Losada et al. 2016, 6)."""


class MMTeams(Bandit, arm=MaxMean(), teams=True):
    """Hierarchical MaxMean: a team, then one of its runs (Losada et al. 2016, 6)."""


class BLA(Bandit, arm=Thompson()):
    """BLA, Thompson sampling: a draw from the posterior of each run (Granmo 2008; Losada et al. 2016, algorithm 2)."""


class BLANonStationary(Bandit, arm=Thompson(), rate=0.0):
    """BLA-NS: BLA for which only the last document counts (Losada et al. 2016, 3.3)."""


class BLATeams(Bandit, arm=Thompson(), teams=True):
    """Hierarchical Thompson sampling: a team, then one of its runs (Losada et al. 2016, 6)."""


class DiscountedBLA(Bandit, arm=Thompson(), discount=0.99):
    """Thompson sampling that forgets slowly (Raj and Kalyani 2017)."""


class SlidingBLA(Bandit, arm=Thompson(), window=200):
    """Thompson sampling that remembers the last judgements (Trovò et al. 2020)."""


class UCB(Bandit, arm=UCB1(), evidence="played"):
    """UCB1: how good a run may be, at best (Auer et al. 2002)."""


class UCBTuned(Bandit, arm=UCB1Tuned(), evidence="played"):
    """UCB1-Tuned: UCB1 that minds the variance of each run (Auer et al. 2002)."""


class DiscountedUCB(Bandit, arm=UCB1(), evidence="played", discount=0.99):
    """D-UCB: UCB1 that forgets slowly (Garivier and Moulines 2011)."""


class SlidingUCB(Bandit, arm=UCB1(exploration=0.5), evidence="played", window=200):
    """SW-UCB: UCB1 that remembers the last judgements (Garivier and Moulines 2011)."""


class EpsilonNGreedy(Bandit, arm=EpsilonGreedy(), evidence="played"):
    """ε_n-greedy: the best run so far, and ever more rarely any (Auer et al. 2002)."""


class RandomRuns(Bandit, arm=AnyRun(), evidence="played"):
    """RANDOM: any run (Losada et al. 2016, 2.1.1)."""


class MTF(Bandit, arm=MoveToFront(), evidence="played"):
    """MoveToFront: read a run on until it supplies something not relevant (Cormack, Palmer and Clarke 1998)."""
