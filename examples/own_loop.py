"""A policy in your own training loop: easy negatives first, then those that your model finds hard."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from pyrite import BM25, Collection, Dynamic, Random, Schedule
from pyrite.torch import Negatives

torch.manual_seed(0)
words = nn.EmbeddingBag(4096, 32, mode="mean")


def vectors(texts: Sequence[str]) -> Tensor:
    hashed = [[sum(map(ord, word)) * 31 % 4096 for word in text.lower().split()] or [0] for text in texts]
    starts = torch.tensor([0, *map(len, hashed[:-1])]).cumsum(0)
    return functional.normalize(words(torch.tensor([each for text in hashed for each in text]), starts), dim=1)


def scores(queries: Sequence[str], documents: Sequence[Sequence[str]]) -> Tensor:
    flat = vectors([text for row in documents for text in row]).view(len(queries), len(documents[0]), -1)
    return 20 * torch.einsum("qd,qmd->qm", vectors(queries), flat)


policy = Schedule(Random(), BM25(pick=Dynamic()), epochs=3)
data = Negatives(Collection.from_pairs("pairs.csv"), policy, score=scores, options={"training.batch_size": 16})
optimizer = torch.optim.Adam(words.parameters(), lr=0.05)
losses = []
for _ in range(3):
    for batch in data:
        shown = scores(batch.queries, batch.documents).masked_fill(~batch.present, -torch.inf)
        loss = functional.cross_entropy(shown, torch.zeros(len(batch), dtype=torch.long))
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        data.observe(batch, shown, loss.item())  # the selector learns from the scores
        losses.append(loss.item())
print(f"loss {losses[0]:.3f} at first, {losses[-1]:.3f} at last")
print({row["function"]: row["negatives"] for row in data.sampler.report()})
