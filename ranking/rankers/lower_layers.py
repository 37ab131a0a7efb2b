"""Reads the lower layers of a transformer once per text, if only the layers above them are trained."""

from __future__ import annotations

import copy
import hashlib
import logging
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import psutil
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

from pyrite.ranking.errors import BadInput, refuse

SHARE = 16
"""A sixteenth of a machine's memory is the most that the states of one transformer take in a process."""
PROBE = (1, 2, 3)
"""Token ids by which a transformer is tried."""

logger = logging.getLogger(__name__)


class KeptStates:
    """States of tokens that frozen layers computed, by the token ids of their texts. None is removed.

    Args:
        limit: the maximum number of bytes. Texts beyond it are read again each time, to the same states.
    """

    def __init__(self, limit: int) -> None:
        self.limit, self.bytes = limit, 0
        self._states: dict[bytes, Tensor] = {}
        self._full = False

    def __len__(self) -> int:
        return len(self._states)

    def get(self, text: bytes) -> Tensor | None:
        """Return the states of a text; None if they are not kept."""
        return self._states.get(text)

    def keep(self, text: bytes, states: Tensor) -> None:
        """Keep the states of a text, unless there is no room."""
        size = states.numel() * states.element_size()
        if self.bytes + size <= self.limit:
            self._states[text] = states
            self.bytes += size
        elif not self._full:
            self._full = True
            what = "frozen layers: the states of %s texts are kept (%.1f GB), the others are read again at each step"
            logger.warning(what, f"{len(self):,}", self.bytes / 1e9)


@lru_cache(maxsize=2)  # two, for a ranker with two towers
def kept_states(weights: bytes, precision: torch.dtype) -> KeptStates:
    """Return the states that this process keeps for frozen layers: runs with the same layers share them.

    Args:
        weights: the digest of the layers.
        precision: the precision of the states.
    """
    return KeptStates(psutil.virtual_memory().total // SHARE)


class _Reached(Exception):
    """Ends a pass after the frozen layers: what is above them would draw dropout, too."""

    def __init__(self, output: Any) -> None:
        super().__init__("read")
        self.output = output


class LowerLayers:
    """The embeddings and first layers of a transformer: frozen, without dropout, and read once per text.

    On a CPU each text is read alone, so that its states don't depend on the texts next to it, to the last bit.

    Args:
        model: a model of transformers.
        count: the number of layers to freeze.

    Raises:
        BadInput: if the model does not have more layers, or they can't be read apart.
    """

    def __init__(self, model: nn.Module, count: int) -> None:
        self.path, self._layers = stack_of(model)
        has = len(self._layers)
        remedy = f"choose 1 to {has - 1}, or 0 to train all"
        refuse(not 1 <= count < max(has, 2), f"is {count}, and {has} layers were found", "ranker.frozen_layers", remedy)
        self.count = count
        self.frozen = [embeddings_of(model), *self._layers[:count]]
        self._wrapped = False
        self._reading: list[nn.Module] = list(self._layers[:count])
        self._kept: KeptStates | None = None
        self._check(model)
        self.freeze()

    def freeze(self) -> None:
        """Exclude the layers from training, and adapters that were added to them."""
        for module in self.frozen:
            module.requires_grad_(False)

    def stop_dropout(self) -> None:
        """Leave out the dropout of the layers, while those above them are in training."""
        for module in self.frozen:
            module.eval()

    def _check(self, model: Any) -> None:
        """Refuse a model whose layers can't be read apart: a short text has to get the same states either way."""
        ids = torch.tensor([PROBE], device=next(model.parameters()).device)
        packed = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
        training, shared = model.training, list[str]()
        model.eval()
        try:
            with torch.no_grad():
                whole = model(**packed)[0]
                apart = self.above(model, self.read(model, packed))(**packed)[0]
            shared = self._shared(model, packed)
            same = torch.equal(whole, apart) and not model.config.output_hidden_states
        except (TypeError, ValueError, AttributeError, IndexError, RuntimeError):
            same = False
        finally:
            model.train(training)
        remedy = "leave it out, or choose a BERT, RoBERTa or ModernBERT"
        refuse(not same, f"the layers of {type(model).__name__} can't be read apart", "ranker.frozen_layers", remedy)
        if shared:
            what = f"the lower layers of {type(model).__name__} read {shared[0]}, which is trained with those above"
            raise BadInput(what, "ranker.frozen_layers", remedy)

    def _shared(self, model: nn.Module, packed: dict[str, Tensor]) -> list[str]:
        """Return the names of weights outside the frozen layers that these read, such as MPNet's position biases.

        Their training would change the states of texts that were read before.
        """
        theirs = {id(weight) for module in self.frozen for weight in module.parameters()}
        others = {name: weight for name, weight in model.named_parameters() if id(weight) not in theirs}
        others = {name: weight for name, weight in others.items() if weight.is_floating_point()}
        learning = [weight.requires_grad for weight in others.values()]
        try:
            for weight in others.values():
                weight.requires_grad_(True)
            with torch.enable_grad():
                states = self._read(model, packed)
            if not states.requires_grad:  # they read no weight that learns
                return []
            found = torch.autograd.grad(states.sum(), list(others.values()), allow_unused=True)
        finally:
            for weight, learns in zip(others.values(), learning, strict=True):
                weight.requires_grad_(learns)
        return [name for name, gradient in zip(others, found, strict=True) if gradient is not None]

    def forget(self) -> None:
        """Look for other states: the weights of the layers have changed."""
        self._kept, self._reading = None, list(self._layers[: self.count])

    def _prepare(self, model: Any, precision: torch.dtype) -> KeptStates:
        """Return the states that are kept; at first, make what reads texts: products in half precision want it."""
        if self._kept is None:
            self._kept = kept_states(self._digest(model.config), precision)
            if precision != torch.float32:
                self._reading = [copy.deepcopy(layer).eval() for layer in self._reading]
                for module in (module for layer in self._reading for module in layer.modules()):
                    if isinstance(module, nn.Linear):
                        module.to(precision)
        return self._kept

    def states(self, model: nn.Module, packed: dict[str, Tensor], precision: torch.dtype) -> Tensor:
        """Return the states of texts after the frozen layers [texts, tokens, width], 0 after a text's end.

        Args:
            model: the transformer.
            packed: what it reads, every text from the first column on.
            precision: the precision in which states are kept, also for a text that is not.
        """
        kept = self._prepare(model, precision)
        lengths = packed["attention_mask"].sum(1).tolist()
        device = packed["input_ids"].device
        texts = _keys(packed, lengths)
        found: dict[bytes, Any] = {text: kept.get(text) for text in texts}
        missing = [row for row, text in enumerate(texts) if found[text] is None]
        together = 1 if device.type == "cpu" else len(texts)
        for start in range(0, len(missing), together):
            rows = missing[start : start + together]
            longest = max(lengths[row] for row in rows)
            read = self.read(model, {name: tensor[rows, :longest] for name, tensor in packed.items()})
            for row, states in zip(rows, read.to(precision), strict=True):
                found[texts[row]] = states[: lengths[row]].to("cpu", copy=True)
                kept.keep(texts[row], found[texts[row]])
        padded = pad_sequence([found[text] for text in texts], batch_first=True)
        return F.pad(padded, (0, 0, 0, packed["input_ids"].shape[1] - padded.shape[1])).to(device).float()

    @torch.no_grad()
    def read(self, model: nn.Module, packed: dict[str, Tensor]) -> Tensor:
        """Return the states of packed texts after the frozen layers [texts, tokens, width]."""
        return self._read(model, packed)

    def _read(self, model: nn.Module, packed: dict[str, Tensor]) -> Tensor:

        def last(*arguments: Any, **options: Any) -> Any:
            raise _Reached(self._reading[-1](*arguments, **options))

        layers = [*self._reading[:-1], _with_forward(self._reading[-1], last), *self._layers[self.count :]]
        try:
            _with_stack(model, self.path, layers)(**packed)
            raise ValueError("the model has not read its layers")
        except _Reached as reached:
            output = reached.output
        self._wrapped = isinstance(output, tuple)
        return output[0] if self._wrapped else output

    def above(self, model: nn.Module, states: Tensor) -> Callable[..., Any]:
        """Return the model with states in place of its frozen layers. It shares all other modules."""
        output = (states,) if self._wrapped else states
        still = [_with_forward(layer, lambda *arguments, **options: output) for layer in self._layers[: self.count]]
        return _with_stack(model, self.path, [*still, *self._layers[self.count :]])

    def _digest(self, config: Any) -> bytes:
        """Return a digest of all that decides what the layers make of a text."""
        digest = hashlib.blake2b(f"{self.count} {config.to_json_string(use_diff=False)}".encode(), digest_size=16)
        for module in self.frozen:
            for name, tensor in module.state_dict().items():
                digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode())
                digest.update(tensor.detach().cpu().reshape(-1).view(torch.uint8).numpy().data)
        return digest.digest()


