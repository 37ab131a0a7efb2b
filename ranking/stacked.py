"""Updates many rankers at once: a GPU does in one batch of kernels what would be one batch a ranker.

The weights of rankers of one shape are stacked, and `torch.func.vmap` maps one ranker's minibatch over the stack. On a
CPU a ranker's own `update` is faster for most (it reads ragged texts in a compiled loop) and gives the same bits
whatever runs beside it, so a CPU stacks only where it is told to.
"""

from __future__ import annotations

import copy
import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from ranking.objectives.block import Block
from ranking.objectives.objective import Objective
from ranking.rankers.ranker import Ranker
from ranking.texts import Texts
from ranking.training import Batch, RankerTraining, UpdateResult


def can_stack(trainings: Sequence[RankerTraining], forced: bool = False) -> bool:
    """Whether `stacked_update` takes them together, and is meant to.

    They must be alike in all but their weights: class and shapes of the ranker (which scores padded texts), objective,
    kind of optimizer, top layers, device and collection. Learning rates, epochs, seeds and patience may differ.

    Args:
        trainings: as many as there are.
        forced: also on a CPU.
    """
    first = trainings[0]
    return (
        first.ranker.stackable
        and all(each.scores.chunk is None and each.scores.memory is None for each in trainings)
        and (forced or first.ranker.device.type == "cuda")
        and all(_alike(first, other) for other in trainings[1:])
    )


def _alike(one: RankerTraining, other: RankerTraining) -> bool:
    return (
        type(one.ranker) is type(other.ranker)
        and _shapes(one.ranker) == _shapes(other.ranker)
        and type(one.objective) is type(other.objective)
        and type(one.objective).rank is Objective.rank  # one that looks prepared lists up reads arrays of its own
        and vars(one.objective) == vars(other.objective)
        and all(each.teacher is each.more_positives is each.optimization.clip_norm is None for each in (one, other))
        and type(one.optimizer) is type(other.optimizer)
        and len(one.top) == len(other.top)
        and one.encoded is other.encoded
    )


def _shapes(ranker: Ranker) -> list[tuple[object, ...]]:
    return [(name, w.shape, w.dtype, w.device, w.requires_grad) for name, w in ranker.named_parameters()]


def stacked_update(
    trainings: Sequence[RankerTraining], batches: Sequence[Batch], negatives: Sequence[NDArray[np.int32]]
) -> list[UpdateResult]:
    """What `RankerTraining.update` does, for each of them, in few kernels.

    The weights, counters and steps are those of `update` but for rounding. A training whose loss or gradient is not
    finite has diverged and leaves the others alone. Objectives take means over a batch, so batches of different sizes
    (the last one of an epoch is short) go in as many rounds; different numbers of negatives do not.

    Args:
        trainings: for which `can_stack` holds; which ones may change from call to call, each at most once in a call.
        batches: `next_batch` of each.
        negatives: int32 [b, n] each, −1 for none.

    Returns:
        A step for each training, in their order.
    """
    rounds = defaultdict(list)
    for place, batch in enumerate(batches):
        rounds[len(batch)].append(place)
    steps: dict[int, UpdateResult] = {}
    for places in rounds.values():
        chosen = [[parts[place] for place in places] for parts in (trainings, batches, negatives)]
        steps |= zip(places, _round(*chosen), strict=True)  # type: ignore[arg-type]
    return [steps[place] for place in range(len(trainings))]


class _Minibatch(nn.Module):
    """Loss and scores of one ranker's minibatch, as a function of its weights."""

    def __init__(self, ranker: Ranker, objective: Objective, relevant_from: int) -> None:
        super().__init__()
        self.relevant_from = relevant_from
        self.ranker, self.objective = ranker, objective

    def forward(self, queries: Tensor, documents: Tensor, *shown: Tensor) -> tuple[Tensor, Tensor]:
        scores = self.ranker.score_padded(queries, documents)
        present, asked, numbers, gains, source_scores = shown
        block = Block(present, asked, numbers, lambda: gains, lambda: source_scores, None, self.relevant_from)
        return self.objective.loss(scores, block), scores


