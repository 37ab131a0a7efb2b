"""Workers that each hold a share of the ranker's weights, gradients and optimizer state."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from cluster.training.all_reduce import AllReduce
from ranking.training import RankerTraining

READERS = ("represent_queries", "represent_documents", "interact")
"""What reads a ranker's weights outside an update."""


class Sharded(AllReduce):
    """`AllReduce` with FSDP (Zhao et al. 2023): a worker keeps 1/n of weights and optimizer state between two steps.

    The weights are gathered when somebody reads them and given up after each step. Workers need not pass through the
    network equally often, as they must where layers are gathered one by one: texts differ in length and so workers in
    the number of passes they take, and one may have no rows at all. What it costs is that within a step a worker holds
    all weights and gradients; it is the optimizer's state, twice the weights with Adam, that is never in one place.

    Every worker must read the weights, and ask for states, when the others do. States are whole ones: they can be
    loaded by any number of workers, sharded or not.

    Args:
        training: fresh, of this worker; its weights are sharded here.
    """

    def __init__(self, training: RankerTraining) -> None:
        super().__init__()
        self.training, self.ranker = training, training.ranker
        optimizer = training.optimizer
        before = dict(self.ranker.named_parameters())
        mesh = init_device_mesh(self.ranker.device.type, (self.workers,))
        fully_shard(self.ranker, mesh=mesh, reshard_after_forward=False)
        self._fsdp = cast(Any, self.ranker)
        self._fsdp.set_gradient_divide_factor(1.0)  # a worker's loss is its share already
        self._fsdp.set_force_sum_reduction_for_comms(True)  # gloo knows no other
        self._fsdp.set_reshard_after_backward(False)
        self.parameters = dict(self.ranker.named_parameters())
        shards = {before[name]: shard for name, shard in self.parameters.items()}
        for group in optimizer.param_groups:
            group["params"] = [shards[each] for each in group["params"]]
        training.top = [shards[each] for each in training.top]
        for name in READERS:
            setattr(self.ranker, name, self._gathered(getattr(self.ranker, name)))
        self.ranker.register_state_dict_pre_hook(lambda *_: self._fsdp.reshard())
        self.ranker.register_state_dict_post_hook(lambda module, state, prefix, metadata: _make_whole(state))
        self.ranker.register_load_state_dict_pre_hook(self._load)
        optimizer.register_state_dict_post_hook(lambda optimizer, state: _whole(state))
        optimizer.register_load_state_dict_pre_hook(self._load_optimizer)

    def rows(self, size: int) -> slice:
        self._fsdp.unshard()
        self._fsdp.set_requires_gradient_sync(False)
        return super().rows(size)

    def join(self, parameters: Sequence[nn.Parameter], loss: float, scores: Tensor) -> tuple[float, Tensor]:
        gathered = dict(self.ranker.named_parameters())
        loss, together, touched = self._exchange(list(gathered.values()), loss, scores)
        for each in gathered.values():
            if each.grad is None:
                each.grad = torch.zeros_like(each)  # FSDP joins what has a gradient: the same on every worker
        # FSDP exchanges gradients at the end of a backward pass that it has seen: one that adds nothing to them.
        self._fsdp.set_requires_gradient_sync(True)
        encoded = self.training.encoded
        first = np.zeros(1, np.int64)
        (self.ranker(encoded.queries.take(first), encoded.documents.take(first)).sum() * 0).backward()
        self._fsdp.reshard()
        for name, anywhere in zip(gathered, touched, strict=True):
            if not anywhere:
                self.parameters[name].grad = None
        grads = [each.grad for each in self.parameters.values() if each.grad is not None]
        norm = torch.stack([each.to_local().square().sum() for each in grads]).sum()  # type: ignore[attr-defined]
        dist.all_reduce(norm)
        return (loss if math.isfinite(norm) else math.nan), together

    def _gathered(self, read: Callable[..., Tensor]) -> Callable[..., Tensor]:
        def reading(*arguments: Any) -> Tensor:
            self._fsdp.unshard()
            return read(*arguments)

        return reading

    def _load(self, module: nn.Module, state: dict[str, Any], prefix: str, *_: Any) -> None:
        self._fsdp.reshard()
        for name, parameter in self.parameters.items():
            state[prefix + name] = _like(parameter, state[prefix + name])

    def _load_optimizer(self, optimizer: torch.optim.Optimizer, state: dict[str, Any]) -> dict[str, Any]:
        order = [each for group in optimizer.param_groups for each in group["params"]]
        shards = {
            number: {name: _like(order[number], value) for name, value in values.items()}
            for number, values in state["state"].items()
        }
        return state | {"state": shards}


def _whole(state: Any) -> Any:
    """A nest of dicts and lists with whole tensors in place of shards."""
    if isinstance(state, Mapping):
        return {key: _whole(value) for key, value in state.items()}
    if isinstance(state, list):
        return [_whole(value) for value in state]
    return state.full_tensor() if isinstance(state, DTensor) else state


def _make_whole(state: dict[str, Any]) -> None:
    for name, value in state.items():
        state[name] = _whole(value.detach()) if isinstance(value, DTensor) else value


def _like(parameter: Tensor, value: Any) -> Any:
    """This worker's share of a whole tensor; what is no tensor of the parameter's shape (a count of steps) stays."""
    if not isinstance(value, Tensor) or isinstance(value, DTensor) or value.shape != parameter.shape:
        return value
    assert isinstance(parameter, DTensor)
    value = value.to(parameter.device)
    return distribute_tensor(value, parameter.device_mesh, parameter.placements, src_data_rank=None)
