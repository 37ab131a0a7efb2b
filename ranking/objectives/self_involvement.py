"""Defines SIR V0 to V4: a ranker compresses its own candidates into hard negatives (Pu et al. 2021)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ranking.errors import BadInput
from ranking.objectives.block import Block
from ranking.objectives.objective import Objective, Scorer, Stage

PICKS = ("top", "random")


class BlockLoss(Objective):
    """V0: the loss of a block, a positive and its negatives (equations 1 and 2); the base of V1 to V4.

    −log P⁰ − Σ_j log(1 − P^j), where P is the softmax of the block's scores.
    """

    def loss(self, scores: Tensor, block: Block) -> Tensor:
        return block_loss(scores, block.present).mean()

    def probabilities(self, scores: Tensor, present: Tensor) -> Tensor:
        return torch.softmax(scores.masked_fill(~present, -torch.inf), 1)


class Compressing(BlockLoss):
    """A block that shrinks level by level.

    Args:
        levels: documents that the second, third, … level keep, the positive always among them.
        pick: `top` keeps those that the level before scores highest (equation 4), `random` any; one word for all
            levels, or a list with one for each.

    Raises:
        BadInput: where levels do not shrink, or there is no such pick.
    """

    def __init__(self, levels: Sequence[int] = (48, 16), pick: str | list[str] = "top") -> None:
        self.levels = list(levels)
        falling = all(above > below for above, below in zip(self.levels, self.levels[1:], strict=False))
        if not self.levels or not falling or self.levels[-1] < 2:
            where = "each level keeps fewer documents than the one before, at least 2: the positive and a negative"
            raise BadInput(f"levels are {self.levels}", "objective.levels", where)
        self.picks = [pick] * len(self.levels) if isinstance(pick, str) else list(pick)
        if len(self.picks) != len(self.levels) or not set(self.picks) <= set(PICKS):
            remedy = f"choose {' or '.join(PICKS)}, one for all levels or a list of {len(self.levels)}"
            raise BadInput(f"pick is {pick!r}", "objective.pick", remedy)

    def check_block(self, negatives: int) -> None:
        if self.levels[0] > negatives:
            what = f"a block of 1 + {negatives} documents can't be compressed to {self.levels[0]}"
            raise BadInput(what, "objective.levels", "show more negatives (sampling.negatives=87), or lower the levels")


class SequentialSIR(Compressing):
    """V1: compressors from one checkpoint, trained one after the other; each hands its top K on (equations 1 to 4).

    With `flows` it is V2: each starts from the weights of the one before.

    Args:
        levels, pick: as of `Compressing`. A pick at random draws anew for each batch from what the last top left.
        flows: whether weights flow on.
    """

    def __init__(self, levels: Sequence[int] = (48, 16), pick: str | list[str] = "top", flows: bool = False) -> None:
        super().__init__(levels, pick)
        self.flows = flows

    def stages(self) -> list[Stage]:
        return [Stage(), *(Stage(k, pick, self.flows) for k, pick in zip(self.levels, self.picks, strict=True))]


class JointSIR(Compressing):
    """V3: one set of weights at all levels; the first and the last level's losses are added (equations 5 and 6).

    Args:
        levels, pick: as of `Compressing`.
        passes: `one` forward pass for all levels, or one a `level`, as printed: with a fresh dropout mask for
            each. Without dropout both give the same.
    """

    def __init__(self, levels: Sequence[int] = (48, 16), pick: str | list[str] = "top", passes: str = "one") -> None:
        super().__init__(levels, pick)
        if passes not in ("one", "level"):
            raise BadInput(f"passes is {passes!r}", "objective.passes", "choose one or level")
        self.passes = passes

    def of_passes(self, score: Scorer, block: Block, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        first = score()
        columns = torch.arange(first.shape[1], device=first.device).expand_as(first)
        blocks = [(first, block.present, columns)]
        for level, (size, pick) in enumerate(zip(self.levels, self.picks, strict=True), start=1):
            scores, there, columns = blocks[-1]
            kept = survivors(scores.detach(), there, size, pick, generator)
            columns, there = columns.gather(1, kept), there.gather(1, kept)
            scores = scores.gather(1, kept) if self.passes == "one" else score(level, columns)
            blocks.append((scores, there, columns))
        return self.of_levels(blocks), first

    def of_levels(self, blocks: list[tuple[Tensor, Tensor, Tensor]]) -> Tensor:
        """The loss of scores, presence and columns of each level, [b, its size] each."""
        return sum_losses([block_loss(scores, there) for scores, there, _ in (blocks[0], blocks[-1])])

    def loss(self, scores: Tensor, block: Block) -> Tensor:
        """With scores that are the same at each level. A pick at random draws the same documents at each call."""
        return self.of_passes(lambda level=0, columns=None: scores if columns is None else scores.gather(1, columns),
                              block, torch.Generator().manual_seed(0))[0]  # fmt: skip


class ConditionalSIR(JointSIR):
    """V4: each level is judged by its probability on the condition of those before it (equations 7 to 9).

    CPR_i = softmax(P_1 ⊙ … ⊙ P_i) over the documents of level i, P_l being the softmax of level l; the losses of all
    levels are added. A softmax of probabilities is nearly flat, since they lie between 0 and 1: with
    `condition=product` CPR_i is the product itself, made to sum to 1.

    Args:
        levels, pick, passes: as of `JointSIR`.
        condition: `softmax` as printed, or `product`.
    """

    def __init__(
        self,
        levels: Sequence[int] = (48, 16),
        pick: str | list[str] = "top",
        passes: str = "one",
        condition: str = "softmax",
    ) -> None:
        super().__init__(levels, pick, passes)
        if condition not in ("softmax", "product"):
            raise BadInput(f"condition is {condition!r}", "objective.condition", "choose softmax or product")
        self.condition = condition

    def of_levels(self, blocks: list[tuple[Tensor, Tensor, Tensor]]) -> Tensor:
        losses = []
        width = blocks[0][0].shape[1]
        product = torch.zeros_like(blocks[0][0], dtype=torch.float32)  # log ∏ P_l, by column of the whole block
        for scores, there, columns in blocks:
            of_level = log_softmax(scores, there)
            product = product.gather(1, columns) + of_level
            given = product.exp() if self.condition == "softmax" else product
            losses.append(block_loss(given, there))
            product = torch.full((len(scores), width), -torch.inf, device=scores.device).scatter(1, columns, product)
        return sum_losses(losses)


def log_softmax(scores: Tensor, present: Tensor) -> Tensor:
    """log P of equation 2 over what is present; a very low number elsewhere, whose gradient is 0."""
    logs = torch.log_softmax(scores.float().masked_fill(~present, -torch.inf), 1)
    return logs.masked_fill(~present, torch.finfo(torch.float32).min / 8)


def block_loss(scores: Tensor, present: Tensor) -> Tensor:
    """−log P⁰ − Σ_j log(1 − P^j) of each block (equation 1), finite for any finite scores. Shape [b].

    1 − P^j is the share of all others, so log(1 − P^j) is a difference of two logsumexps: exact where P^j rounds to 1,
    and with the gradient that the ranker then needs most.

    Args:
        scores: [b, 1 + n], the positive in column 0, of any level.
        present: bool, as `scores`.
    """
    scores = scores.float().masked_fill(~present, -torch.inf)
    whole = torch.logsumexp(scores, 1, keepdim=True)
    size = scores.shape[1]
    itself = torch.eye(size, dtype=torch.bool, device=scores.device)
    others = torch.logsumexp(scores[:, None].expand(-1, size, -1).masked_fill(itself, -torch.inf), 2)
    wrong = (others - whole)[:, 1:].masked_fill(~present[:, 1:], 0)
    return (whole[:, 0] - scores[:, 0]) - wrong.sum(1)


def sum_losses(losses: list[Tensor]) -> Tensor:
    """The sum over levels, averaged over blocks."""
    return torch.stack(losses).sum(0).mean()


def survivors(scores: Tensor, present: Tensor, size: int, pick: str, generator: torch.Generator) -> Tensor:
    """Columns of the documents that a level keeps: the positive, and `size` − 1 negatives (equation 4).

    Equal scores stand in the order of the columns, so that the choice never depends on the device.

    Args:
        scores: [b, 1 + n].
        present: bool; what is not there is kept last.
        size: documents to keep.
        pick: `top` or `random`.
        generator: draws where the pick is random.

    Returns:
        int64 [b, min(size, 1 + n)], column 0 first.
    """
    keys = scores.float()
    if pick == "random":
        keys = torch.rand(scores.shape, generator=generator).to(scores.device)
    # nan, of a ranker that has diverged, sorts anywhere: its loss is nan as well and ends the training.
    keys = keys.masked_fill(~present, -torch.inf)
    keys[:, 0] = torch.inf
    return torch.argsort(keys, dim=1, descending=True, stable=True)[:, :size]
