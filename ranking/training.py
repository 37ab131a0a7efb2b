"""Trains one ranker, one minibatch at a time. `RankerTraining.steps` is the only training loop."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pyrite.ranking.batch import Batch, MorePositives, UpdateResult, pairs_of
from pyrite.ranking.batches.order import BatchOrder, Shuffled
from pyrite.ranking.block_scores import BlockScores
from pyrite.ranking.bounds import AtLeast, Positive, checked
from pyrite.ranking.dropout import DropoutSeeds, seeded_dropout
from pyrite.ranking.early_stopping import EarlyStopping
from pyrite.ranking.encoding import EncodedCollection
from pyrite.ranking.errors import BadInput, none_relevant, refuse
from pyrite.ranking.evaluation.evaluation import Evaluation
from pyrite.ranking.evaluation.held_out import HeldOut
from pyrite.ranking.objectives.block import Block
from pyrite.ranking.objectives.objective import Objective
from pyrite.ranking.optimization import GradientSync, Optimization, OptimizerFactory, SingleProcess
from pyrite.ranking.pair_scores import PairScores
from pyrite.ranking.rankers.dense import DenseRanker
from pyrite.ranking.rankers.ranker import Ranker
from pyrite.ranking.schedules import RateSchedule
from pyrite.ranking.scoring import score_candidates
from pyrite.ranking.vector_memory import VectorMemory

__all__ = ["Batch", "NegativeSource", "RankerTraining", "UpdateResult"]


class NegativeSource(Protocol):
    """Supplies the negatives of each batch. `pyrite.sampling.sampler.Sampler` is one.

    A subclass has to define `negatives` and `observe`; the rest has defaults.
    """

    if TYPE_CHECKING:  # read-only for type checkers, an attribute that subclasses set at run time

        @property
        def source_scores(self) -> NDArray[np.float32] | None:
            """Scores [b, n] that the retrieval functions gave the last negatives, nan if a function has none.

            None if no function of the source has scores.
            """

    else:
        source_scores = None

    @abstractmethod
    def negatives(self, batch: Batch, training: RankerTraining) -> NDArray[np.int32]:
        """Return document indices [b, n], −1 for none."""

    @abstractmethod
    def observe(self, negatives: NDArray[np.int32], step: UpdateResult) -> None:
        """Learn from the update that used the negatives."""

    def prepare(self, batch: Batch, training: RankerTraining) -> None:
        """Start to draw the next batch's negatives while the ranker learns from this one. Does nothing by default."""


