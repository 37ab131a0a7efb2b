"""Writes down what the weights of a trained ranker need, and opens trained rankers and checkpoints."""

from __future__ import annotations

import inspect
import json
import logging
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pyrite.cluster.config.build import build, locate
from pyrite.cluster.config.compose import compose
from pyrite.cluster.config.secrets import concealed_in, resolved_in
from pyrite.cluster.config.trust import Trust
from pyrite.cluster.output.manifest import CONFIG, read_config, verb_of
from pyrite.cluster.output.storage import Storage
from pyrite.ranking.collections.collection import Collection
from pyrite.ranking.encoding import EncodedCollection, encode_texts
from pyrite.ranking.errors import BadInput, refuse
from pyrite.ranking.hub_tokenizers import local_root
from pyrite.ranking.labels import LabelCounts, encode_labels
from pyrite.ranking.lazy import safetensors
from pyrite.ranking.part import options_of
from pyrite.ranking.rankers.inputs import RankerInputs
from pyrite.ranking.rankers.pair_reading import is_decoder
from pyrite.ranking.rankers.pretrained import Pretrained, read_in
from pyrite.ranking.rankers.ranker import Ranker, check_whole
from pyrite.ranking.rankers.sentence_folder import DECLARED, SentenceFolder, read_json
from pyrite.ranking.similar import similar_path

_log = logging.getLogger(__name__)
HUB_NAME = re.compile(r"[^./~][^/]*/[^/]*")
A_TRAINING = "name a folder of `pyrite train weights=true`, or that of a checkpoint, with its config.json"
MODEL_TYPES = {
    "ColBERT": "late_interaction",
    "CrossEncoder": "cross_encoder",
    "MultiVectorEncoder": "late_interaction",
    "SparseEncoder": "sparse",
}
"""The rankers for the models of sentence-transformers and PyLate, by what they call themselves."""


def weights_description(config: dict[str, Any], parts: dict[str, Any]) -> bytes:
    """Return what opens a run's weights, as JSON: the ranker's options and, if it reads words, its vocabulary."""
    base = parts["base"]
    content = concealed_in({key: config[key] for key in ("ranker", "encoding")})
    content |= {"words": None if "tokens" in parts else base.words, "dimension": int(base.vectors.table.shape[1])}
    if "labels" in parts:
        content["labels"] = json.loads(parts["labels"].tobytes())
    return json.dumps(content, ensure_ascii=False).encode()


@dataclass
class RankerReading:
    """The way in which a ranker reads texts.

    Args:
        options: options of its class, by which texts are tokenized.
        encoding, words: the vocabulary that it was trained with and its options; None if the ranker has its own tokens.
        labels: the categories and subcategories that it reads (`pyrite.ranking.labels.label_names`), or None.
    """

    options: dict[str, Any]
    encoding: dict[str, Any] | None = None
    words: list[str] | None = None
    labels: list[list[str]] | None = None

    def read(self, collection: Collection, encoded: EncodedCollection) -> EncodedCollection:
        """Encode a collection for the ranker. Judgements and splits are those of `encoded`, of any vocabulary."""
        ranker = build(self.options, "ranker", trust="composed")
        tokenization = ranker.tokenization(**options_of(ranker))
        if tokenization is not None:
            tokens = tokenization.encode(collection)
            if unused := unused_prompts(options_of(ranker)):
                _log.warning("%s: %s", options_of(ranker)["checkpoint"], unused)
            if cut := tokenization.cut(tokens):
                _log.warning("%s: %s", options_of(ranker).get("checkpoint"), cut)
            documents, queries = tokens.documents, tokens.queries
        else:
            assert self.words is not None
            assert self.encoding is not None
            limits, reading = self.encoding, collection.reading
            documents = encode_texts(collection.documents, self.words, limits["max_document"], reading)
            queries = encode_texts(collection.queries, self.words, limits["max_query"], reading)
        if self.labels is not None:
            of_documents, of_queries = encode_labels(collection, self.labels)
            documents, queries = replace(documents, labels=of_documents), replace(queries, labels=of_queries)
        return replace(encoded, documents=documents, queries=queries)


def unused_prompts(options: dict[str, Any]) -> str:
    """Return the line that names a checkpoint's prompts if none is used, and none was chosen."""
    chosen = [options.get(f"{kind}_prompt") for kind in ("query", "document")]
    known = "query_prompt" in options and isinstance(options.get("checkpoint"), str)
    if not known or chosen != [None, None]:
        return ""
    return SentenceFolder.read(options["checkpoint"]).unused_prompts("document_prompt" not in options)


