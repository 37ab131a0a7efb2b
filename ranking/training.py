"""Trains one ranker, a minibatch at a time. There is no second training loop anywhere."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ranking.encoding import EncodedCollection
from ranking.errors import BadInput
from ranking.evaluation.evaluation import Evaluation
from ranking.evaluation.held_out import HeldOut
from ranking.objectives.objective import Objective
from ranking.rankers.ranker import Ranker
from ranking.scoring import score_candidates

DEDUPLICATE_BELOW = 0.5
"""Distinct documents of a batch as a share of all its places, up to which each is read once."""

OptimizerFactory = Callable[[Iterable[torch.nn.Parameter]], torch.optim.Optimizer]


@dataclass(frozen=True)
class Batch:
    """Pairs of a query and one of its relevant documents.

    Args:
        queries: int64 [b].
        positives: int32 [b].
        whole: the batch that these pairs are a part of; None where they are all of it.
    """

    queries: NDArray[np.int64]
    positives: NDArray[np.int32]
    whole: Batch | None = None

    def __len__(self) -> int:
        return len(self.queries)

    def take(self, rows: NDArray[np.integer]) -> Batch:
        """Some of the pairs."""
        return Batch(self.queries[rows], self.positives[rows])

    def part(self, rows: NDArray[np.integer]) -> Batch:
        """Some of the pairs, which remember the batch that they are a part of."""
        return Batch(self.queries[rows], self.positives[rows], self.whole or self)


@dataclass(frozen=True)
class UpdateResult:
    """What one update showed.

    Args:
        loss: of the batch, before the update.
        gradient_norm: ‖∇L‖₂ over the top layers.
        scores: float32 [b, 1 + n], of the positives (column 0) and negatives, before the update.
    """

    loss: float
    gradient_norm: float
    scores: NDArray[np.float32]


class GradientSync(Protocol):
    """The workers that train one ranker together: each takes its rows of every batch and all make the same step."""

    def rows(self, size: int) -> slice:
        """This worker's rows of a batch of `size`; there may be none."""

    def join(self, parameters: Sequence[torch.nn.Parameter], loss: float, scores: Tensor) -> tuple[float, Tensor]:
        """Add up the gradients of all workers, in place.

        Args:
            parameters: those that are trained; the gradient of one that this worker's rows do not touch is None.
            loss: this worker's share of the batch's loss.
            scores: [rows, 1 + n] of its rows.

        Returns:
            The loss of the whole batch, and the scores of all its rows.
        """


class SingleProcess:
    """One process trains."""

    def rows(self, size: int) -> slice:
        return slice(0, size)

    def join(self, parameters: Sequence[torch.nn.Parameter], loss: float, scores: Tensor) -> tuple[float, Tensor]:
        return loss, scores


class NegativeSource(Protocol):
    """What supplies negatives: a `sampling.sampler.Sampler`."""

    def negatives(self, batch: Batch, training: RankerTraining) -> NDArray[np.int32]:
        """Document indices [b, n], −1 for none."""

    def observe(self, negatives: NDArray[np.int32], step: UpdateResult) -> None:
        """Learn what they led to."""