def stack_of(model: Any) -> tuple[str, Sequence[nn.Module]]:
    """Return the name of a transformer's list of layers, and the layers; none if it has no such list."""
    for name, module in model.named_modules():
        if isinstance(module, nn.ModuleList) and len(module) == model.config.num_hidden_layers:
            return name, list(module)
    return "", []


def embeddings_of(model: Any) -> nn.Module:
    """Return the module that turns token ids into vectors."""
    named = (module for name, module in model.named_modules() if name.endswith("embeddings"))
    return next(named, None) or model.get_input_embeddings()  # of a decoder, which has no learned positions


def _keys(packed: dict[str, Tensor], lengths: list[int]) -> list[bytes]:
    """Return the numbers of each packed text as bytes: its token ids, and its token types if there are any."""
    named = [packed[name].to("cpu", torch.int32) for name in sorted(packed.keys() - {"attention_mask"})]
    numbers = torch.stack(named, 1).numpy()
    return [numbers[row, :, :length].tobytes() for row, length in enumerate(lengths)]


def _with_forward(layer: nn.Module, forward: Callable[..., Any]) -> nn.Module:
    """Return a shallow copy of a layer that computes something else."""
    copied = copy.copy(layer)
    copied.__dict__["forward"] = forward
    return copied


def _with_stack(module: nn.Module, path: str, layers: list[nn.Module]) -> nn.Module:
    """Return a shallow copy of a module with other layers in its list at `path`."""
    if not path:
        return nn.ModuleList(layers)
    name, _, rest = path.partition(".")
    copied = copy.copy(module)
    copied._modules = module._modules | {name: _with_stack(module.get_submodule(name), rest, layers)}
    return copied
