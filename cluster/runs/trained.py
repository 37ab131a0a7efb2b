"""Writes down what a trained ranker's weights need beside them, and makes the ranker again."""

from __future__ import annotations

import inspect
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from cluster.config.build import build, locate
from cluster.config.compose import compose
from cluster.output.manifest import CONFIG, read_config, verb_of
from cluster.output.storage import Storage
from cluster.runs.checkpoint_kind import ranker_overrides
from ranking.collections.collection import Collection
from ranking.encoding import EncodedCollection, encode_texts
from ranking.errors import BadInput
from ranking.rankers.ranker import Ranker


def described(config: dict[str, Any], parts: dict[str, Any]) -> bytes:
    """What stands beside a run's weights, as JSON: the ranker's options and, where it reads our words, its vocabulary.

    Args:
        config: of the run.
        parts: its parts.
    """
    base, own = parts["base"], "tokens" in parts
    content = {
        "ranker": config["ranker"],
        "encoding": config["encoding"],
        "words": None if own else base.words,
        "dimension": int(base.vectors.table.shape[1]),
    }
    return json.dumps(content, ensure_ascii=False).encode()


@dataclass
class TrainedRanker:
    """A ranker whose weights are fixed, and how it reads texts.

    Args:
        name: what runs call it.
        ranker: in evaluation mode.
        options: of its class, with which texts are cut into tokens.
        encoding: of the words that it was trained with; None where it has tokens of its own.
        words: their vocabulary, likewise.
    """

    name: str
    ranker: Ranker
    options: dict[str, Any]
    encoding: dict[str, Any] | None = None
    words: list[str] | None = None

    def read(self, collection: Collection, encoded: EncodedCollection) -> EncodedCollection:
        """A collection as this ranker reads it.

        Args:
            collection: the texts.
            encoded: of the same collection, by whatever vocabulary: judgements and splits are taken from it.
        """
        return read_as(self.options, self.encoding, self.words, collection, encoded)


def read_as(
    options: dict[str, Any],
    encoding: dict[str, Any] | None,
    words: list[str] | None,
    collection: Collection,
    encoded: EncodedCollection,
) -> EncodedCollection:
    """A collection as a ranker reads it that has seen another; arguments as of `TrainedRanker` and its `read`."""
    factory = build(options, "ranker")
    tokenization = factory.func.tokenization(**factory.keywords)
    if tokenization is not None:
        tokens = tokenization.encode(collection)
        return replace(encoded, documents=tokens.documents, queries=tokens.queries)
    assert words is not None
    assert encoding is not None
    documents = encode_texts(collection.documents, words, encoding["max_document"])
    return replace(encoded, documents=documents, queries=encode_texts(collection.queries, words, encoding["max_query"]))


def read_ranker(place: str, asked: dict[str, Any] | None = None, gpu: bool = True) -> TrainedRanker:
    """A ranker from what a user names.

    Args:
        place: the folder of `pyrite train`; weights in such a folder or a study's (`weights/NAME.safetensors`, or the
            folder `weights/NAME`); or a checkpoint of transformers or sentence-transformers: its folder or name.
        asked: options of a ranker, for a checkpoint that does not say what it is.
        gpu: whether to use one where there is one.

    Raises:
        BadInput: where there are no weights, or they are of something else.
    """
    device = torch.device("cuda" if gpu and torch.cuda.is_available() else "cpu")
    folder = Path(place).expanduser()
    name = folder.name.removesuffix(".safetensors") or "ranker"
    weights = _of_run(folder) if (folder / CONFIG).is_file() else folder
    about = weights.with_name(f"{weights.name.removesuffix('.safetensors')}.json")
    if weights.exists() and about.is_file():
        found = _of_weights(name, weights, about)
    else:
        found = _of_checkpoint(name, place, asked)
    found.ranker.to(device).eval()
    return found


def _of_run(folder: Path) -> Path:
    """The weights of a run's folder."""
    config = read_config(Storage(str(folder)))
    if verb_of(config) != "train":
        remedy = f"name the weights of one run: {folder}/weights/NAME.safetensors"
        raise BadInput(f"is of `pyrite {verb_of(config)}`, not of one run", folder, remedy)
    weights = folder / "weights" / f"{config['run']}.safetensors"
    found = weights if weights.is_file() else weights.with_suffix("")
    if not found.exists():
        raise BadInput("holds no weights", folder, "train it with weights=true")
    return found


def _of_weights(name: str, weights: Path, about: Path) -> TrainedRanker:
    from safetensors.torch import load_file

    said = json.loads(about.read_text("utf-8"))
    options = dict(said["ranker"])
    if options.get("categories"):
        raise BadInput("reads categories, which another collection names otherwise", weights, "take a ranker without")
    if weights.is_dir():
        options["checkpoint"] = str(weights)
        if (
            said["words"] is not None
        ):  # it reads them by the folder's tokenizer now, and has all of its dimensions there
            options |= {"further": 0, "max_query": said["encoding"]["max_query"]}
        return TrainedRanker(name, make(options), options)
    words = said["words"] or [""]
    ranker = make(options, np.zeros((len(words), said["dimension"]), np.float32))
    try:
        ranker.load_state_dict(load_file(weights))
    except (RuntimeError, OSError) as error:
        raise BadInput(f"are no weights of it ({str(error).splitlines()[0]})", weights, "train it again") from None
    return TrainedRanker(name, ranker, options, said["encoding"], said["words"])


def _of_checkpoint(name: str, place: str, asked: dict[str, Any] | None) -> TrainedRanker:
    options = asked and {**asked, "_partial_": True}
    if options is None:
        options = compose([*ranker_overrides(place), f"ranker.checkpoint={json.dumps(place)}"])["ranker"]
    if "checkpoint" in inspect.signature(locate(options["_target_"])).parameters:
        options = options | {"checkpoint": place}
    return TrainedRanker(name, make(options), options)


def make(options: dict[str, Any], vectors: NDArray[np.float32] | None = None) -> Ranker:
    """A ranker of these options whose weights are about to be loaded, or come with its checkpoint."""
    generator = torch.Generator().manual_seed(0)
    given = np.zeros((1, 1), np.float32) if vectors is None else vectors
    ranker: Ranker = build(options, "ranker")(vectors=given, generator=generator)
    return ranker
