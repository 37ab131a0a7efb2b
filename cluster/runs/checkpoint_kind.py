"""Tells from the files of a checkpoint which ranker it is, for whoever names one without saying so."""

from __future__ import annotations

import json
from pathlib import Path

from ranking.errors import BadInput

YES_AND_NO = ([" yes", " no"], ["yes", "no"])
"""Words by which a language model without a head says that a document is relevant; the first pair that it has as
single tokens."""


def ranker_overrides(place: str) -> list[str]:
    """The overrides that make a ranker of a checkpoint, but for its place.

    Args:
        place: a folder, or a name at the hub, which is taken for a bi-encoder.

    Raises:
        BadInput: where there is none, or it does not say what its scores are.
    """
    folder = Path(place).expanduser()
    if not folder.is_dir():
        if folder.exists() or "/" not in place or place.count("/") > 1 or place.startswith((".", "/", "~")):
            raise BadInput("no such run or checkpoint", place, "name a folder of `pyrite train weights=true`")
        return ["ranker=bi_encoder"]
    if (folder / "modules.json").is_file():
        kinds = [each["type"].rpartition(".")[2] for each in json.loads((folder / "modules.json").read_text("utf-8"))]
        if kinds[:1] == ["StaticEmbedding"]:
            return ["ranker=static"]
        return ["ranker=late_interaction" if kinds == ["Transformer", "Dense"] else "ranker=bi_encoder"]
    if not (folder / "config.json").is_file():
        raise BadInput("holds neither a run nor a checkpoint", place, "name a folder of `pyrite train weights=true`")
    said = json.loads((folder / "config.json").read_text("utf-8"))
    if said.get("model_type") == "model2vec":
        return ["ranker=static"]
    headed = (said.get("architectures") or [""])[0]
    if not _reads_forwards(said.get("model_type")):
        return ["ranker=cross_encoder" if headed.endswith("ForSequenceClassification") else "ranker=bi_encoder"]
    if headed.endswith("ForCausalLM"):
        return ["ranker=decoder", f"ranker.words={json.dumps(_words(place))}"]
    if headed.endswith("ForSequenceClassification"):
        return ["ranker=decoder"]
    return ["ranker=bi_encoder", "ranker.pooling=last"]  # the last token alone has seen the whole text


def _reads_forwards(model_type: str | None) -> bool:
    """Whether models of this type are decoders: made to go on with a text, and not to fill gaps in it."""
    from transformers.models.auto import modeling_auto

    forwards, gaps = modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES
    return model_type in forwards and model_type not in gaps


def _words(place: str) -> list[str]:
    from ranking.tokenization import read_tokenizer

    tokenizer = read_tokenizer(place)
    for words in YES_AND_NO:
        tokens = [tokenizer(word, add_special_tokens=False)["input_ids"] for word in words]
        if all(len(each) == 1 and each[0] != tokenizer.unk_token_id for each in tokens):
            return words
    what = "is a language model in which neither yes nor no is one token"
    remedy = "name the words that it answers by: ranker={_target_: ranking.rankers.decoder.Decoder, words: [A, B], …}"
    raise BadInput(what, place, remedy)
