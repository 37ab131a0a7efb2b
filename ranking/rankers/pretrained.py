"""Runs pretrained transformers: their precision, memory use and passes."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any, Self

import torch
from torch import Tensor, nn

from pyrite.ranking.bounds import AtLeast, checked
from pyrite.ranking.errors import refuse
from pyrite.ranking.packing import PASS_COSTS, PassCost, buckets
from pyrite.ranking.precision import AUTO, PRECISIONS, Precision, best_precision
from pyrite.ranking.rankers.attention import use_quick_attention
from pyrite.ranking.rankers.lower_layers import LowerLayers, embeddings_of, stack_of
from pyrite.ranking.reading_progress import count_read

DTYPES = {name: getattr(torch, name) for name in PRECISIONS}
FIRST_READ = ("bert", "electra", "roberta", "xlm-roberta")
"""Architectures whose head for one score reads only the first token of the last layer."""


def trim_last_layer(model: nn.Module) -> None:
    """Make the last layer compute only the first token after its attention, for heads that read no other.

    The scores and gradients are the same. It saves nine of the twelve square products of a layer.

    Args:
        model: a model of transformers with a head for scores. Architectures not in `FIRST_READ` are left unchanged.
    """
    config: Any = model.config
    if config.model_type in FIRST_READ:
        body: Any = model.base_model
        body.encoder.layer[-1].attention.output.register_forward_pre_hook(_first_tokens)


def _first_tokens(module: nn.Module, states: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """Keep the first token of the output and the input of attention, each [n, tokens, width]."""
    output, before = states
    return output[:, :1], before[:, :1]


def read_in(ranker: nn.Module, precision: str | None) -> None:
    """Make a ranker's transformers compute in another precision from now on.

    Args:
        ranker: a ranker that is not trained, such as an index's copy.
        precision: float32, bfloat16, float16 or auto. None changes nothing.

    Raises:
        BadInput: if it has no transformer.
    """
    if precision is not None:
        for tower in transformers_of(ranker):
            tower.only_read(precision)


def score_in_float32(model: nn.Module) -> None:
    """Make the modules of a model after its transformer compute in float32: scores of pairs in bfloat16 would be tied.

    Args:
        model: a model of transformers with a head for scores.
    """
    body: Any = model.base_model
    for head in model.children():
        if head is not body:
            head.register_forward_pre_hook(_enter_float32, with_kwargs=True)
            head.register_forward_hook(_leave_float32, always_call=True)


def _enter_float32(module: nn.Module, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """Leave autocast while a module computes, and give it float32."""
    devices = [each.device.type for each in module.parameters()][:1]
    left = [torch.autocast(kind, enabled=False) for kind in devices]
    for context in left:
        context.__enter__()
    module.__dict__["_outside"] = left

    def whole(value: Any) -> Any:
        return value.float() if isinstance(value, Tensor) and value.is_floating_point() else value

    return tuple(map(whole, arguments)), {name: whole(value) for name, value in options.items()}


def _leave_float32(module: nn.Module, arguments: Any, output: Any) -> None:
    for context in module.__dict__.pop("_outside", ()):
        context.__exit__(None, None, None)


def transformers_of(ranker: nn.Module) -> list[Pretrained]:
    """Return the transformers of a ranker; `BadInput` if it has none."""
    towers = [module for module in ranker.modules() if isinstance(module, Pretrained)]
    what = f"{type(ranker).__name__} has no transformer whose precision could be chosen"
    refuse(not towers, what, "function.dense.precision", "leave it null, or choose ranker=bi_encoder")
    return towers


def _forget_states(module: Any, keys: Any) -> None:
    """Look for other states of frozen layers, after weights were loaded."""
    if module.lower is not None:
        module.lower.forget()


class Pretrained(nn.Module):
    """A transformer with its precision, memory use, compilation and tokens per pass.

    Args:
        model: the model of transformers.
        precision: float32, bfloat16 or float16, for the operations that are safe in it; weights stay float32, and so
            does attention while it trains on a CPU. auto is bfloat16 if its device multiplies in it, else float32.
        gradient_checkpointing: whether to compute activations twice, to hold fewer.
        compiled: whether to run it through torch.compile.
        budget: tokens per forward pass, padding included. None suits the device.
        frozen_layers: the number of layers, from the input, that are not trained and are read once per text.
    """

    @checked
    def __init__(
        self,
        model: nn.Module,
        precision: Precision = AUTO,
        gradient_checkpointing: bool = False,
        compiled: bool = False,
        budget: Annotated[int, AtLeast(1)] | None = None,
        frozen_layers: Annotated[int, AtLeast(0)] = 0,
    ) -> None:
        super().__init__()
        self.model, self._budget = model, budget
        self._precision: str = precision
        use_quick_attention(model)
        if gradient_checkpointing:
            model.gradient_checkpointing_enable({"use_reentrant": False})  # type: ignore[operator]
        # Kept out of the modules: a compiled module would change the names of its weights.
        self._call: list[Any] = [torch.compile(model, dynamic=True) if compiled else model]
        # A tokenizer may return token types that the model doesn't know, as BERT's does for DistilBERT.
        names = frozenset(inspect.signature(model.forward).parameters)
        self._reads = names if "input_ids" in names else None
        self.lower: LowerLayers | None = None
        refuse(
            frozen_layers and compiled,
            "layers that are read apart can't be compiled",
            "ranker.compiled",
            "set ranker.compiled=false, or ranker.frozen_layers=0",
        )
        if frozen_layers:
            self._freeze(frozen_layers)

    def _freeze(self, layers: int) -> None:
        """Freeze the lower layers, and read them once per text."""
        self.lower = LowerLayers(self.model, layers)
        self.register_load_state_dict_post_hook(_forget_states)

    def train(self, mode: bool = True) -> Self:
        super().train(mode)
        if self.lower is not None:
            self.lower.stop_dropout()
        return self

    @property
    def precision(self) -> torch.dtype:
        """The precision of its products."""
        chosen = self._precision
        return DTYPES[best_precision(self._device == "cuda") if chosen == AUTO else chosen]

    @property
    def _device(self) -> str:
        return next(self.model.parameters()).device.type

    def only_read(self, precision: str | None = None) -> None:
        """Read all layers at once, with weights in bfloat16 if its products are: it is quicker if none is trained."""
        self._precision = precision or self._precision
        self.lower = None
        if self.precision != torch.bfloat16:
            return
        self.model.to(torch.bfloat16)
        for module in self.model.modules():
            if _enter_float32 in module._forward_pre_hooks.values():
                module.float()

    def forward(self, packed: dict[str, Tensor]) -> Any:
        kind = packed["attention_mask"].device.type
        known = {name: tensor for name, tensor in packed.items() if self._reads is None or name in self._reads}
        precision = self.precision
        with torch.autocast(kind, precision, enabled=precision != torch.float32):
            whole = self._call[0]
            call = whole if self.lower is None else self.lower.above(whole, self.lower.states(whole, known, precision))
            output = call(**known)
        if not torch.is_grad_enabled():
            count_read(len(packed["attention_mask"]))
        return output

    def in_passes(self, lengths: Tensor, read: Callable[[Tensor], Tensor]) -> Tensor:
        """Read sequences of similar length together; return the results in the order of the sequences.

        Args:
            lengths: int64 [n], tokens of each sequence.
            read: returns the results [rows, …] of the sequences at some rows.
        """
        places = self.cut(lengths)
        results = torch.cat([read(rows) for rows in places])
        return results[torch.argsort(torch.cat(places)).to(results.device)]

    def cut(self, lengths: Tensor) -> list[Tensor]:
        """Return the rows of each pass over sequences of some lengths, as suits the device."""
        return list(buckets(lengths, self.budget, self.cost.passes))

    def outputs(self, passes: Sequence[dict[str, Tensor]]) -> Iterator[Any]:
        """Yield the model's output of each pass, whose `last_hidden_state` is [texts, tokens, width].

        With a gradient the vectors of all their tokens are looked up at once: the table's gradient, as large as the
        vocabulary, is made once instead of in each pass.
        """
        table: Any = self.model.get_input_embeddings()  # type: ignore[operator]
        learns = torch.is_grad_enabled() and table.weight.requires_grad
        if len(passes) < 2 or not learns or "inputs_embeds" not in (self._reads or ()):
            yield from map(self, passes)
            return
        ids = [packed["input_ids"] for packed in passes]
        vectors = table(torch.cat([tokens.flatten() for tokens in ids])).split([tokens.numel() for tokens in ids])
        for packed, looked_up in zip(passes, vectors, strict=True):
            rest = {name: tensor for name, tensor in packed.items() if name != "input_ids"}
            shape = (*packed["input_ids"].shape, -1)
            yield self(rest | {"inputs_embeds": looked_up.view(shape)})

    @property
    def compiled(self) -> bool:
        """Whether it runs compiled."""
        return self._call[0] is not self.model

    @property
    def budget(self) -> int:
        """Tokens per forward pass."""
        return self._budget or self.cost.budget

    @property
    def cost(self) -> PassCost:
        """The cost of a pass on its device."""
        return PASS_COSTS.get(self._device, PASS_COSTS["cuda"])

    @property
    def reach(self) -> float:
        """The maximum number of tokens of a sequence, infinite if positions are not learned."""
        config: Any = self.model.config
        for name, module in self.model.named_modules():
            if name.endswith("position_embeddings") and isinstance(module, nn.Embedding):
                # Some count positions from after that of the padding (RoBERTa).
                return module.num_embeddings - (0 if module.padding_idx is None else module.padding_idx + 1)
        most = getattr(config, "max_position_embeddings", None)
        return most if most is not None and most > 0 else math.inf  # XLNet, which has no limit, has -1

    def __deepcopy__(self, memo: dict[int, Any]) -> Pretrained:
        import copy

        copied = self.__class__.__new__(self.__class__)
        nn.Module.__init__(copied)
        copied.model, copied._precision, copied._budget = copy.deepcopy(self.model, memo), self._precision, self._budget
        copied._call = [torch.compile(copied.model, dynamic=True) if self.compiled else copied.model]
        copied._reads, copied.lower = self._reads, None
        if self.lower is not None:
            copied._freeze(self.lower.count)
        return copied

    def blocks(self) -> list[nn.Module]:
        """Return embeddings, each layer, and the modules after them (pooler, head), from the input up."""
        _, stack = stack_of(self.model)
        if not stack:
            return [self.model]
        lower = [embeddings_of(self.model)]
        inside = {id(parameter) for module in [*stack, *lower] for parameter in module.parameters()}
        rest = nn.ParameterList([weight for weight in self.model.parameters() if id(weight) not in inside])
        return [*lower, *stack, *([rest] if len(rest) else [])]
