"""Begins a run's training where it was, under the options that hold by then."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from cluster.config.changes import OPTIMIZER, changed_keys, config_at
from ranking.errors import BadInput
from ranking.training import RankerTraining
from sampling.sampler import Sampler
from sampling.staged_training import StagedTraining

Fresh = Callable[[dict[str, Any]], tuple[RankerTraining, Sampler]]
"""Assembles a training and its sampler from a configuration."""


def begun(config: dict[str, Any], fresh: Fresh, state: Mapping[str, Any] | None) -> StagedTraining:
    """A run's training, as it was or at its beginning.

    What a state holds goes on, and options are those of its epoch (`changes`): of the optimizer, whose state has the
    numbers of before, the changed ones are put back.

    Args:
        config: of the run.
        fresh: assembles what the state is put into.
        state: `StagedTraining.state_dict`; None at the beginning.

    Raises:
        BadInput: where an option of the optimizer changes what its state holds.
    """
    epoch = state["training"]["counters"][0] if state else 0
    staged = StagedTraining(partial(fresh, config_at(config, epoch)))
    if state is None:
        return staged
    names = [key.split(".")[1] for key in changed_keys(config) if key.split(".")[0] == OPTIMIZER]
    own = [{name: group[name] for name in names} for group in staged.training.optimizer.param_groups]
    if names and len(own) != len(state["training"]["optimization"]["optimizer"]["param_groups"]):
        what = "an optimizer without weight decay has one group of weights, and one with it two"
        raise BadInput(what, "changes", "choose numbers above 0 for optimizer.weight_decay, or leave it as it is")
    staged.load_state_dict(dict(state))
    for group, options in zip(staged.training.optimizer.param_groups, own, strict=False):
        group.update(options)
    return staged
