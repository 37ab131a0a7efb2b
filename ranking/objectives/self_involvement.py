"""Defines SIR V0 to V4: a ranker compresses its own candidates into hard negatives (Pu et al. 2021)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import torch
from torch import Tensor

from pyrite.ranking.bounds import Positive, checked
from pyrite.ranking.errors import BadInput, refuse
from pyrite.ranking.objectives.block import Block
from pyrite.ranking.objectives.objective import Scorer, Stage
from pyrite.ranking.objectives.softmax import SoftmaxObjective

PICKS = ("top", "random")


class BlockLoss(SoftmaxObjective):
    """SIR V0, the loss of a block of a positive and its negatives, and the base of V1 to V4.

    −log P⁰ − Σ_j log(1 − P^j), where P is the softmax of the block's scores (Pu et al. 2021, equations 1 and 2).
    """

    def loss(self, scores: Tensor, block: Block) -> Tensor:
        return block_loss(scores, block.present).mean()


class Compressing(BlockLoss):
    """A block that gets smaller level by level.

    Args:
        levels: the number of documents that the second, third, … level keep, always including the positive.
        pick: `top` keeps the documents that the previous level scores highest (Pu et al. 2021, equation 4), `random`
            any. One word for all levels, or a list with one per level.

    Raises:
        BadInput: if the levels do not get smaller, or a pick is unknown.
    """

    @checked
    def __init__(self, levels: Sequence[int] = (48, 16), pick: str | list[str] = "top") -> None:
        self.levels = list(levels)
        falling = all(above > below for above, below in zip(self.levels, self.levels[1:], strict=False))
        remedy = "each level keeps fewer documents than the one before, at least 2: the positive and a negative"
        refuse(
            not self.levels or not falling or self.levels[-1] < 2,
            f"levels are {self.levels}",
            "objective.levels",
            remedy,
        )
        self.picks = [pick] * len(self.levels) if isinstance(pick, str) else list(pick)
        remedy = f"choose {' or '.join(PICKS)}, one for all levels or a list of {len(self.levels)}"
        refuse(
            len(self.picks) != len(self.levels) or not set(self.picks) <= set(PICKS),
            f"pick is {pick!r}",
            "objective.pick",
            remedy,
        )

    def check_block(self, negatives: int) -> None:
        if self.levels[0] > negatives:
            what = f"a block of 1 + {negatives} documents can't be compressed to {self.levels[0]}"
            raise BadInput(what, "objective.levels", "show more negatives (sampling.negatives=87), or lower the levels")


class SequentialSIR(Compressing):
    """SIR V1 and V2: compressors from one checkpoint, trained in turn; each passes its top K on.

    Pu et al. 2021, equations 1 to 4. With `flows` it is V2: each compressor starts from the previous one's weights.

    Args:
        pick: see `pyrite.ranking.objectives.self_involvement.Compressing`. A random pick draws for each batch from the
            last compressor's top.
        flows: whether a compressor starts from the previous one's weights.
    """

    def __init__(self, levels: Sequence[int] = (48, 16), pick: str | list[str] = "top", flows: bool = False) -> None:
        super().__init__(levels, pick)
        self.flows = flows

    def stages(self) -> list[Stage]:
        return [Stage(), *(Stage(k, pick, self.flows) for k, pick in zip(self.levels, self.picks, strict=True))]


class FlowingSIR(SequentialSIR, flows=True):
    """SIR V2: as V1, but the weights of a level are those with which the next one starts."""


class JointSIR(Compressing):
    """SIR V3: one set of weights for all levels; the losses of the first and the last level are added.

    Pu et al. 2021, equations 5 and 6.

    Args:
        passes: `one` forward pass for all levels, or one per `level`, as printed, each with a new dropout mask.
            Without dropout both give the same.
    """

    @checked
    def __init__(
        self,
        levels: Sequence[int] = (48, 16),
        pick: str | list[str] = "top",
        passes: Literal["one", "level"] = "one",
    ) -> None:
        super().__init__(levels, pick)
        self.passes = passes

    def of_passes(self, score: Scorer, block: Block, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        first = score()
        columns = torch.arange(first.shape[1], device=first.device).expand_as(first)
        blocks = [(first, block.present, columns)]
        for size, pick in zip(self.levels, self.picks, strict=True):
            scores, present, columns = blocks[-1]
            kept = survivors(scores.detach(), present, size, pick, generator)
            columns, present = columns.gather(1, kept), present.gather(1, kept)
            scores = scores.gather(1, kept) if self.passes == "one" else score(columns)
            blocks.append((scores, present, columns))
        return self.of_levels(blocks), first

    def of_levels(self, blocks: list[tuple[Tensor, Tensor, Tensor]]) -> Tensor:
        """Return the loss of the scores, presence and columns of each level, each [b, its size]."""
        return sum_losses([block_loss(scores, present) for scores, present, _ in (blocks[0], blocks[-1])])

    def loss(self, scores: Tensor, block: Block) -> Tensor:
        """Return the loss of scores that are the same at each level. A random pick draws the same at each call."""

        def score(columns: Tensor | None = None, dimensions: Sequence[int] | None = None) -> Tensor:
            return scores if columns is None else scores.gather(1, columns)

        return self.of_passes(score, block, torch.Generator().manual_seed(0))[0]


class SIR(JointSIR):
    """SIR V4: each level is judged by its probability given the levels before it; all losses are added.

    CPR_i = softmax(P_1 ⊙ … ⊙ P_i) over the documents of level i, where P_l is the softmax of level l (Pu et al. 2021,
    equations 7 to 9). A softmax of probabilities is nearly flat, because they are between 0 and 1: with
    `condition=product` CPR_i is the product itself, normalised to sum to 1.

    Args:
        condition: `softmax` of the product, as printed, or the `product` itself.
        temperature: what the product is divided by before the softmax; 1 as printed, less makes it steeper.
    """

    @checked
    def __init__(
        self,
        levels: Sequence[int] = (48, 16),
        pick: str | list[str] = "top",
        passes: Literal["one", "level"] = "one",
        condition: Literal["softmax", "product"] = "softmax",
        temperature: Annotated[float, Positive] = 1.0,
    ) -> None:
        super().__init__(levels, pick, passes)
        self.condition, self.temperature = condition, temperature

    def of_levels(self, blocks: list[tuple[Tensor, Tensor, Tensor]]) -> Tensor:
        losses = []
        width = blocks[0][0].shape[1]
        product = torch.zeros_like(blocks[0][0], dtype=torch.float32)  # log ∏ P_l, by column of the whole block
        for scores, present, columns in blocks:
            of_level = log_softmax(scores, present)
            product = product.gather(1, columns) + of_level
            given = product.exp() / self.temperature if self.condition == "softmax" else product
            losses.append(block_loss(given, present))
            product = torch.full((len(scores), width), -torch.inf, device=scores.device).scatter(1, columns, product)
        return sum_losses(losses)


def log_softmax(scores: Tensor, present: Tensor) -> Tensor:
    """Return log P of equation 2 over the documents present; a very low number elsewhere, whose gradient is 0."""
    logs = torch.log_softmax(scores.float().masked_fill(~present, -torch.inf), 1)
    return logs.masked_fill(~present, torch.finfo(torch.float32).min / 8)


def block_loss(scores: Tensor, present: Tensor) -> Tensor:
    """Return −log P⁰ − Σ_j log(1 − P^j) of each block (equation 1), finite for any finite scores. Shape [b].

    1 − P^j is the share of all others, so log(1 − P^j) is a difference of two logsumexps. This is exact even if P^j
    rounds to 1, and keeps the gradient, which the ranker then needs most.

    Args:
        scores: [b, 1 + n], the scores of one level, the positive in column 0.
        present: bool [b, 1 + n].
    """
    scores = scores.float().masked_fill(~present, -torch.inf)
    whole = torch.logsumexp(scores, 1, keepdim=True)
    size = scores.shape[1]
    itself = torch.eye(size, dtype=torch.bool, device=scores.device)
    others = torch.logsumexp(scores[:, None].expand(-1, size, -1).masked_fill(itself, -torch.inf), 2)
    wrong = (others - whole)[:, 1:].masked_fill(~present[:, 1:], 0)
    return (whole[:, 0] - scores[:, 0]) - wrong.sum(1)


def sum_losses(losses: list[Tensor]) -> Tensor:
    """Return the sum over levels, averaged over blocks."""
    return torch.stack(losses).sum(0).mean()


def survivors(scores: Tensor, present: Tensor, size: int, pick: str, generator: torch.Generator) -> Tensor:
    """Return the columns [b, min(size, 1 + n)] that a level keeps: first the positive, then `size` − 1 negatives.

    Equation 4. Equal scores keep the order of the columns, so the choice does not depend on the device.

    Args:
        scores: [b, 1 + n].
        present: bool [b, 1 + n]. Missing documents are kept last.
        pick: `top` or `random`.
    """
    keys = scores.float()
    if pick == "random":
        keys = torch.rand(scores.shape, generator=generator).to(scores.device)
    # nan, from a ranker that has diverged, sorts anywhere: its loss is nan as well and ends the training.
    keys = keys.masked_fill(~present, -torch.inf)
    keys[:, 0] = torch.inf
    return torch.argsort(keys, dim=1, descending=True, stable=True)[:, :size]