@dataclass(kw_only=True)
class TrainedRanker(RankerReading):
    """A ranker with fixed weights.

    Args:
        name: its name in run files.
        relevant_from: the lowest grade that counted as relevant in its training; 1 for a checkpoint of elsewhere.
    """

    name: str
    ranker: Ranker
    relevant_from: int = 1


def read_ranker(
    place: str, options: dict[str, Any] | None = None, gpu: bool = True, precision: str | None = None
) -> TrainedRanker:
    """Open a ranker.

    Args:
        place: the folder of `pyrite train`; weights in such a folder or a study's (`weights/NAME.safetensors`, or the
            folder `weights/NAME`); or the folder or name of a checkpoint of transformers or sentence-transformers.
        options: options of the ranker, for a checkpoint whose files do not identify it.
        precision: the precision in which its transformers read. None takes that of its training, or of its options.
    """
    device = torch.device("cuda" if gpu and torch.cuda.is_available() else "cpu")
    trained = _opened(place, options)
    trained.ranker.to(device).eval()
    if precision is not None and "precision" in trained.options:
        read_in(trained.ranker, precision)
        trained.options["precision"] = precision
    return trained


def precision_line(ranker: Ranker | None) -> str:
    """Return the line that names the precision of a ranker's transformers, and the option; empty if it has none."""
    towers = [module for module in ranker.modules() if isinstance(module, Pretrained)] if ranker else []
    named = {str(tower.precision).removeprefix("torch.") for tower in towers}
    return f"transformers compute in {' and '.join(sorted(named))} (precision)" if named else ""


def _opened(place: str, options: dict[str, Any] | None) -> TrainedRanker:
    """Open weights that a run has described, or a checkpoint."""
    folder = Path(os.path.expanduser(place))
    folder = folder if folder.name else folder.absolute()  # the current folder by its name
    name = folder.name.removesuffix(".safetensors") or "ranker"
    weights = _run_weights(folder) if (folder / CONFIG).is_file() else folder
    description = weights.with_name(f"{weights.name.removesuffix('.safetensors')}.json")
    if not (weights.exists() and description.is_file()):
        return _open_checkpoint(name, place, options)
    trained = _open_weights(name, weights, description)
    own, given = trained.options["_target_"], (options or {}).get("_target_")
    refuse(given is None and options, "has the options of its training, and takes no others", place, "leave them out")
    if given not in (None, own):
        raise BadInput(f"is a {own.rpartition('.')[2]}, no {given.rpartition('.')[2]}", place, "leave ranker= out")
    return trained


def _run_weights(folder: Path) -> Path:
    """Return the path of the weights in a run's folder."""
    config = read_config(Storage(str(folder)))
    one = f"name the weights of one run: {folder}/weights/NAME.safetensors"
    remedy = one if (folder / "weights").is_dir() else A_TRAINING
    refuse(verb_of(config) != "train", f"is of `pyrite {verb_of(config)}`, not of one run", folder, remedy)
    file = folder / "weights" / f"{config['run']}.safetensors"
    weights = file if file.is_file() else file.with_suffix("")
    refuse(not weights.exists(), "holds no weights", folder, "train it with weights=true")
    return weights


def _open_weights(name: str, weights: Path, description: Path) -> TrainedRanker:
    options, encoding, words, dimension, labels = _described(description)
    least = encoding.get("relevant_from", 1)
    refuse(
        options.get("categories") and labels is None,
        "were written by a version that kept no names of categories",
        weights,
        "train it again",
    )
    if weights.is_dir():
        options["checkpoint"] = str(weights)
        if words is not None:
            # The folder's tokenizer splits texts into these words, and the folder holds all dimensions.
            options |= {"further": 0, "max_query": encoding["max_query"]}
        return TrainedRanker(options, name=name, ranker=make(options, "file"), relevant_from=least)
    ranker = make(options, "file", len(words or [""]), dimension, labels)
    try:
        ranker.load_state_dict(safetensors.torch.load_file(weights))
    except (RuntimeError, OSError, safetensors.SafetensorError) as error:
        raise BadInput(f"are no weights of it ({str(error).splitlines()[0]})", weights, "train it again") from None
    return TrainedRanker(options, encoding, words, labels, name=name, ranker=ranker, relevant_from=least)


