"""Trains a pretrained ranker by low-rank adapters in place of its own weights (LoRA)."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from ranking.errors import BadInput
from ranking.rankers.pretrained import Pretrained
from ranking.rankers.ranker import Ranker


class Lora:
    """Adds a product of two narrow matrices to linear layers, and trains these alone (Hu et al. 2022, equation 3).

    Optimizer and gradients then take a hundredth of the memory. Weights that a checkpoint lacks, the head of a
    cross-encoder, are trained as well. What is exported has the products added in and needs no peft.

    Args:
        rank: r, the width of the products.
        alpha: α: a product counts α/r.
        dropout: of what goes into a product while it is trained, 0 to below 1.
        modules: endings of the names of the linear layers, e.g. [query, value]; None: those that peft takes for the
            architecture.

    Raises:
        BadInput: where an option is out of its range.
    """

    def __init__(
        self, rank: int = 8, alpha: float = 16.0, dropout: float = 0.0, modules: Sequence[str] | None = None
    ) -> None:
        if rank < 1:
            raise BadInput(f"rank is {rank}", "peft.rank", "choose a whole number from 1 up")
        if not 0 <= dropout < 1:
            raise BadInput(f"dropout is {dropout}", "peft.dropout", "choose a share from 0 to below 1")
        if not alpha > 0:
            raise BadInput(f"alpha is {alpha}", "peft.alpha", "choose a number above 0")
        self.rank, self.alpha, self.dropout, self.modules = rank, alpha, dropout, modules

    def add_to(self, ranker: Ranker, generator: torch.Generator) -> None:
        """Put adapters into all transformers of a ranker that learn, in place.

        Args:
            ranker: as it was made.
            generator: draws the first matrix of each product; the second is 0, so that scores are what they were.

        Raises:
            BadInput: where peft is not installed, or the ranker has no transformer with such layers.
        """
        try:
            from peft import LoraConfig, inject_adapter_in_model
        except ImportError:
            raise BadInput("peft is not installed", "peft=lora", "pip install 'pyrite[peft]'") from None
        found = [each for each in ranker.modules() if isinstance(each, Pretrained)]
        learning = [each for each in found if any(weight.requires_grad for weight in each.parameters())]
        if not learning:
            raise BadInput(
                f"{type(ranker).__name__} has no transformer", "peft=lora", "choose bi_encoder, cross_encoder"
            )
        drawn = set(getattr(ranker, "drawn", []))
        options: dict[str, Any] = {"r": self.rank, "lora_alpha": self.alpha, "lora_dropout": self.dropout}
        with torch.random.fork_rng(devices=[]):  # peft draws from torch's own generator
            torch.manual_seed(int(torch.randint(2**31, (), generator=generator)))
            for each in learning:
                modules = None if self.modules is None else list(self.modules)
                own = [name for name, _ in each.model.named_parameters() if name in drawn]
                try:
                    inject_adapter_in_model(LoraConfig(target_modules=modules, **options), each.model)
                except ValueError as error:
                    says = str(error).splitlines()[0]
                    raise BadInput(says, "peft.modules", "name linear layers, as [query,value]") from None
                for name in own:
                    each.model.get_parameter(name).requires_grad_(True)


def merged(ranker: Ranker) -> Ranker:
    """The ranker with the products of its adapters added to its weights, as a copy; itself where it has none."""
    if not any(type(each).__module__.startswith("peft.") for each in ranker.modules()):
        return ranker
    from peft.tuners.tuners_utils import BaseTunerLayer

    whole = copy.deepcopy(ranker)
    for name, module in list(whole.named_modules()):
        if isinstance(module, BaseTunerLayer):
            module.merge()
            above, _, last = name.rpartition(".")
            base: nn.Module = module.get_base_layer()
            setattr(whole.get_submodule(above), last, base)
    return whole
