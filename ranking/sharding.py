"""Splits a ranker's weights over the workers that train it (FSDP2), and keeps the workers at the same passes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from ranking.errors import BadInput
from ranking.rankers.bi_encoder import BiEncoder
from ranking.rankers.cross_encoder import CrossEncoder
from ranking.rankers.decoder import Decoder
from ranking.rankers.late_interaction import LateInteraction
from ranking.rankers.pretrained import Pretrained, transformers_of
from ranking.rankers.ranker import Ranker
from ranking.sharded_state import Rows, rows_of

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh

SHARDED = (BiEncoder, CrossEncoder, LateInteraction, Decoder)
"""Rankers whose weights are all in transformers, and in one layer behind them."""


class Sharding:
    """How the weights of a ranker are split: each worker holds its rows of every weight, gradient and optimizer state.

    A transformer's blocks are gathered one at a time, in the forward pass and again in the backward pass, which adds up
    their gradients and leaves each worker its rows of the sums (Zhao et al. 2023, "PyTorch FSDP", in its second
    version, `fully_shard`). What is called is a transformer's `forward`, whichever method of the ranker it is that
    reads, so that no method of the ranker has to be known to FSDP.

    Gathering takes all workers, so all have to make the same passes through the same transformer. How many a worker
    needs depends on its texts: `Pretrained.even` asks `passes` before each run of passes, and fills up with empty ones.

    In half precision the blocks are gathered in it. Were they gathered in float32 and cast by autocast, as without
    sharding, the casts would stay for the backward pass, and all blocks with them. Autocast still says which operations
    are safe. States are in half precision between two blocks; gradients are added up in float32.

    Args:
        ranker: whole, on the CPU; a block at a time goes to the device, and leaves this worker's rows there.
        device: of this worker.

    Raises:
        BadInput: where the ranker can't be sharded.
    """

    def __init__(self, ranker: Ranker, device: torch.device) -> None:
        from torch.distributed.device_mesh import init_device_mesh

        check_sharded(ranker)
        self.device, self.rank, self.workers = device, dist.get_rank(), dist.get_world_size()
        self.mesh = init_device_mesh(device.type, (self.workers,))
        self.towers = transformers_of(ranker)
        self._heads = [
            each for each in ranker.children() if not isinstance(each, Pretrained) and list(each.parameters())
        ]
        for tower in self.towers:
            embeddings, *layers = (each for each in tower.blocks() if not isinstance(each, nn.ParameterList))
            _split(embeddings, self.mesh)
            for layer in layers:
                _split(layer, self.mesh, tower.precision)
            _split(tower, self.mesh)
            tower.sharding = self
        for head in self._heads:
            _split(head, self.mesh)
        ranker.to(device)  # buffers, of which each worker has all
        ranker.sharding = self

    def passes(self, tower: Pretrained, count: int) -> int:
        """How many passes through a transformer all workers make next: as many as the one that needs most.

        Where another worker is at another transformer, or this one has nothing left to read (`finish`), passes of the
        others are made along first, as empty ones.

        Args:
            tower: one of the ranker's.
            count: passes that this worker needs.
        """
        mine = self.towers.index(tower)
        while True:
            place, most = self._next(mine, max(1, count))
            if place == mine:
                return most
            self._make_empty(place, most)

    def finish(self) -> None:
        """Make empty passes until no worker reads any more: behind what is shared out unevenly, without gradients."""
        while True:
            place, most = self._next(0, 0)
            if not most:
                return
            self._make_empty(place, most)

    def most(self, count: int) -> int:
        """The largest of all workers' counts."""
        told = torch.tensor(count, device=self.device)
        dist.all_reduce(told, dist.ReduceOp.MAX)
        return int(told)

    def split_state(self, state: dict[str, Any], ranker: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
        """A training's state, whoever kept it, with its tensors split as the ranker's weights are.

        Args:
            state: of `RankerTraining.state_dict`; tensors that were split are `Rows` of this worker.
            ranker, optimizer: of the training that goes on from it.
        """
        own = ranker.state_dict()
        trained = [each for group in optimizer.param_groups for each in group["params"]]

        def weights(found: dict[str, Any]) -> dict[str, Any]:
            return {name: self._own(value, own[name]) for name, value in found.items()}

        def moments(found: dict[str, Any], weight: Tensor) -> dict[str, Any]:
            return {name: self._own(value, weight) for name, value in found.items()}

        optimization, stopping = state["optimization"], state["stopping"]
        made = optimization["optimizer"]
        made = made | {"state": {place: moments(each, trained[int(place)]) for place, each in made["state"].items()}}
        return state | {
            "ranker": weights(state["ranker"]),
            "stopping": stopping | {"weights": [weights(each) for each in stopping["weights"]]},
            "optimization": optimization | {"optimizer": made},
        }

    def _own(self, value: Any, like: Tensor) -> Any:
        """What a state holds of a weight, or of the optimizer beside it, as this worker's rows of it.

        Args:
            value: `Rows` of this worker, a whole tensor, or a count of steps, which stays what it is.
            like: the weight.
        """
        from torch.distributed.tensor import DTensor, Shard

        if isinstance(value, Rows):
            rows = value.rows
        elif isinstance(value, DTensor) or not isinstance(like, DTensor) or value.shape != like.shape:
            return value
        else:
            rows = value[rows_of(len(value), self.rank, self.workers)].clone()
        layout: dict[str, Any] = {"shape": like.shape, "stride": like.stride(), "run_check": False}
        return DTensor.from_local(rows.to(self.device), self.mesh, [Shard(0)], **layout)

    def _next(self, place: int, count: int) -> tuple[int, int]:
        """The first transformer that a worker asks for, and how many passes it is asked for; (0, 0) for none."""
        asked = torch.zeros(len(self.towers), dtype=torch.int64, device=self.device)
        asked[place] = count
        dist.all_reduce(asked, dist.ReduceOp.MAX)
        return next(((place, count) for place, count in enumerate(asked.tolist()) if count), (0, 0))

    def _make_empty(self, place: int, count: int) -> None:
        if torch.is_grad_enabled():
            raise RuntimeError("workers read different texts with a gradient")
        tower = self.towers[place]
        for _ in range(count):
            nothing = torch.zeros(0, 1, dtype=torch.int64, device=self.device)
            read = tower({"input_ids": nothing, "attention_mask": nothing})
            for head in self._heads:
                head(read.last_hidden_state.float())


def check_sharded(ranker: Ranker) -> None:
    """Refuse a ranker whose weights can't be split.

    Raises:
        BadInput: for it, or for one of its options.
    """
    where = "resources.shard"
    if not isinstance(ranker, SHARDED):
        remedy = "choose bi_encoder, cross_encoder, late_interaction or decoder, or resources.shard=false"
        raise BadInput(f"the weights of {type(ranker).__name__} are not split over workers", where, remedy)
    if any(each.blocks() == [each.model] for each in transformers_of(ranker)):
        what = "the layers of this checkpoint are not found, and gathered whole it would save nothing"
        raise BadInput(what, where, "choose another checkpoint, or resources.shard=false")
    options = {
        "ranker.compiled": any(each.compiled for each in transformers_of(ranker)),
        "ranker.categories": bool(getattr(ranker, "categories", None)),
        "ranker.words": getattr(ranker, "words", None) is not None,
        "peft": any(type(each).__module__.startswith("peft.") for each in ranker.modules()),
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
