"""Loads pretrained transformers from a folder or the hub, cuts and runs them."""

from __future__ import annotations

import inspect
import logging
import math
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any

import torch
from torch import Tensor, nn

from pyrite.ranking.bounds import AtLeast, checked
from pyrite.ranking.errors import BadInput
from pyrite.ranking.hub_tokenizers import local_root, refused
from pyrite.ranking.packing import buckets
from pyrite.ranking.rankers.ranker import SharedWeights

PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


class AtMost(int):
    """A preset's number of layers: a checkpoint that was cut to fewer keeps all it has."""


PRESETS: dict[str, dict[str, Any]] = {
    "paper": {"layers": None, "max_query": 32, "max_document": 256},
    "small": {"layers": AtMost(2), "max_query": 24, "max_document": 64},
    "tiny": {"layers": AtMost(1), "max_query": 12, "max_document": 32},
}
"""Layers (None keeps all) and subwords read of a text, for any pretrained ranker."""
TOKEN_BUDGET = {"cpu": 2048, "cuda": 65536}
"""Tokens per forward pass by device: as many as fit in a core's cache, or fill a GPU."""

_ONE_READER = threading.RLock()
"""Held while `from_pretrained` is replaced."""
FIRST_READ = ("bert", "electra", "roberta", "xlm-roberta")
"""Architectures whose head for one score reads only the first token of the last layer."""


def read_model(
    kind: str, checkpoint: str, layers: int | None, generator: torch.Generator, **options: Any
) -> tuple[Any, list[str]]:
    """Read a model of transformers with its pretrained weights. Weights that the checkpoint lacks are drawn.

    Only safetensors are read: a checkpoint of pickles is refused.

    Args:
        kind: the class of transformers, e.g. `AutoModel`.
        checkpoint: a folder, or a name at the hub.
        layers: the number of layers to keep, from the input. None keeps all, and `AtMost` all of a checkpoint that has
            fewer.
        generator: draws missing weights: normal with the model's deviation, biases 0.
        options: options of the model's configuration, e.g. `num_labels=1`.

    Returns:
        The model, and the names of the weights that were drawn.

    Raises:
        BadInput: if the checkpoint can't be read or has fewer layers.
    """
    import transformers

    checkpoint = local_root(checkpoint)
    with refused(checkpoint), reading(checkpoint, layers, generator) as drawn:
        config = transformers.AutoConfig.from_pretrained(checkpoint, trust_remote_code=False, **options)
        model = getattr(transformers, kind).from_pretrained(checkpoint, config=config, trust_remote_code=False)
    return model, drawn


@contextmanager
def reading(checkpoint: str, layers: int | None, generator: torch.Generator) -> Iterator[list[str]]:
    """A context in which transformers' `from_pretrained` reads models as `read_model` describes.

    sentence-transformers calls it deep inside, where it can be given neither a number of layers nor a generator, and
    does not pass on which weights are missing.

    Yields:
        The names of the weights that were drawn, known after the block.
    """
    import transformers

    drawn: list[str] = []
    kind: Any = transformers.PreTrainedModel
    original = kind.__dict__["from_pretrained"]

    def from_pretrained(cls: Any, name: Any, *positional: Any, **options: Any) -> Any:
        _cut(options["config"], layers, checkpoint)
        options |= {"dtype": torch.float32, "use_safetensors": True, "ignore_mismatched_sizes": True}
        model, report = original.__func__(cls, name, *positional, output_loading_info=True, **options)
        drawn.extend(_draw(model, report, checkpoint, generator))
        return model.eval()

    def no_pickles(*_: Any, **__: Any) -> None:
        raise OSError("its weights are pickles, not safetensors")

    load = torch.load
    with _ONE_READER, quiet(), torch.random.fork_rng(devices=[]):  # missing weights are drawn twice: then by us
        kind.from_pretrained, torch.load = classmethod(from_pretrained), no_pickles
        try:
            yield drawn
        finally:
            kind.from_pretrained, torch.load = original, load


def _cut(config: Any, layers: int | None, checkpoint: str) -> None:
    """Keep the first layers of a configuration."""
    if layers is None:
        return
    has = config.num_hidden_layers
    if isinstance(layers, AtMost):
        layers = min(layers, has)
    if not 1 <= layers <= has:
        raise BadInput(f"layers is {layers}", "ranker.layers", f"{checkpoint} has {has}")
    config.num_hidden_layers = layers
    for name, value in list(vars(config).items()):  # such as the types of the layers, or their windows
        if isinstance(value, list) and len(value) == has:
            setattr(config, name, value[:layers])


