"""Names the rankers. `pyrite options ranker=NAME` lists the options of each."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyrite.parts import Part


class Ranker(Part):
    """Base of the rankers.

    >>> BiEncoder('models/minilm').overrides()
    ['ranker=bi_encoder', 'ranker.checkpoint=models/minilm']
    """

    group = "ranker"


class Static(Ranker, name="static"):
    """Means of static word vectors; trains in seconds.

    >>> Static(spread=0)
    Static(spread=0)
    """


class FeedForward(Ranker, name="feed_forward"):
    """f_FF of Cohen et al. 2019.

    >>> FeedForward(preset='small')
    FeedForward(preset='small')
    """


class MatchPyramid(Ranker, name="match_pyramid"):
    """MatchPyramid of Cohen et al. 2019.

    >>> MatchPyramid(preset='small')
    MatchPyramid(preset='small')
    """


class DSSM(Ranker, name="dssm"):
    """DSSM over letter trigrams (Saeidi et al. 2017).

    >>> DSSM(categories=True)
    DSSM(categories=True)
    """


class BiEncoder(Ranker, name="bi_encoder"):
    """A transformer that encodes query and document separately.

    >>> BiEncoder('models/minilm')
    BiEncoder(checkpoint='models/minilm')
    """


class Sparse(Ranker, name="sparse"):
    """A masked language model with one weight per word of its vocabulary (SPLADE).

    >>> Sparse('models/splade')
    Sparse(checkpoint='models/splade')
    """


class CrossEncoder(Ranker, name="cross_encoder"):
    """A transformer that reads query and document together.

    >>> CrossEncoder('models/minilm')
    CrossEncoder(checkpoint='models/minilm')
    """


class LateInteraction(Ranker, name="late_interaction"):
    """A transformer with one vector per token (ColBERT).

    >>> LateInteraction('models/colbert')
    LateInteraction(checkpoint='models/colbert')
    """


class Decoder(Ranker, name="decoder"):
    """A language model that reads query and document in a prompt.

    >>> Decoder('models/qwen')
    Decoder(checkpoint='models/qwen')
    """


def of_model(model: Any) -> Ranker:
    """Return the ranker that starts from a model of sentence-transformers.

    The model is saved in the cache folder, under the digest of its files, where a study that is resumed finds it again.

    Args:
        model: a `SentenceTransformer`, `CrossEncoder`, `MultiVectorEncoder` or `SparseEncoder`.

    Raises:
        BadInput: if Pyrite has no ranker for it.
    """
    from pyrite.cluster.runs.trained import ranker_overrides
    from pyrite.ranking.collections.cache import default_cache

    models = default_cache() / "models"
    models.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=models) as unfinished:
        written = Path(unfinished) / "model"
        model.save(str(written), create_model_card=False)
        content = hashlib.sha256()
        for file in sorted(file for file in written.rglob("*") if file.is_file()):
            content.update(f"{file.relative_to(written)}\n".encode() + file.read_bytes())
        folder = models / content.hexdigest()[:16]
        if not folder.exists():
            written.rename(folder)
    chosen = ranker_overrides(str(folder))[0].partition("=")[2]
    return CLASSES[chosen](checkpoint=str(folder))


CLASSES: Mapping[str, type[Ranker]] = {kind.name: kind for kind in Ranker.__subclasses__()}
"""The rankers by name."""
