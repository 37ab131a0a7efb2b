"""Trains in a custom loop in plain PyTorch, with hard negatives that Pyrite chooses by the model's current scores.

The model is a table of word vectors; `selector=dynamic` asks it for scores of candidates, batch by batch.
"""

# %% The model: anything that scores texts.
import os
import shlex

import torch
from torch import nn
from torch.nn import functional as F

from pyrite.torch import Negatives

DATA = shlex.split(os.environ.get("PYRITE_EXAMPLE", "scale=tiny"))
torch.manual_seed(0)
words = nn.EmbeddingBag(4096, 32, mode="mean")


def vectors(texts: list[str]) -> torch.Tensor:
    hashed = [[sum(map(ord, word)) * 31 % 4096 for word in text.lower().split()] or [0] for text in texts]
    starts = torch.tensor([0, *map(len, hashed[:-1])]).cumsum(0)
    return F.normalize(words(torch.tensor([each for text in hashed for each in text]), starts), dim=1)


def scores(queries: list[str], documents: list[list[str]]) -> torch.Tensor:
    flat = vectors([text for row in documents for text in row]).view(len(queries), len(documents[0]), -1)
    return 20 * torch.einsum("qd,qmd->qm", vectors(queries), flat)


# %% Pyrite chooses the negatives: documents of BM25's lists that the model scores high, new ones for each batch.
data = Negatives([*DATA, "function=bm25", "selector=dynamic", "training.batch_size=16"], score=scores)
optimizer = torch.optim.Adam(words.parameters(), lr=0.05)

# %% The training loop. Scores are passed to `observe` before the next batch.
losses = []
for _ in range(3):
    for batch in data:
        shown = scores(batch.queries, batch.documents).masked_fill(~batch.present, -torch.inf)
        loss = F.cross_entropy(shown, torch.zeros(len(batch), dtype=torch.long))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        data.observe(batch, shown, loss.item())
        losses.append(loss.item())

# %% The negatives that were supplied, and the model's scores of them.
(row,) = data.sampler.report()
print(f"loss {losses[0]:.3f} at first, {losses[-1]:.3f} at last")
print(f"{row['negatives']} negatives by {row['function']}, scored {row['negative_mean']:.2f} in the mean")
assert losses[-1] < losses[0]