class RankerTraining:
    """One ranker's training until early stopping.

    A plain loop over it (`fit`) trains a ranker; an environment steps the same object.

    Args:
        ranker: what is trained.
        objective: what it minimises.
        encoded: the collection.
        queries: int64, indices of the training queries. Each pair of one of them and a relevant document
            is an example, and an epoch sees each example once.
        validation: measures it after each epoch; its first measure decides.
        optimizer: makes the optimizer from the parameters.
        rng: shuffles the examples.
        batch_size: examples a batch; the last one of an epoch may have fewer.
        max_epochs: where it ends at the latest.
        patience: epochs without a better validation measure after which it stops.
        gradient_layers: the top layers over which the gradient norm is taken.
        held_out: what a dev loss is taken of after each epoch; None takes none.
        accumulate: parts of a batch whose gradients are added up before a step. More of them take less memory;
            an objective that averages over pairs weighs the parts by their queries.

    Raises:
        BadInput: where there is nothing to train on or to validate with.
    """

    def __init__(
        self,
        ranker: Ranker,
        objective: Objective,
        encoded: EncodedCollection,
        queries: NDArray[np.int64],
        validation: Evaluation,
        optimizer: OptimizerFactory,
        rng: np.random.Generator,
        batch_size: int = 32,
        max_epochs: int = 20,
        patience: int = 2,
        gradient_layers: int = 3,
        accumulate: int = 1,
        held_out: HeldOut | None = None,
    ) -> None:
        if accumulate < 1:
            raise BadInput(f"accumulate is {accumulate}", "training.accumulate", "choose a whole number from 1 up")
        # Dropout is for updates alone: whoever scores in between gets the ranker as it is.
        self.ranker, self.objective, self.encoded = ranker.eval(), objective, encoded
        self.accumulate = accumulate
        self.gradient_sync: GradientSync = SingleProcess()
        # float16 gradients underflow unless the loss is scaled up; for other precisions this does nothing.
        self.scaler = torch.amp.GradScaler(ranker.device.type, enabled=ranker.needs_grad_scaler)
        # A child of the order's sequence: it takes nothing from the order itself.
        (noise,) = rng.bit_generator.seed_seq.spawn(1)  # type: ignore[attr-defined]
        self._noise = int(noise.generate_state(1, np.uint32)[0])
        self.validation, self.rng = validation, rng
        self.optimizer = optimizer(ranker.parameters())
        self.batch_size, self.max_epochs, self.patience = batch_size, max_epochs, patience
        self.top = ranker.top_parameters(gradient_layers)
        relevant = encoded.judgements.relevant()
        rows = relevant.rows()
        chosen = np.isin(rows, queries)
        self.examples = Batch(rows[chosen], relevant.documents[chosen])
        if not len(self.examples):
            raise BadInput("no training query has a relevant document", "collection", "is there a train split?")
        if not len(validation.candidates.queries):
            raise BadInput("no query is left to validate with", "collection", "is there a dev split?")
        self.epoch = self.step = self.position = self.best_epoch = 0
        self.diverged = False
        self.order = self.rng.permutation(len(self.examples))
        self.held_out = held_out
        self.losses: list[float] = []
        self.dev_losses: list[float] = []
        self.validations: list[float] = []
        self._epoch_loss = 0.0
        self._best: dict[str, Tensor] | None = None

    @property
    def steps_per_epoch(self) -> int:
        """T_e, the batches of an epoch."""
        return math.ceil(len(self.examples) / self.batch_size)

    @property
    def epoch_over(self) -> bool:
        """Whether every example of the epoch was seen and it waits for `validate`."""
        return self.position >= len(self.examples) or self.diverged

    @property
    def running_loss(self) -> float:
        """Mean loss of the epoch's batches so far; between epochs that of the last one, nan before the first batch."""
        if self.position and not self.epoch_over:
            return self._epoch_loss / math.ceil(self.position / self.batch_size)
        return self.losses[-1] if self.losses else math.nan

    @property
    def done(self) -> bool:
        """Whether early stopping or the epoch limit has ended it."""
        waited = self.epoch - self.best_epoch
        return self.diverged or self.epoch >= self.max_epochs or (self.epoch > 0 and waited >= self.patience)

    def next_batch(self) -> Batch:
        """The examples of the next update. Asked again before `update`, it gives the same ones."""
        return self.examples.take(self.order[self.position : self.position + self.batch_size])

    def update(self, batch: Batch, negatives: NDArray[np.int32]) -> UpdateResult:
        """One step of the optimizer.

        A loss or gradient that is not finite ends the training without touching the weights.

        Args:
            batch: of `next_batch`.
            negatives: int32 [b, n], −1 for none.
        """
        shown = np.concatenate([batch.positives[:, None], negatives], axis=1)
        mine = np.arange(len(batch))[self.gradient_sync.rows(len(batch))]
        self.optimizer.zero_grad(set_to_none=True)
        parts = [rows for rows in np.array_split(mine, self.accumulate) if len(rows)]
        loss, scored = 0.0, [torch.zeros(0, shown.shape[1], device=self.ranker.device)]
        self.ranker.train()  # until the backward pass is over: it may compute activations a second time
        try:
            for rows in parts:
                of_part, scores = self._loss(batch.queries[rows], shown[rows], int(rows[0]))
                share = of_part * (len(rows) / len(batch))
                loss += share.item()
                scored.append(scores.detach().float())
                if math.isfinite(loss):
                    self.scaler.scale(share).backward()
        finally:
            self.ranker.eval()
        parameters = list(self.ranker.parameters())
        loss, together = self.gradient_sync.join(parameters, loss, torch.cat(scored))
        norm, finite = 0.0, math.isfinite(loss)
        if finite:
            self.scaler.unscale_(self.optimizer)
            norm = gradient_norm(self.top)
            finite = math.isfinite(gradient_norm(parameters))
        if finite or (self.scaler.is_enabled() and math.isfinite(loss)):
            self.scaler.step(self.optimizer)  # an overflow of scaled gradients skips the step and lowers the scale
            self.scaler.update()
            finite = True
            norm = norm if math.isfinite(norm) else 0.0
        return self.record(UpdateResult(loss, norm, together.cpu().numpy()), finite)

    def _loss(self, queries: NDArray[np.int64], shown: NDArray[np.int32], row: int) -> tuple[Tensor, Tensor]:
        """Loss and scores of some rows of the batch, with a gradient; `row` is the first of them."""
        present = torch.from_numpy(shown >= 0).to(self.ranker.device)
        asked = self.encoded.queries.take(queries)

        def score(level: int = 0, columns: Tensor | None = None) -> Tensor:
            block = np.maximum(shown if columns is None else np.take_along_axis(shown, columns.cpu().numpy(), 1), 0)
            ranker, documents = self.ranker.at_level(level), self.encoded.documents
            distinct, places = np.unique(block, return_inverse=True)
            if len(distinct) > DEDUPLICATE_BELOW * block.size:
                return ranker(asked, documents.take(block.ravel()))
            return ranker(asked, documents.take(distinct), torch.from_numpy(places.reshape(block.shape)))

        seed = np.random.SeedSequence([self._noise, self.step, row]).generate_state(1, np.uint64)[0]
        generator = torch.Generator().manual_seed(int(seed) >> 1)
        with noise_of(self.ranker, generator):
            return self.objective.of_passes(score, present, generator)

    def record(self, step: UpdateResult, finite: bool) -> UpdateResult:
        """Count an update, whoever computed it: `update` or `ranking.stacked`.

        Args:
            step: what it showed.
            finite: whether loss and gradient were finite and the optimizer has used them.
        """
        if not finite:
            self.diverged = True
        self.step += 1
        self.position += len(step.scores)
        self._epoch_loss += step.loss
        return step

    def validate(self) -> float:
        """Measure the ranker on the validation queries, end the epoch and keep the best weights so far.

        Returns:
            The first measure's mean; nan where the training has diverged, which scores that are nan show too.
        """
        batches = math.ceil(self.position / self.batch_size)
        self.losses.append(self._epoch_loss / max(batches, 1))
        self._epoch_loss = 0.0
        value = math.nan
        if not self.diverged:
            try:
                value = float(next(iter(self.validation(self.ranker).values())).mean())
            except FloatingPointError:
                self.diverged = True
        if self.held_out is not None:
            self.dev_losses.append(math.nan if self.diverged else self.held_out.loss(self.ranker, self.objective))
        self.epoch += 1
        if not self.diverged and value > max(self.validations, default=-math.inf):
            self.best_epoch = self.epoch
            self._best = {name: tensor.detach().clone() for name, tensor in self.ranker.state_dict().items()}
        self.validations.append(value)
        self.position = 0
        self.order = self.rng.permutation(len(self.examples))
        return value

    def fit(self, source: NegativeSource, on_epoch: Callable[[RankerTraining], None] | None = None) -> None:
        """Train to the end and put the best weights back.

        Args:
            source: supplies the negatives.
            on_epoch: called after each validation, to report, save or stop by raising.
        """
        while not self.done:
            while not self.epoch_over:
                batch = self.next_batch()
                negatives = source.negatives(batch, self)
                source.observe(negatives, self.update(batch, negatives))
            self.validate()
            if on_epoch is not None:
                on_epoch(self)
        self.restore_best()

    def restore_best(self) -> None:
        """Give the ranker the weights that validated best."""
        if self._best is not None:
            self.ranker.load_state_dict(self._best)

    def score(self, queries: NDArray[np.integer], documents: NDArray[np.integer]) -> NDArray[np.float32]:
        """The ranker's scores of now [q, m]; −inf where the document is −1."""
        return score_candidates(self.ranker, self.encoded, queries, documents)

    def probabilities(self, queries: NDArray[np.integer], documents: NDArray[np.integer]) -> NDArray[np.float32]:
        """P(relevant) as the objective reads the scores, the positive in column 0. Shape [q, m]."""
        scores = torch.from_numpy(np.where(documents < 0, 0, self.score(queries, documents)).astype(np.float32))
        return self.objective.probabilities(scores, torch.from_numpy(documents >= 0)).numpy()

    def state_dict(self) -> dict[str, Any]:
        """All that a resumed training needs to go on as if it had never stopped (`ranking.checkpoint`)."""
        return {
            "ranker": dict(self.ranker.state_dict()),
            "best": self._best,
            "optimizer": self.optimizer.state_dict(),
            "rng": self.rng.bit_generator.state,
            "order": self.order,
            "counters": [self.epoch, self.step, self.position, self.best_epoch],
            "diverged": self.diverged,
            "losses": list(self.losses),
            "dev_losses": list(self.dev_losses),
            "validations": list(self.validations),
            "epoch_loss": self._epoch_loss,
            "scaler": self.scaler.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from `state_dict`."""
        self.ranker.load_state_dict(state["ranker"])
        self._best = state["best"]
        self.optimizer.load_state_dict(state["optimizer"])
        self.rng.bit_generator.state = state["rng"]
        self.order = state["order"]
        self.epoch, self.step, self.position, self.best_epoch = state["counters"]
        self.diverged = state["diverged"]
        self.losses, self.validations = list(state["losses"]), list(state["validations"])
        self.dev_losses = list(state["dev_losses"])
        self._epoch_loss = state["epoch_loss"]
        if state["scaler"]:
            self.scaler.load_state_dict(state["scaler"])


@contextmanager
def noise_of(ranker: Ranker, generator: torch.Generator) -> Iterator[None]:
    """Dropout draws from torch's global generators: seed them for a while, and put them back."""
    if not ranker.has_dropout:
        yield
        return
    with torch.random.fork_rng([ranker.device] if ranker.device.type == "cuda" else []):
        torch.manual_seed(int(torch.randint(2**62, (), generator=generator)))
        yield


def gradient_norm(parameters: Iterable[torch.nn.Parameter]) -> float:
    """‖∇L‖₂ over the parameters that have a gradient."""
    return float(torch.nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None]))