def _draw(model: Any, report: dict[str, Any], checkpoint: str, generator: torch.Generator) -> list[str]:
    """Draw the weights that a checkpoint lacks, and return their names."""
    parameters = dict(model.named_parameters())
    other = [name for name, *_ in report["mismatched_keys"]]
    # A head for other labels counts as missing, and so does the layer that pools. Everything else has to be there.
    body = {id(weight) for name, weight in model.base_model.named_parameters() if "pooler" not in name}
    wrong = [name for name in (*other, *sorted(report["missing_keys"])) if id(parameters.get(name)) in body]
    if wrong:
        what = f"{wrong[0]} is not as its config.json says" if wrong[0] in other else f"has no weights {wrong[0]}"
        more = f" and {len(wrong) - 1} more" if len(wrong) > 1 else ""
        raise BadInput(f"{what}{more}", checkpoint, "choose a checkpoint that is whole")
    if any(not torch.isfinite(weight.detach().sum()) for weight in parameters.values()):
        raise BadInput("has weights that are no numbers (nan)", checkpoint, "choose a checkpoint that is whole")
    drawn = sorted({*report["missing_keys"], *other})
    with torch.no_grad():
        for name in drawn:
            if name in parameters and parameters[name].dim() > 1:
                deviation = getattr(model.config, "initializer_range", 0.02)
                parameters[name].normal_(0, deviation, generator=generator)
            elif name in parameters:
                parameters[name].fill_(float(name.endswith(("norm.weight", "LayerNorm.weight"))))
    return drawn


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
        precision: float32, bfloat16 or float16. None changes nothing.

    Raises:
        BadInput: if it has no transformer.
    """
    if precision is not None:
        for tower in transformers_of(ranker):
            tower.precision = PRECISIONS[precision]


def transformers_of(ranker: nn.Module) -> list[Pretrained]:
    """Return the transformers of a ranker; `BadInput` if it has none."""
    towers = [module for module in ranker.modules() if isinstance(module, Pretrained)]
    if not towers:
        what = f"{type(ranker).__name__} has no transformer whose precision could be chosen"
        raise BadInput(what, "function.dense.precision", "leave it null, or choose ranker=bi_encoder")
    return towers


class Pretrained(nn.Module):
    """A transformer with its precision, memory use, compilation and tokens per pass.

    Args:
        model: the model of transformers.
        precision: float32, bfloat16 or float16, for the operations that are safe in it; weights stay float32.
        gradient_checkpointing: whether to compute activations twice, to hold fewer.
        compiled: whether to run it through torch.compile.
        budget: tokens per forward pass, padding included. None suits the device.

    Attributes:
        sharding: how its weights are split over workers. None if they are all here.
    """

    @checked
    def __init__(
        self,
        model: nn.Module,
        precision: str = "float32",
        gradient_checkpointing: bool = False,
        compiled: bool = False,
        budget: Annotated[int, AtLeast(1)] | None = None,
    ) -> None:
        super().__init__()
        if precision not in PRECISIONS:
            raise BadInput(f"no precision {precision!r}", "ranker.precision", f"choose one of {', '.join(PRECISIONS)}")
        self.model, self.precision, self._budget = model, PRECISIONS[precision], budget
        if gradient_checkpointing:
            model.gradient_checkpointing_enable({"use_reentrant": False})  # type: ignore[operator]
        # Kept out of the modules: a compiled module would change the names of its weights.
        self._call: list[Any] = [torch.compile(model, dynamic=True) if compiled else model]
        # A tokenizer may return token types that the model doesn't know, as BERT's does for DistilBERT.
        names = frozenset(inspect.signature(model.forward).parameters)
        self._reads = names if "input_ids" in names else None
        self.sharding: SharedWeights | None = None

    def forward(self, packed: dict[str, Tensor]) -> Any:
        if not len(packed["attention_mask"]):
            return self._empty(packed)
        kind = packed["attention_mask"].device.type
        known = {name: tensor for name, tensor in packed.items() if self._reads is None or name in self._reads}
        with torch.autocast(kind, self.precision, enabled=self.precision != torch.float32):
            return self._call[0](**known)

    def _empty(self, packed: dict[str, Tensor]) -> Any:
        """Make a pass without texts: one token is read, because few models read none, and its output is dropped."""
        token = {name: tensor.new_full((1, 1), int(name == "attention_mask")) for name, tensor in packed.items()}
        read = self.forward(token)
        for name, value in read.items():
            if isinstance(value, Tensor):
                read[name] = value[:0].clone()  # no view, behind which FSDP might lose its hooks
        return read

    def even(self, places: list[Tensor]) -> list[Tensor]:
        """Add empty passes if other workers that share its weights make more.

        Args:
            places: the texts of each pass, from `pyrite.ranking.packing.buckets`.
        """
        if self.sharding is None:
            return places
        nothing = torch.zeros(0, dtype=torch.int64, device=places[0].device if places else None)
        return places + [nothing] * (self.sharding.passes(self, len(places)) - len(places))

    def in_passes(self, lengths: Tensor, read: Callable[[Tensor], Tensor]) -> Tensor:
        """Read sequences of similar length together; return the results in the order of the sequences.

        Args:
            lengths: int64 [n], tokens of each sequence.
            read: returns the results [rows, …] of the sequences at some rows.
        """
        places = self.even(list(buckets(lengths, self.budget)))
        results = torch.cat([read(rows) for rows in places])
        return results[torch.argsort(torch.cat(places)).to(results.device)]

    def outputs(self, passes: Sequence[dict[str, Tensor]]) -> Iterator[Any]:
        """Yield the model's output of each pass, whose `last_hidden_state` is [texts, tokens, width].

        With a gradient the vectors of all their tokens are looked up at once: the table's gradient, as large as the
        vocabulary, is made once instead of in each pass.
        """
        table: Any = self.model.get_input_embeddings()  # type: ignore[operator]
        whole = self.sharding is None  # a split table is only read within a pass
        once = self._reads is not None and "inputs_embeds" in self._reads and len(passes) > 1
        if not once or not whole or not torch.is_grad_enabled() or not table.weight.requires_grad:
            for packed in passes:
                yield self(packed)
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
        kind = next(self.model.parameters()).device.type
        return self._budget or TOKEN_BUDGET.get(kind, TOKEN_BUDGET["cuda"])

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

    @property
    def has_dropout(self) -> bool:
        """Whether there is dropout."""
        config: Any = self.model.config
        names = [name for name in vars(config) if "dropout" in name or "pdrop" in name]
        return any(isinstance(getattr(config, name), float) and getattr(config, name) > 0 for name in names)

    def __deepcopy__(self, memo: dict[int, Any]) -> Pretrained:
        import copy

        copied = self.__class__.__new__(self.__class__)
        nn.Module.__init__(copied)
        copied.model, copied.precision, copied._budget = copy.deepcopy(self.model, memo), self.precision, self._budget
        copied._call = [torch.compile(copied.model, dynamic=True) if self.compiled else copied.model]
        copied._reads = self._reads
        copied.sharding = None
        return copied

    def blocks(self) -> list[nn.Module]:
        """Return embeddings, each layer, and the modules after them (pooler, head), from the input up."""
        config: Any = self.model.config
        lists = (module for module in self.model.modules() if isinstance(module, nn.ModuleList))
        stack = next((module for module in lists if len(module) == config.num_hidden_layers), None)
        if stack is None:
            return [self.model]
        tables: Any = self.model
        lower = [module for name, module in self.model.named_modules() if name.endswith("embeddings")][:1]
        lower = lower or [tables.get_input_embeddings()]  # of a decoder, which has no learned positions
        inside = {id(parameter) for module in [stack, *lower] for parameter in module.parameters()}
        rest = nn.ParameterList([weight for weight in self.model.parameters() if id(weight) not in inside])
        return [*lower, *stack, *([rest] if len(rest) else [])]


@contextmanager
def quiet() -> Iterator[None]:
    """Silence the libraries' report of weights that a cut model or a new head leaves over, and its progress bars."""
    from transformers.utils import logging as library

    before, bars = library.get_verbosity(), library.is_progress_bar_enabled()
    sentences = logging.getLogger("sentence_transformers")
    level = sentences.level
    sentences.setLevel(logging.CRITICAL)
    library.set_verbosity(logging.CRITICAL)
    library.disable_progress_bar()
    try:
        yield
    finally:
        library.set_verbosity(before)
        sentences.setLevel(level)
        if bars:
            library.enable_progress_bar()