def _described(description: Path) -> tuple[dict[str, Any], dict[str, Any], list[str] | None, int, Any]:
    """Return the ranker's options, encoding, words, dimension and labels, as `weights_description` wrote them."""
    try:
        content = resolved_in(json.loads(description.read_text("utf-8")), str(description))
        options, encoding, words, dimension = (content[key] for key in ("ranker", "encoding", "words", "dimension"))
        options = {key: value for key, value in options.items() if key != "_partial_"}  # of version 0.2
        return options, encoding, words, dimension, content.get("labels")
    except (ValueError, KeyError, TypeError, AttributeError):
        raise BadInput("does not describe weights", description, "copy it again from the run's folder") from None


def _open_checkpoint(name: str, place: str, options: dict[str, Any] | None) -> TrainedRanker:
    options = options or {}
    if options.get("_target_") is None:
        own = compose([*ranker_overrides(place), f"ranker.checkpoint={json.dumps(place)}"])["ranker"]
        options = own | options | {"_target_": own["_target_"]}
    if "checkpoint" in inspect.signature(locate(options["_target_"])).parameters:
        options = options | {"checkpoint": place}
    ranker = make(options, "composed")
    check_whole(ranker, place)
    return TrainedRanker(options, name=name, ranker=ranker)


def make(
    options: dict[str, Any], trust: Trust, words: int = 1, dimension: int = 1, labels: list[list[str]] | None = None
) -> Ranker:
    """Return a ranker whose weights come with its checkpoint or will be loaded, word vectors included."""
    vectors, generator = np.zeros((words, dimension), np.float32), torch.Generator().manual_seed(0)
    counts = None if labels is None else LabelCounts(*map(len, labels))
    ranker: Ranker = build(options, "ranker", trust=trust)
    return ranker.start(RankerInputs(generator, vectors, labels=counts))


def ranker_overrides(place: str) -> list[str]:
    """Return the overrides that make a ranker of a checkpoint, except `ranker.checkpoint`, from its files."""
    folder = Path(os.path.expanduser(local_root(place)))
    of_file = f"name the folder, as {folder.parent}" if (folder.parent / "config.json").is_file() else A_TRAINING
    refuse(folder.is_file(), "is a file, and a checkpoint is a folder", place, of_file)
    if not folder.is_dir():
        refuse(
            folder.exists() or not HUB_NAME.fullmatch(place),
            "no such run or checkpoint",
            place,
            similar_path(place, A_TRAINING),
        )
        return ["ranker=bi_encoder"]
    if (folder / "modules.json").is_file():  # a model of sentence-transformers
        return [f"ranker={_of_modules(str(folder))}"]
    config = read_json(str(folder), "config.json")
    if config is None:
        raise _no_checkpoint(folder, place)
    return _of_config(config)


def _of_modules(folder: str) -> str:
    """Return the name of the ranker that a model of sentence-transformers is."""
    first, *others = [module["type"].rpartition(".")[2] for module in read_json(folder, "modules.json")] or [""]
    if first == "StaticEmbedding":
        return "static"
    if first == "Transformer" and set(others) == {"Dense"}:  # PyLate's, before it named itself
        return "late_interaction"
    declared = (read_json(folder, DECLARED) or {}).get("model_type")
    return MODEL_TYPES.get(str(declared), "bi_encoder")


def _of_config(config: Mapping[str, Any]) -> list[str]:
    """Return the overrides of the ranker that a model of transformers, or of model2vec, is."""
    architectures = config.get("architectures") or [""]
    if config.get("model_type") == "model2vec":
        return ["ranker=static"]
    if "HF_ColBERT" in architectures:
        return ["ranker=late_interaction"]
    decoder = is_decoder(config.get("model_type"))
    if architectures[0].endswith("ForSequenceClassification") or (decoder and architectures[0].endswith("ForCausalLM")):
        return ["ranker=cross_encoder"]
    # Without a head of a decoder only the last token has seen the whole text.
    return ["ranker=bi_encoder", *(["ranker.pooling=last"] if decoder else [])]


def _no_checkpoint(folder: Path, place: str) -> BadInput:
    """Return the error for a folder that is no checkpoint, which names one in it."""
    heads = [f"*/{head}" for head in ("config.json", "modules.json")]
    inner = {file.parent for head in heads for file in folder.glob(head)} | set(folder.glob("*.safetensors"))
    if inner:
        return BadInput("holds rankers, and is none itself", place, f"name one, as {min(inner)}")
    return BadInput("holds neither a run nor a checkpoint", place, A_TRAINING)
