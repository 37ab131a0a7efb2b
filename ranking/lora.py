"""Trains a pretrained ranker by low-rank adapters instead of its weights (LoRA)."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Annotated, Any

import torch
from torch import nn

from pyrite.ranking.adapters import unload
from pyrite.ranking.bounds import AtLeast, Between, Positive, checked
from pyrite.ranking.errors import BadInput, refuse
from pyrite.ranking.rankers.pretrained import Pretrained
from pyrite.ranking.rankers.ranker import Ranker


class Lora:
    """Low-rank adapters: products of two narrow matrices added to linear layers, and trained instead of them.

    Hu et al. 2022, equation 3. Optimizer and gradients then take a hundredth of the memory. Weights that a checkpoint
    lacks, such as the head of a cross-encoder, are trained as well. The export has the products added in and needs no
    peft.

    Args:
        rank: r, the width of the products.
        alpha: α: a product is multiplied by α/r.
        dropout: the share of a product's input that is dropped in training.
        modules: endings of the names of the linear layers, e.g. [query, value]. None takes peft's choice for the
            architecture.
    """

    @checked
    def __init__(
        self,
        rank: Annotated[int, AtLeast(1)] = 8,
        alpha: Annotated[float, Positive] = 16.0,
        dropout: Annotated[float, Between(0, 1, exclude="high")] = 0.0,
        modules: Sequence[str] | None = None,
    ) -> None:
        self.rank, self.alpha, self.dropout, self.modules = rank, alpha, dropout, modules

    def add_to(self, ranker: Ranker, generator: torch.Generator) -> None:
        """Add adapters to all trained transformers of a ranker, in place.

        Args:
            generator: draws the first matrix of each product; the second is 0, so scores do not change.

        Raises:
            BadInput: if peft is not installed, or the ranker has no transformer with such layers.
        """
        try:
            from peft import LoraConfig, inject_adapter_in_model
        except ImportError:
            raise BadInput("peft is not installed", "peft=lora", "pip install 'pyrite-ir[peft]'") from None
        modules = None if self.modules is None else list(self.modules)
        options: dict[str, Any] = {"r": self.rank, "lora_alpha": self.alpha, "lora_dropout": self.dropout}

        def inject(model: Any) -> None:
            try:
                inject_adapter_in_model(LoraConfig(target_modules=modules, **options), model)
            except ValueError as error:
                message = str(error).splitlines()[0]
                raise BadInput(message, "peft.modules", "name linear layers, as [query,value]") from None

        learning = _learning(ranker)
        what, remedy = f"{type(ranker).__name__} has no transformer", "choose bi_encoder, cross_encoder"
        refuse(not learning, what, "peft=lora", remedy)
        with torch.random.fork_rng(devices=[]):  # peft draws from torch's global generator
            torch.manual_seed(int(torch.randint(2**31, (), generator=generator)))
            for tower in learning:
                new = [weight for name, weight in tower.model.named_parameters() if name in ranker.drawn]
                inject(tower.model)
                nn.ParameterList(new).requires_grad_(True)
                if tower.lower is not None:
                    tower.lower.freeze()


def _learning(ranker: Ranker) -> list[Pretrained]:
    """Return the transformers of a ranker that are trained."""
    towers = [module for module in ranker.modules() if isinstance(module, Pretrained)]
    return [tower for tower in towers if any(weight.requires_grad for weight in tower.parameters())]


def merged(ranker: Ranker) -> Ranker:
    """Return a copy of the ranker with its adapters' products added to its weights; itself if it has none."""
    if not any(type(module).__module__.startswith("peft.") for module in ranker.modules()):
        return ranker
    return unload(copy.deepcopy(ranker))  # type: ignore[return-value]
