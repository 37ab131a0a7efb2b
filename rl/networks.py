"""Maps an observation to logits or a value: the network of actor and critic, in plain torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from pyrite.ranking.rankers.ranker import drawn, linear

NEAR_ZERO = 0.01
"""Factor of the last layer's initial weights: a new policy is nearly uniform, and a new critic returns about 0."""
SLOPE = 0.2
"""Slope of the narrow layer's activation below zero."""
DESCRIBED = ("shapes", "outputs", "channels", "hidden", "width", "per_document")
"""Attributes that a network is built from again."""
DOCUMENT_WIDTH = 32
"""Width of the layer that joins a candidate document's features with the state."""

Shapes = Mapping[str, Sequence[int]]


class PolicyNetwork(nn.Module):
    """Reads an observation: an actor returns logits of the actions, a critic one value (Cohen et al. 2019, section
    4.1).

    A kernel of two rows goes over the pairs φ(q_i), φ(d_i) of the batch, then a kernel half a batch long over the
    pairs, padded with zeros; the maximum over the present pairs is joined by the model's features and the mean
    similarity over the queries; affine layers of 500, |A| and |A| (the critic: 1) units follow. Parts that an
    observation lacks are left out; `model` is required.

    Every activation is tanh, except that of the layer of |A| units, which is a leaky ReLU of slope .2. A layer of
    |A| = 2 rectified units is dead, with no gradient ever again, as soon as one large step makes both negative for all
    states; tanh has a gradient everywhere, and the network is not deep enough for it to vanish.
    """

    def __init__(
        self,
        space: gymnasium.spaces.Dict | Shapes,
        outputs: int,
        generator: torch.Generator,
        channels: int = 16,
        hidden: int = 500,
        width: int | None = None,
        last: float = NEAR_ZERO,
        per_document: bool = True,
    ) -> None:
        super().__init__()
        if isinstance(space, gymnasium.spaces.Dict):
            space = {name: part.shape or () for name, part in space.spaces.items()}
        shapes = self.shapes = {name: [int(size) for size in shape] for name, shape in space.items()}
        self.outputs, self.channels, self.hidden, self.width = outputs, channels, hidden, width or outputs
        self.per_document = per_document and "candidates" in shapes
        joined = int(np.prod(shapes["model"]))
        if "batch" in shapes:
            rows, columns = shapes["batch"]
            self.pairs = rows // 2
            self.length = max(1, self.pairs // 2)
            joined += channels or rows * columns
        if "batch" in shapes and channels:
            self.match = linear(2 * columns, channels, generator)
            kernels = nn.utils.skip_init(nn.Conv1d, channels, channels, self.length)
            self.difficulty = drawn(kernels, channels * self.length, generator)
        if "similarity" in shapes:
            joined += int(np.prod(shapes["similarity"][1:]))
        if "candidates" in shapes:
            joined += shapes["candidates"][-1]
        self.state = linear(joined, hidden, generator)
        if self.per_document:
            queries, documents, features = shapes["candidates"]
            self.picks, rest = divmod(outputs, queries * documents)
            if rest:
                raise ValueError(f"{outputs} outputs for {queries} queries of {documents} documents")
            self.document = linear(features, DOCUMENT_WIDTH, generator)
            self.context = linear(hidden, DOCUMENT_WIDTH, generator, bias=False)
            self.output = linear(DOCUMENT_WIDTH, 1, generator)
        else:
            self.actions = linear(hidden, self.width, generator)
            self.output = linear(self.width, outputs, generator)
        with torch.no_grad():
            self.output.weight.mul_(last)
            self.output.bias.zero_()

    def forward(self, observation: Mapping[str, Tensor]) -> Tensor:
        """Return logits or a value for each observation, [n, outputs].

        Args:
            observation: float32, each part with a first dimension of n; `present` [n, b] is 1 if a pair exists.
        """
        parts = [observation["model"].flatten(1)]
        if "batch" in self.shapes:
            parts.append(self._difficulty(observation["batch"], observation["present"]))
        if "similarity" in self.shapes:
            parts.append(_mean(observation["similarity"].flatten(2), observation["present"]))
        if "candidates" in self.shapes:
            parts.append(_mean(observation["candidates"].mean(2), observation["present"]))
        state = torch.tanh(self.state(torch.cat(parts, 1)))
        if not self.per_document:
            return self.output(functional.leaky_relu(self.actions(state), SLOPE))
        # A missing query has logits of 0: its pick means nothing and must not change any weight.
        joined = self.document(observation["candidates"]) + self.context(state)[:, None, None]
        logits = self.output(torch.tanh(joined)).squeeze(-1) * observation["present"][..., None]
        return logits.repeat_interleave(self.picks, 1).flatten(1)

    def _difficulty(self, batch: Tensor, present: Tensor) -> Tensor:
        """Return how difficult the incoming batch is: float [n, channels]; without kernels, the rows of its pairs."""
        rows = batch.flatten(1).unflatten(1, (self.pairs, -1))
        if not self.channels:
            return (rows * present[..., None]).flatten(1)
        # Two neighbouring rows under a kernel of 2 × d with stride 2 are one affine map of the pair's rows in a line.
        pairs = torch.tanh(self.match(rows)) * present[..., None]
        before = (self.length - 1) // 2
        padded = functional.pad(pairs.transpose(1, 2), (before, self.length - 1 - before))
        difficulty = torch.tanh(self.difficulty(padded))
        # −1 is below every tanh; an empty batch (after an episode's end) has −1.
        return torch.where(present[:, None] > 0, difficulty, -1.0).amax(2)

    def description(self) -> dict[str, Any]:
        """Return what `described` needs to build the network: numbers, strings and lists."""
        return {name: getattr(self, name) for name in DESCRIBED}


def described(description: Mapping[str, Any], weights: Mapping[str, Tensor]) -> PolicyNetwork:
    """Build the network of a `PolicyNetwork.description` with these weights, in evaluation mode."""
    sizes = {name: value for name, value in description.items() if name != "shapes"}
    network = PolicyNetwork(description["shapes"], generator=torch.Generator(), **sizes)
    network.load_state_dict(dict(weights))
    return network.eval().requires_grad_(False)


def _mean(values: Tensor, present: Tensor) -> Tensor:
    """Return the mean [n, k] of values [n, b, k] over the present queries; 0 if there is none."""
    return (values * present[..., None]).sum(1) / present.sum(1, keepdim=True).clamp(min=1)
