"""Proposes the largest inner products by float32 arithmetic of torch, on a CPU or a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

CHUNK = 1 << 16
"""Rows of vectors held in float32 at once if they are on disk or in another precision."""
ASKED = 64
"""Queries that are multiplied with a chunk at once."""
ON_GPU = 1 << 10, 1 << 18
"""Queries and rows that a GPU multiplies at once: 2²⁸ products, a GiB. Smaller products leave it idle in between."""

Vectors = NDArray[np.float32] | NDArray[np.float16]


def topk_float32(
    queries: NDArray[np.float32], vectors: Vectors | Tensor, width: int
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return the best `width` rows by float32 arithmetic, in any order: scores and rows [q, width].

    It uses torch's product and selection: faiss's flat index takes two to nine times as long on a core, depending on
    the number of queries.

    Args:
        vectors: [n, d], n ≥ `width`; a tensor stays on its device, e.g. a GPU.
    """
    device = vectors.device if isinstance(vectors, Tensor) else torch.device("cpu")
    asked, rows_at_once = (ASKED, CHUNK) if device.type == "cpu" else ON_GPU
    placed = tensor_of(queries).to(device)
    scores = torch.zeros(len(queries), 0, device=device)
    rows = torch.zeros(len(queries), 0, dtype=torch.int64, device=device)
    # One buffer for all products: glibc keeps memory below small results, which was a matrix for every part.
    scratch = torch.empty(asked * min(rows_at_once, len(vectors)), device=device)
    start = 0
    with every_bit():
        for chunk in vectors.split(rows_at_once) if isinstance(vectors, Tensor) else map(tensor_of, chunks(vectors)):
            met = scratch[: asked * len(chunk)].view(asked, len(chunk))
            of_chunk = [
                torch.mm(part, chunk.T, out=met[: len(part)]).topk(min(width, len(chunk)), 1, sorted=False)
                for part in placed.split(asked)
            ]
            scores = torch.cat([scores, torch.cat([top.values for top in of_chunk])], 1)
            rows = torch.cat([rows, start + torch.cat([top.indices for top in of_chunk])], 1)
            if scores.shape[1] > width:
                scores, kept = scores.topk(width, 1, sorted=False)
                rows = rows.gather(1, kept)
            start += len(chunk)
    return scores.cpu().numpy(), rows.cpu().numpy()


def chunks(vectors: Vectors) -> Iterator[NDArray[np.float32]]:
    """Yield the vectors in float32, a bounded number at once."""
    for start in range(0, len(vectors), CHUNK):
        yield np.asarray(vectors[start : start + CHUNK], np.float32)


def tensor_of(array: NDArray[np.float32]) -> Tensor:
    """Return the array as a tensor; a copy if it is read-only, of which torch would warn."""
    return torch.from_numpy(array if array.flags.writeable else array.copy())


@contextmanager
def every_bit() -> Iterator[None]:
    """Compute float32 products in float32: otherwise they may be rounded to fewer bits, which the bound excludes."""
    precision = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(precision)
