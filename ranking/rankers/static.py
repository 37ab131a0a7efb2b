"""Defines a ranker that compares weighted means of static word vectors by cosine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from ranking.errors import BadInput
from ranking.rankers.bag import weighted_mean
from ranking.rankers.dense import DenseRanker
from ranking.rankers.static_folder import StaticFolder, StaticTokens, word_tokenizer
from ranking.texts import Texts
from ranking.tokenization import Tokenization

SPREAD = 0.05
"""Spread of word vectors at the start; at GloVe's .7 they barely move in 5 epochs (docs/experiments/negatives.md)."""


@dataclass(frozen=True)
class Vocabulary:
    """The words of `ranking.encoding`, by number, and how many of them are read of a text."""

    words: Sequence[str]
    longest: int

    def tokenizer(self) -> str:
        """The content of a `tokenizer.json` that reads texts likewise."""
        return word_tokenizer(self.words, self.longest)


class Static(DenseRanker):
    """A text is the weighted mean of its words' vectors, Σ e^{w_t}·E_t / Σ e^{w_t}; two are compared by cosine.

    The quickest ranker to train: thousands of pairs a second on one core. What sentence-transformers calls a static
    embedding, with a learned weight for each word that begins at its inverse document frequency. Train it with
    `objective=softmax`, most simply among the positives of its own batch (`function=in_batch`).

    It begins with the words of `encoding` and their vectors, or with the tokens of a checkpoint: a folder of
    sentence-transformers' `StaticEmbedding`, or of model2vec. It is written as the former.

    Args:
        vectors: float32 [vocabulary, dimension], the word vectors to start from; row 0 is padding.
        generator: draws the further dimensions.
        idf: float32 [vocabulary], what words weigh at first; None: all the same.
        preset: how many further dimensions there are where `further` is None: `paper`, `small` or `tiny`.
        further: dimensions beside those of the vectors, drawn at random with their spread, for words that the vectors
            don't know or don't tell apart; None with a checkpoint: none.
        scale: of the cosine, an inverse temperature.
        spread: standard deviation of all numbers of the vectors at first. No cosine changes with it, but how far a step
            turns a vector: Adam's are as long whatever the vectors are. 0 leaves them as they come; None takes 0 with a
            checkpoint, whose vectors are trained, and else `SPREAD`.
        checkpoint: folder, or name at the hub; None begins with `vectors` and `idf`, which it takes the place of.
        max_query: tokens of a checkpoint that are read of a query; None: all.
        max_document: of a document, likewise.
        vocabulary: the words of `vectors`, for `save_pretrained`; None: it can't be written.

    Raises:
        BadInput: where an option is out of its range.
    """

    presets = {"paper": {"further": 206}, "small": {"further": 78}, "tiny": {"further": 14}}

    def __init__(
        self,
        vectors: NDArray[np.float32],
        generator: torch.Generator,
        idf: NDArray[np.float32] | None = None,
        preset: str = "small",
        further: int | None = None,
        scale: float = 20.0,
        spread: float | None = None,
        checkpoint: str | None = None,
        max_query: int | None = None,
        max_document: int | None = None,
        vocabulary: Vocabulary | None = None,
    ) -> None:
        super().__init__()
        widths = self.resolve_preset(preset, further=further or None)
        if not scale > 0:
            raise BadInput(f"scale is {scale}", "ranker.scale", "choose a number above 0")
        if spread is None:
            spread = SPREAD if checkpoint is None else 0
        if not spread >= 0:
            raise BadInput(f"spread is {spread}", "ranker.spread", "choose a number from 0 up, or null")
        self.scale = scale
        count = 0 if further == 0 else widths["further"]
        start = np.log(np.ones(len(vectors), np.float32) if idf is None else np.maximum(idf, 1e-3))
        self._tokens: str | Vocabulary | None = vocabulary
        self._shift = 0
        if checkpoint is not None:
            for name, limit in (("max_query", max_query), ("max_document", max_document)):
                if limit is not None and limit < 1:
                    raise BadInput(f"{name} is {limit}", f"ranker.{name}", "choose a number from 1 up, or null")
            folder = StaticFolder.read(checkpoint)
            vectors = np.pad(folder.vectors, ((1, 0), (0, 0)))  # token t is row t + 1: 0 is padding
            start, count, self._shift = np.pad(folder.log_weights, (1, 0)), further or 0, 1
            self._tokens = folder.tokenizer
        known = vectors.shape[1]
        table = torch.empty(len(vectors), known + count)
        table.numpy()[:, :known] = vectors
        if count:  # numpy's deviation makes two more of these tables
            table[:, known:] = torch.randn(len(vectors), count, generator=generator) * float(vectors.std())
            table[0, known:] = 0
        if spread:
            table *= spread / table.std()
        self.vectors = nn.Parameter(table)
        self.term_weights = nn.Parameter(torch.from_numpy(start.astype(np.float32)))

    @classmethod
    def tokenization(cls, **options: Any) -> Tokenization | None:
        if options.get("checkpoint") is None:
            return None
        return StaticTokens(options["checkpoint"], options.get("max_query"), options.get("max_document"))

    @property
    def dimension(self) -> int:
        return self.vectors.shape[1]

    def read(self, texts: Texts) -> Tensor:
        """Vectors of unit length. Shape [texts, dimension]."""
        return F.normalize(weighted_mean(self.vectors, self.term_weights, texts), dim=1)

    def represent_queries(self, queries: Texts) -> Tensor:
        return self.read(queries)

    def represent_documents(self, documents: Texts) -> Tensor:
        return self.read(documents)

    def represent(self, queries: Texts, documents: Texts) -> tuple[Tensor, Tensor]:
        vectors = self.read(queries.followed_by(documents))  # in one go: one gradient of the table, and not two
        return vectors[: len(queries)], vectors[len(queries) :]

    def save_pretrained(self, folder: str) -> None:
        """Write it as sentence-transformers reads it: `StaticEmbedding` with the same cosines, and its tokenizer.

        Raises:
            BadInput: where it was not told which words its vectors are of.
        """
        if self._tokens is None:
            raise BadInput("its words are not known", "ranker", "give Static a vocabulary")
        with torch.no_grad():
            vectors, logs = (each.cpu().numpy()[self._shift :] for each in (self.vectors, self.term_weights))
        tokenizer = self._tokens if isinstance(self._tokens, str) else self._tokens.tokenizer()
        StaticFolder(vectors, logs, tokenizer).write(folder)

    def row_parameters(self) -> list[nn.Parameter]:
        return [self.vectors]

    def layers(self) -> list[nn.Module]:
        return [nn.ParameterList([self.vectors, self.term_weights])]