class RankerTraining:
    """One ranker's training until early stopping.

    `fit` trains a ranker; `steps` is the loop behind it, for callers that act between the steps.

    Args:
        ranker: the ranker to train.
        objective: the loss that it minimises.
        encoded: the collection.
        queries: int64, indices of the training queries. Each pair of a query and a relevant document
            is an example, and an epoch sees each example once.
        validation: measures the ranker after each epoch; its first measure decides. If there are several, by the origin
            of their candidates, the first one leads, each keeps its best weights, and training continues while any
            improves.
        optimizer: makes the optimizer from the parameters.
        rng: shuffles the examples.
        batch_size: examples per batch; the last batch of an epoch may have fewer.
        max_epochs: the maximum number of epochs.
        patience: the number of validations without a better measure after which it stops.
        gradient_layers: the number of top layers over which the gradient norm is taken.
        accumulate: the number of parts of a batch whose gradients are added up before a step. More parts need less
            memory; an objective that averages over pairs weights the parts by their queries.
        chunk: the number of texts that are read together while the gradient is that of the whole batch
            (`pyrite.ranking.block_scores.BlockScores`). None reads all of a batch together.
        held_out: queries on which a dev loss is computed at each validation. None computes none.
        schedule: the learning-rate schedule. None keeps the rate constant.
        validate_every: the number of batches after which it also validates within an epoch. None validates only at the
            end of an epoch.
        most_examples: the maximum number of pairs, drawn by a hash of query and document. None for all.
        batches: the order of examples, which decides the queries that share a batch. None shuffles.
        teacher: scores of pairs for objectives and selectors that need them.
        clip_norm: the maximum norm of the gradient of all weights. None does not clip.
        positives: the maximum number of relevant documents per example, the higher grades first, including the
            example's positive: for objectives that take several.
        keep: `best` restores the weights that validated best at the end, `last` keeps those of the last step.

    Raises:
        BadInput: if there is nothing to train on or to validate with.
    """

    FIELDS: ClassVar[tuple[str, ...]] = (
        "ranker", "objective", "encoded", "queries", "validation", "optimizer", "rng", "held_out", "schedule",
        "validate_every", "most_examples", "batches", "teacher",
    )  # fmt: skip
    """Arguments that a run gives: the configuration has another place for them."""

    @checked
    def __init__(
        self,
        ranker: Ranker,
        objective: Objective,
        encoded: EncodedCollection,
        queries: NDArray[np.int64],
        validation: Evaluation | Mapping[str, Evaluation],
        optimizer: OptimizerFactory,
        rng: np.random.Generator,
        batch_size: int = 32,
        max_epochs: int = 20,
        patience: int = 2,
        gradient_layers: int = 3,
        accumulate: Annotated[int, AtLeast(1)] = 1,
        chunk: Annotated[int, AtLeast(1)] | None = None,
        held_out: HeldOut | None = None,
        schedule: RateSchedule | None = None,
        validate_every: Annotated[int, AtLeast(1)] | None = None,
        most_examples: int | None = None,
        batches: BatchOrder | None = None,
        teacher: PairScores | None = None,
        clip_norm: Annotated[float, Positive] | None = None,
        keep: Literal["best", "last"] = "best",
        positives: Annotated[int, AtLeast(1)] = 1,
    ) -> None:
        what = f"{type(objective).__name__} knows one relevant document of a query"
        remedy = "choose contrastive, listnet, list_mle, lambdarank, approx_ndcg or kl, or training.positives=1"
        refuse(positives > 1 and not objective.takes_several, what, "training.positives", remedy)
        what = f"{type(ranker).__name__} has no vectors by which the texts of a batch could be compared"
        remedy = "leave symmetric and other_* out, or choose ranker=bi_encoder, static or dssm"
        refuse(objective.whole_batch and not isinstance(ranker, DenseRanker), what, "objective", remedy)
        if objective.whole_batch and accumulate > 1:
            raise _divided("training.accumulate", "choose 1; training.chunk=64 takes less memory too")
        # Dropout is only for updates: a score between two updates is that of the whole ranker.
        self.ranker, self.objective, self.encoded = ranker.eval(), objective, encoded
        self.evaluations = dict(validation) if isinstance(validation, Mapping) else {"": validation}
        self.batch_size, self.max_epochs, self.accumulate = batch_size, max_epochs, accumulate
        self.validate_every, self.held_out, self.rng = validate_every, held_out, rng
        self.dropout = DropoutSeeds(rng)
        self.scores = BlockScores(ranker, encoded, chunk)
        self.examples = pairs_of(encoded, queries, most_examples)
        if not len(self.examples):
            if not len(encoded.judgements.relevant().documents):
                raise none_relevant(encoded.judgements.relevant_from)
            raise BadInput("no training query has a relevant document", "collection", "is there a train split?")
        refuse(
            not all(len(evaluation.candidates.queries) for evaluation in self.evaluations.values()),
            "no query is left to validate with",
            "collection",
            "is there a dev split?",
        )
        self.more_positives = MorePositives(encoded.judgements, positives - 1) if positives > 1 else None
        self.batches, self.teacher, self.keep = batches or Shuffled(), teacher, keep
        self.optimization = Optimization(ranker, optimizer, schedule, self.steps_per_epoch * max_epochs, clip_norm)
        self.gradient_sync: GradientSync = SingleProcess()
        self.stopping = EarlyStopping(list(self.evaluations), patience)
        self.top = ranker.top_parameters(gradient_layers)
        self.epoch = self.step = self.position = self.documents_read = 0
        self.diverged = False
        self.order = self.batches.order(self.examples, self.batch_size, self.rng)
        self.losses: list[float] = []
        self.dev_losses: list[float] = []
        self._epoch_loss = 0.0
        self._batches = 0
        self._updated: tuple[Batch, NDArray[np.int32], NDArray[np.float32] | None] | None = None

    @property
    def validation(self) -> Evaluation:
        """The leading evaluation."""
        return self.evaluations[self.stopping.leading]

    @property
    def validations(self) -> list[float]:
        """Values of the leading evaluation, one per validation."""
        return self.stopping.values[self.stopping.leading]

    @property
    def best_epoch(self) -> int:
        """The epoch, from 1, in which the leading evaluation was best; 0 before the first validation."""
        return self.stopping.best_epochs[self.stopping.leading]

    @property
    def optimizer(self) -> torch.optim.Optimizer:
        """The optimizer."""
        return self.optimization.optimizer

    @property
    def steps_per_epoch(self) -> int:
        """T_e, the number of batches per epoch."""
        return math.ceil(len(self.examples) / self.batch_size)

    @property
    def epoch_over(self) -> bool:
        """Whether every example of the epoch was seen and `validate` is due."""
        return self.position >= len(self.examples) or self.diverged

    @property
    def validation_due(self) -> bool:
        """Whether `validate` is due: at the end of an epoch, or after `validate_every` batches."""
        return self.epoch_over or (self.validate_every is not None and self._batches >= self.validate_every)

    @property
    def running_loss(self) -> float:
        """Mean loss of the batches since the last validation; right after it, of those before it; nan at first."""
        if self._batches and not self.epoch_over:
            return self._epoch_loss / self._batches
        return self.losses[-1] if self.losses else math.nan

    @property
    def done(self) -> bool:
        """Whether early stopping or the epoch limit has ended it."""
        return self.diverged or self.epoch >= self.max_epochs or self.stopping.waited

    def next_batch(self) -> Batch:
        """Return the examples of the next update. Repeated calls before `update` return the same ones."""
        return self.examples.take(self.order[self.position : self.position + self.batch_size])

    def following_batch(self) -> Batch | None:
        """Return the examples of the update after the next one; None if the epoch ends before it."""
        following = self.order[self.position + self.batch_size : self.position + 2 * self.batch_size]
        return self.examples.take(following) if len(following) else None

    def update(
        self, batch: Batch, negatives: NDArray[np.int32], source_scores: NDArray[np.float32] | None = None
    ) -> UpdateResult:
        """Make one step of the optimizer.

        A loss or gradient that is not finite ends the training without changing the weights.

        Args:
            batch: the batch of `next_batch`.
            negatives: int32 [b, n], −1 for none.
            source_scores: [b, n], the retrieval functions' scores of the negatives, for objectives that read them.

        Raises:
            ValueError: if the batch is empty because the epoch is over and `validate` is due.
        """
        if not len(batch):
            raise ValueError("an empty batch can't be learned from: the epoch is over, call validate()")
        shown, width = self._shown(batch, negatives), 1 + negatives.shape[1]
        self._updated = batch, shown, source_scores
        self.count_documents(shown)
        parts = self._parts(len(batch))
        if self.objective.whole_batch and sum(map(len, parts)) < len(batch):
            raise _divided("resources.workers", "choose one worker; training.chunk=64 takes less memory")
        self.optimization.begin(self.step)
        parameters = self.trained_weights
        shares, scored = [], [torch.zeros(0, width, device=self.ranker.device)]
        self.ranker.train()  # until the backward pass is over: it may compute activations a second time
        try:
            for rows in parts:
                share, scores = self._share(rows, self.step)
                shares.append(share.detach().float())
                scored.append(scores.detach()[:, :width].float())
                last = self.gradient_sync.last_backward(parameters) if rows is parts[-1] else nullcontext()
                with last:
                    self.optimization.add(share)
        finally:
            self.ranker.eval()
        loss, together = self.gradient_sync.join(parameters, self._sum(shares), torch.cat(scored))
        return self._count(*self.optimization.finish(loss, together, parameters, self.top))

    def loss_now(self) -> float:
        """Return the loss of the last update's batch with the weights that the update has left.

        It is computed as the update's was, with the same dropout, draws and penalty: the difference from the update's
        loss is what the step has changed.
        """
        assert self._updated is not None, "there has been no update"
        batch, shown, _ = self._updated
        self.count_documents(shown)
        self.ranker.train()
        try:
            shares = [self._share(rows, self.step - 1)[0].detach().float() for rows in self._parts(len(batch))]
        finally:
            self.ranker.eval()
        return float(self.gradient_sync.total(self._sum(shares)))

    def _shown(self, batch: Batch, negatives: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the documents of an update: each query's positive, its negatives, and further positives."""
        more = [] if self.more_positives is None else [self.more_positives.of(batch)]
        return np.concatenate([batch.positives[:, None], negatives, *more], axis=1)

    def _parts(self, size: int) -> list[NDArray[np.intp]]:
        """Return the rows of each part of a batch that this worker scores together."""
        mine = np.arange(size)[self.gradient_sync.rows(size)]
        return [rows for rows in np.array_split(mine, self.accumulate) if len(rows)]

    def _share(self, rows: NDArray[np.intp], step: int) -> tuple[Tensor, Tensor]:
        """Return the share of some rows in the loss of the last batch as at a step, and their scores."""
        assert self._updated is not None
        batch, shown, source_scores = self._updated
        known = None if source_scores is None else source_scores[rows]
        loss, scores = self._loss(batch.queries[rows], shown[rows], known, int(rows[0]), step)
        return loss * (len(rows) / len(batch)), scores

    def _sum(self, shares: list[Tensor]) -> Tensor:
        """Return the sum of this worker's shares, 0 without any."""
        return torch.stack(shares).sum() if shares else torch.zeros((), device=self.ranker.device)

    def _loss(
        self,
        queries: NDArray[np.int64],
        shown: NDArray[np.int32],
        source_scores: NDArray[np.float32] | None,
        row: int,
        step: int,
    ) -> tuple[Tensor, Tensor]:
        """Return loss and scores of some rows of a step's batch, with a gradient; `row` is the first of them."""
        generator = self.dropout.generator(step, row)
        kept: list[Tensor] = []
        compared = self.objective.whole_batch

        def score(columns: Tensor | None = None, dimensions: Sequence[int] | None = None) -> Tensor:
            documents = shown if columns is None else np.take_along_axis(shown, columns.cpu().numpy(), 1)
            scores = self.scores(queries, documents, generator, dimensions, kept if compared else None)
            shape = documents.shape if dimensions is None else (1 + len(dimensions), *documents.shape)
            where, remedy = f"{type(self.ranker).__name__}.interact", "return one score per query and document"
            _check_tensor(scores, shape, where, remedy)
            return scores

        within = partial(self.scores.within, kept) if compared else None
        block = Block.of(self.encoded, queries, shown, source_scores, self.ranker.device, self.teacher, within)
        with seeded_dropout(self.ranker, generator):
            loss, scores = self.objective.of_passes(score, block, generator)
        remedy = "return the mean over the batch, computed from `scores`"
        _check_tensor(loss, (), f"{type(self.objective).__name__}.loss", remedy)
        penalty = self.ranker.penalty(step)
        return loss if penalty is None else loss + penalty, scores

    def count_documents(self, documents: NDArray[np.integer]) -> None:
        """Add the documents of a batch to `documents_read`: the cost of training beyond its steps.

        A document of several queries counts once, unless the ranker reads it together with each of them.
        """
        present = documents[documents >= 0]
        self.documents_read += len(np.unique(present)) if self.ranker.reads_apart else len(present)

    def _count(self, step: UpdateResult, finite: bool) -> UpdateResult:
        """Count an update. If its loss or gradient was not finite, the training has diverged."""
        if not finite:
            self.diverged = True
        self.step += 1
        self.position += len(step.scores)
        self._batches += 1
        self._epoch_loss += step.loss
        return step

    def validate(self) -> float:
        """Measure the ranker on the validation queries, keep the best weights so far, and end the epoch if it is over.

        Without `validate_every` it always ends the epoch.

        Returns:
            The mean of the leading evaluation's first measure; nan if the training has diverged, that is, if a loss or
            a score is not a number.
        """
        ends = self.epoch_over or self.validate_every is None
        self.losses.append(self._epoch_loss / max(self._batches, 1))
        self._epoch_loss, self._batches = 0.0, 0
        values = self._measure()
        if self.held_out is not None:
            self.dev_losses.append(math.nan if self.diverged else self.held_out.loss(self.ranker, self.objective))
        self.stopping.note(values, self.epoch + 1, self.ranker)
        if ends:
            self.epoch += 1
            self.position = 0
            self.order = self.batches.order(self.examples, self.batch_size, self.rng)
        return values[self.stopping.leading]

    def _measure(self) -> dict[str, float]:
        """Return the mean of each evaluation's first measure, by origin; nan for all if the training has diverged."""
        if not self.diverged:
            try:
                return {
                    origin: float(next(iter(evaluation(self.ranker).values())).mean())
                    for origin, evaluation in self.evaluations.items()
                }
            except FloatingPointError:
                self.diverged = True
        return dict.fromkeys(self.evaluations, math.nan)

    def steps(
        self, source: NegativeSource, on_validation: Callable[[RankerTraining], None] | None = None
    ) -> Iterator[UpdateResult]:
        """Train, one batch per iteration, until early stopping or the epoch limit.

        Each iteration draws negatives, updates the ranker, lets the source observe the result and validates if a
        validation is due. Between two iterations the state can be saved or loaded, and the source can be changed.

        Args:
            on_validation: called after each validation.

        Yields:
            The result of each update.
        """
        if self.validation_due and not self.done:
            self._validate(on_validation)
        while not self.done:
            batch = self.next_batch()
            negatives = source.negatives(batch, self)
            if (following := self.following_batch()) is not None:
                source.prepare(following, self)
            result = self.update(batch, negatives, source.source_scores)
            source.observe(negatives, result)
            if self.validation_due:
                self._validate(on_validation)
            yield result

    def _validate(self, on_validation: Callable[[RankerTraining], None] | None) -> None:
        self.validate()
        if on_validation is not None:
            on_validation(self)

    def fit(
        self,
        source: NegativeSource,
        on_validation: Callable[[RankerTraining], None] | None = None,
        on_step: Callable[[RankerTraining], None] | None = None,
    ) -> None:
        """Train to the end and restore the best weights.

        Args:
            on_validation: called after each validation, to report, to save or to stop by raising.
            on_step: called in the same way after each update that no validation follows.
        """
        for _ in self.steps(source, on_validation):
            if on_step is not None and self._batches:
                on_step(self)
        self.restore_best()

    def restore_best(self, origin: str | None = None) -> None:
        """Restore the ranker's weights that validated best; with `keep="last"` leave those of the last step.

        Args:
            origin: the origin whose best weights to restore. None, or an unknown one, takes the leading origin.
        """
        best = self.stopping.best_weights(origin)
        if best is not None and self.keep == "best":
            self.ranker.load_state_dict(best)

    def remember(self, memory: VectorMemory) -> None:
        """Make updates use the vectors of documents in a memory, for the documents that it selects."""
        self.scores = replace(self.scores, memory=memory)

    def score(self, queries: NDArray[np.integer], documents: NDArray[np.integer]) -> NDArray[np.float32]:
        """Return the ranker's current scores [q, m]; −inf if the document is −1."""
        self.count_documents(documents)
        return score_candidates(self.ranker, self.encoded, queries, documents)

    @property
    def trained_weights(self) -> list[torch.nn.Parameter]:
        """The weights that an update changes."""
        return [weight for weight in self.ranker.parameters() if weight.requires_grad]

    def loss_of(
        self, batch: Batch, negatives: NDArray[np.int32], source_scores: NDArray[np.float32] | None = None
    ) -> Tensor:
        """Return the loss that an update with these negatives would have, without dropout, with a gradient."""
        shown = self._shown(batch, negatives)
        self.count_documents(shown)
        return self._loss(batch.queries, shown, source_scores, 0, self.step)[0]

    def gradient(self, loss: Tensor) -> list[Tensor | None]:
        """Return the gradient of a loss by `trained_weights`, some by rows; None if a weight has no part in it."""
        return list(torch.autograd.grad(loss, self.trained_weights, allow_unused=True))

    def probabilities(self, queries: NDArray[np.integer], documents: NDArray[np.integer]) -> NDArray[np.float32]:
        """Return P(relevant) for the current scores under the objective, the positive in column 0. Shape [q, m]."""
        scores = torch.from_numpy(np.where(documents < 0, 0, self.score(queries, documents)).astype(np.float32))
        return self.objective.probabilities(scores, torch.from_numpy(documents >= 0)).numpy()

    def state_dict(self) -> dict[str, Any]:
        """Return everything that a resumed training needs to continue exactly (`pyrite.ranking.checkpoint`)."""
        return {
            "ranker": dict(self.ranker.state_dict()),
            "stopping": self.stopping.state_dict(),
            "optimization": self.optimization.state_dict(),
            "rng": self.rng.bit_generator.state,
            "order": self.order,
            "counters": [self.epoch, self.step, self.position, self._batches, self.documents_read],
            "diverged": self.diverged,
            "losses": list(self.losses),
            "dev_losses": list(self.dev_losses),
            "epoch_loss": self._epoch_loss,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from `state_dict`."""
        self.ranker.load_state_dict(state["ranker"])
        self.stopping.load_state_dict(state["stopping"])
        self.optimization.load_state_dict(state["optimization"])
        self.rng.bit_generator.state = state["rng"]
        self.order = state["order"]
        self.epoch, self.step, self.position, self._batches, self.documents_read = state["counters"]
        self.diverged = state["diverged"]
        self.losses, self.dev_losses = list(state["losses"]), list(state["dev_losses"])
        self._epoch_loss = state["epoch_loss"]


def _divided(where: str, remedy: str) -> BadInput:
    """Return the error for a batch in parts, whose texts the objective compares with each other."""
    return BadInput("divides a batch whose texts the objective compares with each other", where, remedy)


def _check_tensor(value: object, shape: tuple[int, ...], where: str, remedy: str) -> None:
    """Refuse what a ranker or an objective, which may be the user's, returned if it can't be learned from."""
    if not isinstance(value, Tensor):
        raise BadInput(f"returned {type(value).__name__}, not a tensor", where, remedy)
    refuse(value.shape != shape, f"returned a tensor of shape {[*value.shape]}, not {[*shape]}", where, remedy)
    refuse(
        not value.requires_grad and 0 not in value.shape,
        "returned a tensor without a gradient",
        where,
        f"{remedy}, without detach() or NumPy",
    )
