"""Defines a ranker that compares weighted means of static word vectors by cosine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pyrite.ranking.bounds import AtLeast, NonNegative, Positive, checked
from pyrite.ranking.errors import BadInput
from pyrite.ranking.rankers.bag import weighted_mean
from pyrite.ranking.rankers.dense import DenseRanker
from pyrite.ranking.rankers.inputs import RankerInputs
from pyrite.ranking.rankers.static_folder import StaticFolder, StaticTokens, Vocabulary
from pyrite.ranking.texts import Texts
from pyrite.ranking.tokenization import Tokenization

SPREAD = 0.05
"""Spread of word vectors at the start; at GloVe's .7 they barely move in 5 epochs (docs/experiments/negatives.md)."""


class Static(DenseRanker):
    """Means of static word vectors, compared by cosine: trains in seconds.

    A text is the weighted mean of its words' vectors, Σ e^{w_t}·E_t / Σ e^{w_t}. It is the quickest ranker to train:
    thousands of pairs per second on one core. sentence-transformers calls this a static embedding; here each word has a
    learned weight that starts at its inverse document frequency. Train it with `objective=softmax`, most simply with
    the positives of its batch as negatives (`function=in_batch`).

    It starts from the words of `pyrite.ranking.encoding` and their vectors, or from the tokens of a checkpoint: a
    folder of sentence-transformers' `StaticEmbedding`, or of model2vec. It is written as the former.

    Args:
        preset: `paper`, `small` or `tiny`: 206, 78 or 14 further dimensions, if `further` is None.
        further: dimensions in addition to those of the vectors, drawn at random with their spread, for words that the
            vectors don't know or don't distinguish. None with a checkpoint is 0.
        scale: the factor of the cosine, an inverse temperature.
        spread: the standard deviation of the vectors' numbers at first. It changes no cosine, but decides how far a
            step turns a vector, because Adam's steps have the same length for all vectors: the smaller the spread, the
            further. 0 keeps the vectors as they come. None takes 0 with a checkpoint, whose vectors are trained, and
            0.05 otherwise.
        checkpoint: a folder of sentence-transformers' StaticEmbedding or of model2vec to start from with its tokens, or
            a name at the hub. None starts from the words of the run, with their vectors and idf.
        max_query: tokens of a checkpoint that are read of a query. None reads all.
        max_document: tokens of a checkpoint that are read of a document. None reads all.
    """

    unit = True
    presets = {"paper": {"further": 206}, "small": {"further": 78}, "tiny": {"further": 14}}

    @checked
    def __init__(
        self,
        preset: str = "small",
        *,
        further: Annotated[int, AtLeast(0)] | None = None,
        scale: Annotated[float, Positive] = 20.0,
        spread: Annotated[float, NonNegative] | None = None,
        checkpoint: str | None = None,
        max_query: Annotated[int, AtLeast(1)] | None = None,
        max_document: Annotated[int, AtLeast(1)] | None = None,
    ) -> None:
        super().__init__()
        self.resolve_preset(preset)
        self.scale = scale

    def make(self, inputs: RankerInputs) -> None:
        options, vectors, idf = self.options, inputs.words, inputs.idf
        further, checkpoint, spread = options.further, options.checkpoint, options.spread
        widths = self.resolve_preset(options.preset, further=further or None)
        if spread is None:
            spread = SPREAD if checkpoint is None else 0
        count = 0 if further == 0 else widths["further"]
        start = np.log(np.ones(len(vectors), np.float32) if idf is None else np.maximum(idf, 1e-3))
        self._tokens: str | Vocabulary | None = inputs.vocabulary
        self._shift = 0
        self._declared: Mapping[str, Any] = {}
        if checkpoint is not None:
            folder = StaticFolder.read(checkpoint)
            vectors = np.pad(folder.vectors, ((1, 0), (0, 0)))  # token t is row t + 1: 0 is padding
            start, count, self._shift = np.pad(folder.log_weights, (1, 0)), further or 0, 1
            self._tokens, self._declared = folder.tokenizer, folder.declared
        known = vectors.shape[1]
        table = torch.empty(len(vectors), known + count)
        table.numpy()[:, :known] = vectors
        if count:  # numpy's deviation would make two more of these tables
            table[:, known:] = torch.randn(len(vectors), count, generator=inputs.generator) * float(vectors.std())
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

    def represent_queries(self, queries: Texts) -> Tensor:
        return F.normalize(weighted_mean(self.vectors, self.term_weights, queries), dim=1)

    def represent_documents(self, documents: Texts) -> Tensor:
        return self.represent_queries(documents)

    def represent(self, queries: Texts, documents: Texts) -> tuple[Tensor, Tensor]:
        return self.represent_together(queries, documents)

    def save_pretrained(self, folder: str) -> None:
        """Write it as sentence-transformers reads it: `StaticEmbedding` with the same cosines, and its tokenizer.

        Raises:
            BadInput: if it was made without the words of its vectors.
        """
        if self._tokens is None:
            raise BadInput("its words are not known", "ranker", "give Static a vocabulary")
        with torch.no_grad():
            vectors, logs = (weights.cpu().numpy()[self._shift :] for weights in (self.vectors, self.term_weights))
        tokenizer = self._tokens if isinstance(self._tokens, str) else self._tokens.tokenizer()
        StaticFolder(vectors, logs, tokenizer, self._declared).write(folder)

    def row_parameters(self) -> list[nn.Parameter]:
        return [self.vectors]

    def layers(self) -> list[nn.Module]:
        return [nn.ParameterList([self.vectors, self.term_weights])]