def _round(
    trainings: list[RankerTraining], batches: list[Batch], negatives: list[NDArray[np.int32]]
) -> list[UpdateResult]:
    """`stacked_update` of batches of one size."""
    first = trainings[0]
    widths = [1 + drawn.shape[1] for drawn in negatives]
    shown = np.full((len(batches), len(batches[0]), max(widths)), -1, np.int32)
    for row, (batch, drawn) in enumerate(zip(batches, negatives, strict=True)):
        shown[row, :, 0], shown[row, :, 1 : widths[row]] = batch.positives, drawn
    asked = np.stack([batch.queries for batch in batches])
    device = first.ranker.device
    queries = _padded(first.encoded.queries, asked, device)
    documents = _padded(first.encoded.documents, np.maximum(shown, 0), device)
    block = Block.of(first.encoded, asked.ravel(), shown.reshape(-1, shown.shape[-1]), None, device)
    assert block.queries is not None
    assert block.documents is not None
    seen_of_blocks = (block.present, block.queries, block.documents, block.gains, block.source_scores)
    blocks = [each.unflatten(0, asked.shape) for each in seen_of_blocks]

    for training in trainings:
        training.optimization.begin(training.step)
    losses, scores, gradients = _differentiate(trainings, queries, documents, blocks)
    norms = {name: gradient.flatten(1).norm(dim=1) for name, gradient in gradients.items()}
    top = {id(parameter) for parameter in first.top}
    of_top = [norms[name] for name, parameter in first.ranker.named_parameters() if id(parameter) in top]
    figures = torch.stack([losses, _norm(of_top), _norm(list(norms.values()))]).cpu()
    finite = figures[[0, 2]].isfinite().all(0).tolist()
    seen = scores.float().cpu().numpy()
    for row, training in enumerate(trainings):
        for name, parameter in training.ranker.named_parameters():
            parameter.grad = gradients[name][row] if finite[row] and name in gradients else None
    step_together([training.optimizer for training, fine in zip(trainings, finite, strict=True) if fine])
    steps = []
    for row, (training, width) in enumerate(zip(trainings, widths, strict=True)):
        training.optimizer.zero_grad(set_to_none=True)
        loss, norm, _ = figures[:, row].tolist()
        step = UpdateResult(loss, norm if math.isfinite(loss) else 0.0, seen[row, :, :width])
        steps.append(training.record(step, finite[row]))
    return steps


def _differentiate(
    trainings: list[RankerTraining], queries: Tensor, documents: Tensor, blocks: list[Tensor]
) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
    """Losses [rankers], scores [rankers, b, 1 + n], and by parameter the gradients [rankers, …] of the losses."""
    from_grade = trainings[0].encoded.judgements.relevant_from
    minibatches = [_Minibatch(training.ranker, training.objective, from_grade) for training in trainings]
    weights, buffers = stack_module_state(minibatches)

    def losses_and_scores(*inputs: Any) -> tuple[Tensor, Tensor]:
        return functional_call(minibatches[0], inputs[:2], inputs[2:])

    losses, scores = vmap(losses_and_scores)(weights, buffers, queries, documents, *blocks)
    learned = {name.removeprefix("ranker."): stack for name, stack in weights.items() if stack.requires_grad}
    # A ranker's loss depends on its own weights alone: the gradient of the sum is each one's gradient.
    found = torch.autograd.grad(losses.sum(), list(learned.values()), allow_unused=True)
    # Fused optimizers read memory as it lies, so a gradient has to lie as its weights do.
    gradients = {name: each.contiguous() for name, each in zip(learned, found, strict=True) if each is not None}
    return losses.detach(), scores.detach(), gradients


def _norm(norms: list[Tensor]) -> Tensor:
    """‖·‖₂ of each ranker's gradient from those of its parameters [rankers]."""
    return torch.stack(norms).norm(dim=0)


def _padded(texts: Texts, rows: NDArray[np.integer], device: torch.device) -> Tensor:
    """The texts at `rows`, padded with 0 to the longest of them, as int64 [*rows.shape, words] on the device."""
    taken = texts.take(rows.ravel())
    lengths = torch.from_numpy(taken.lengths).to(device)
    inside = torch.arange(int(taken.lengths.max()), device=device) < lengths[:, None]
    # The texts lie back to back, which is the order of the places inside.
    tokens = torch.from_numpy(taken.tokens).to(device).long()
    padded = torch.zeros(inside.shape, dtype=torch.int64, device=device).masked_scatter_(inside, tokens)
    return padded.unflatten(0, rows.shape)


def step_together(optimizers: Sequence[torch.optim.Optimizer]) -> None:
    """One step of each optimizer, through as few of torch's multi-tensor kernels as their options allow.

    Their parameters and states are lent to one optimizer, which takes those of equal options as one list.

    Args:
        optimizers: of one class, each parameter on its own (as all but L-BFGS), with its gradients in place.
    """
    if not optimizers:
        return
    groups: list[tuple[dict[str, Any], list[nn.Parameter]]] = []
    joint = copy.copy(optimizers[0])
    joint.state = defaultdict(dict)
    for optimizer in optimizers:
        joint.state.update(optimizer.state)
        for group in optimizer.param_groups:
            options = {name: value for name, value in group.items() if name != "params"}
            same = [parameters for others, parameters in groups if others == options]
            if same:
                same[0].extend(group["params"])
            else:
                groups.append((options, list(group["params"])))
    joint.param_groups = [options | {"params": parameters} for options, parameters in groups]
    joint.step()
    for optimizer in optimizers:  # a first step has made the states
        for group in optimizer.param_groups:
            optimizer.state.update({each: joint.state[each] for each in group["params"] if each in joint.state})
