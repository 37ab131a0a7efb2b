"""Names the rankers. `pyrite options ranker=NAME` lists the options of each."""

from __future__ import annotations

from pyrite.parts import Part


class Ranker(Part):
    """Base of the rankers."""

    group = "ranker"


class Static(Ranker):
    """Means of static word vectors; trains in seconds.

    >>> Static(spread=0)
    Static(spread=0)
    """

    name = "static"


class FeedForward(Ranker):
    """f_FF of Cohen et al. 2019.

    >>> FeedForward(preset='small')
    FeedForward(preset='small')
    """

    name = "feed_forward"


class MatchPyramid(Ranker):
    """MatchPyramid of Cohen et al. 2019.

    >>> MatchPyramid(preset='small')
    MatchPyramid(preset='small')
    """

    name = "match_pyramid"


class DSSM(Ranker):
    """DSSM over letter trigrams (Saeidi et al. 2017).

    >>> DSSM(categories=True)
    DSSM(categories=True)
    """

    name = "dssm"


class BiEncoder(Ranker):
    """A transformer that encodes query and document separately.

    >>> BiEncoder('models/minilm')
    BiEncoder(checkpoint='models/minilm')
    """

    name = "bi_encoder"


class CrossEncoder(Ranker):
    """A transformer that reads query and document together.

    >>> CrossEncoder('models/minilm')
    CrossEncoder(checkpoint='models/minilm')
    """

    name = "cross_encoder"


class LateInteraction(Ranker):
    """A transformer with one vector per token (ColBERT).

    >>> LateInteraction('models/colbert')
    LateInteraction(checkpoint='models/colbert')
    """

    name = "late_interaction"


class Decoder(Ranker):
    """A language model that reads query and document in a prompt.

    >>> Decoder('models/qwen')
    Decoder(checkpoint='models/qwen')
    """

    name = "decoder"
