"""Turns models of sentence-transformers into rankers that start from them."""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path
from typing import Any

from pyrite.cluster.config.build import locate
from pyrite.cluster.config.groups import option
from pyrite.ranking.hub import default_cache
from pyrite.ranking.whole_file import keep_folder


def as_ranker(thing: Any) -> Any:
    """Return the ranker that starts from a model of sentence-transformers, and anything else as it is."""
    of_library = not isinstance(thing, type) and type(thing).__module__.startswith("sentence_transformers.")
    return of_model(thing) if of_library else thing


def of_model(model: Any) -> Any:
    """Return the ranker that starts from a model of sentence-transformers.

    The model is saved in the cache folder, under the digest of its files, where a study that is resumed finds it again.

    Args:
        model: a `SentenceTransformer`, `CrossEncoder`, `MultiVectorEncoder` or `SparseEncoder`.

    Raises:
        BadInput: if Pyrite has no ranker for it.
    """
    from pyrite.cluster.runs.trained import ranker_overrides

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
            keep_folder(written, folder)
    chosen = ranker_overrides(str(folder))[0].partition("=")[2]
    kind: Any = locate(option("ranker", chosen)["_target_"])
    return kind(checkpoint=str(folder))
