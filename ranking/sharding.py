"""Splits a ranker's weights over the workers that train it (FSDP2), and keeps the workers at the same passes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from pyrite.ranking.errors import BadInput
from pyrite.ranking.rankers.bi_encoder import BiEncoder
from pyrite.ranking.rankers.cross_encoder import CrossEncoder
from pyrite.ranking.rankers.decoder import Decoder
from pyrite.ranking.rankers.late_interaction import LateInteraction
from pyrite.ranking.rankers.pretrained import Pretrained, transformers_of
from pyrite.ranking.rankers.ranker import Ranker
from pyrite.ranking.sharded_state import Rows, rows_of

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh

SHARDED = (BiEncoder, CrossEncoder, LateInteraction, Decoder)
"""Rankers whose weights are all in transformers, and in one layer after them."""


class Sharding:
    """The split of a ranker's weights: each worker holds its rows of every weight, gradient and optimizer state.

    A transformer's blocks are gathered one at a time, in the forward pass and again in the backward pass, which adds up
    their gradients and leaves each worker its rows of the sums (Zhao et al. 2023, "PyTorch FSDP", in its second
    version, `fully_shard`). FSDP wraps the transformer's `forward`, which every method of the ranker calls, so it need
    not know any method of the ranker.

    Gathering needs all workers, so all have to make the same passes through the same transformer. The passes that a
    worker needs depend on its texts: `Pretrained.even` calls `passes` before each series, and adds empty ones.

    In half precision the blocks are gathered in half precision. If they were gathered in float32 and cast by autocast,
    as without sharding, the casts would be kept for the backward pass, and all blocks with them. Autocast still
    decides which operations are safe. States are in half precision between two blocks; gradients are added up in
    float32.

    Args:
        ranker: the whole ranker, on the CPU; one block at a time goes to the device, and leaves this worker's rows
            there.

    Raises:
        BadInput: if the ranker can't be sharded.
    """

    def __init__(self, ranker: Ranker, device: torch.device) -> None:
        from torch.distributed.device_mesh import init_device_mesh

        check_sharded(ranker)
        self.device, self.rank, self.workers = device, dist.get_rank(), dist.get_world_size()
        self.mesh = init_device_mesh(device.type, (self.workers,))
        self.towers = transformers_of(ranker)
        self._heads = [
            child for child in ranker.children() if not isinstance(child, Pretrained) and list(child.parameters())
        ]
        for tower in self.towers:
            embeddings, *layers = (block for block in tower.blocks() if not isinstance(block, nn.ParameterList))
            _split(embeddings, self.mesh)
            for layer in layers:
                _split(layer, self.mesh, tower.precision)
            _split(tower, self.mesh)
            tower.sharding = self
        for head in self._heads:
            _split(head, self.mesh)
        ranker.to(device)  # buffers, which every worker has whole
        ranker.sharding = self

    def passes(self, tower: Pretrained, count: int) -> int:
        """Return the passes that all workers make next through a transformer: as many as the one that needs most.

        If another worker is at another transformer, or this one has nothing left to read (`finish`), the passes of the
        others are made first, as empty ones.
        """
        index = self.towers.index(tower)
        while True:
            number, most = self._next(index, max(1, count))
            if number == index:
                return most
            self._make_empty(number, most)

    def finish(self) -> None:
        """Make empty passes until all workers have finished, after uneven work without gradients."""
        while True:
            number, most = self._next(0, 0)
            if not most:
                return
            self._make_empty(number, most)

    def most(self, count: int) -> int:
        """Return the largest of all workers' counts."""
        largest = torch.tensor(count, device=self.device)
        dist.all_reduce(largest, dist.ReduceOp.MAX)
        return int(largest)

    def split_state(self, state: dict[str, Any], ranker: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
        """Return a training's state, saved by any number of workers, with its tensors split like the weights.

        Tensors that were split are `Rows` of this worker.
        """
        whole = ranker.state_dict()
        trained = [weight for group in optimizer.param_groups for weight in group["params"]]

        def weights(values: dict[str, Any]) -> dict[str, Any]:
            return {name: self._rows(value, whole[name]) for name, value in values.items()}

        def moments(values: dict[str, Any], weight: Tensor) -> dict[str, Any]:
            return {name: self._rows(value, weight) for name, value in values.items()}

        optimization, stopping = state["optimization"], state["stopping"]
        split = optimization["optimizer"]
        split = split | {
            "state": {number: moments(values, trained[int(number)]) for number, values in split["state"].items()}
        }
        return state | {
            "ranker": weights(state["ranker"]),
            "stopping": stopping | {"weights": [weights(values) for values in stopping["weights"]]},
            "optimization": optimization | {"optimizer": split},
        }

    def _rows(self, value: Any, like: Tensor) -> Any:
        """Return this worker's rows of a weight, or of the optimizer's state for it; a count of steps is unchanged."""
        from torch.distributed.tensor import DTensor, Shard

        if isinstance(value, Rows):
            rows = value.rows
        elif isinstance(value, DTensor) or not isinstance(like, DTensor) or value.shape != like.shape:
            return value
        else:
            rows = value[rows_of(len(value), self.rank, self.workers)].clone()
        layout: dict[str, Any] = {"shape": like.shape, "stride": like.stride(), "run_check": False}
        return DTensor.from_local(rows.to(self.device), self.mesh, [Shard(0)], **layout)

    def _next(self, number: int, count: int) -> tuple[int, int]:
        """Return the first transformer that a worker needs, and the number of passes; (0, 0) for none."""
        counts = torch.zeros(len(self.towers), dtype=torch.int64, device=self.device)
        counts[number] = count
        dist.all_reduce(counts, dist.ReduceOp.MAX)
        return next(((number, count) for number, count in enumerate(counts.tolist()) if count), (0, 0))

    def _make_empty(self, number: int, count: int) -> None:
        if torch.is_grad_enabled():
            raise RuntimeError("workers read different texts with a gradient")
        tower = self.towers[number]
        for _ in range(count):
            nothing = torch.zeros(0, 1, dtype=torch.int64, device=self.device)
            read = tower({"input_ids": nothing, "attention_mask": nothing})
            for head in self._heads:
                head(read.last_hidden_state.float())


def check_sharded(ranker: Ranker) -> None:
    """Refuse a ranker whose weights can't be split, or one of whose options prevents it."""
    where = "resources.shard"
    if type(ranker) not in SHARDED:
        remedy = "choose bi_encoder, cross_encoder, late_interaction or decoder, or resources.shard=false"
        raise BadInput(f"the weights of {type(ranker).__name__} are not split over workers", where, remedy)
    if any(tower.blocks() == [tower.model] for tower in transformers_of(ranker)):
        what = "the layers of this checkpoint are not found, and gathered whole it would save nothing"
        raise BadInput(what, where, "choose another checkpoint, or resources.shard=false")
    heads = [child for child in ranker.children() if isinstance(child, nn.Sequential | nn.ModuleList)]
    if any(list(head.parameters()) for head in heads):
        what = "the layers after this checkpoint's transformer are not split over workers"
        raise BadInput(what, where, "choose another checkpoint, or resources.shard=false")
    options = {
        "ranker.compiled": any(tower.compiled for tower in transformers_of(ranker)),
        "ranker.categories": bool(getattr(ranker, "categories", None)),
        "ranker.words": getattr(ranker, "words", None) is not None,
        "peft": any(type(module).__module__.startswith("peft.") for module in ranker.modules()),
    }
    for option, chosen in options.items():
        if chosen:
            raise BadInput(
                f"{option} is not for a ranker whose weights are split over workers", where, f"leave {option} out"
            )


def _split(module: nn.Module, mesh: DeviceMesh, precision: torch.dtype = torch.float32) -> None:
    """Split the weights of a module that are not split yet; their gradients are sums over the workers."""
    from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard

    half = {} if precision == torch.float32 else {"param_dtype": precision, "reduce_dtype": torch.float32}
    policy = MixedPrecisionPolicy(**half, cast_forward_inputs=bool(half))
    fully_shard(module, mesh=mesh, reshard_after_forward=True, mp_policy=policy)
    assert isinstance(module, FSDPModule)
    module.set_gradient_divide_factor(1.0)  # losses are shares of the whole batch's, so that sums are wanted
    module.set_force_sum_reduction_for_comms(True)  # gloo knows no other way to get them
