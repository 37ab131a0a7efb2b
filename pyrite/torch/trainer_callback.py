"""Follows the steps of a trainer of transformers: publishes weights, logs versions, saves and resumes the index."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from pyrite.torch.batch_versions import BatchVersions, LoaderCounts
from pyrite.torch.moving_index import MovingIndex
from pyrite.torch.report import ShownFiles, totals
from pyrite.torch.trainer_batches import BatchNegatives, CollatorWithNegatives

SAVED = "negatives"
"""The folder of a checkpoint that holds the index."""


def loader_counts(arguments: Any, batches: int = 1) -> LoaderCounts:
    """Return how a trainer with these arguments reads its batches."""
    prefetch = arguments.dataloader_prefetch_factor or 2
    return LoaderCounts(batches, arguments.gradient_accumulation_steps, arguments.dataloader_num_workers, prefetch)


class IndexCallback(TrainerCallback):
    """Keeps the negatives of a training in step with it.

    Args:
        index: the index; None if negatives do not move.
        collator: numbers the batches; None if rows get their negatives in a transform.
        shown: the files of what was shown.
        wait_for_everyone: waits until all processes of the training have called it.

    Attributes:
        resumed: the checkpoint that the next training is resumed from.
        trained: the number of batches per process that have been trained on.
        steps: the number of optimizer steps.
        scored_step: the step whose weights the model has at the end: the best one with `load_best_model_at_end`.
    """

    def __init__(
        self,
        negatives: BatchNegatives,
        index: MovingIndex | None,
        collator: CollatorWithNegatives | None,
        shown: ShownFiles,
        wait_for_everyone: Callable[[], None],
    ) -> None:
        self.negatives, self.index, self.collator, self.shown = negatives, index, collator, shown
        self.wait_for_everyone = wait_for_everyone
        self.resumed: Path | None = None
        self.trained = self.steps = self.scored_step = 0
        self._lines: list[dict[str, Any]] = []
        self._read: dict[str, int] = {}

    def on_train_begin(self, args: Any, state: Any, control: Any, train_dataloader: Any = None, **rest: Any) -> None:
        """Number the batches, and start the index."""
        self.loader = loader_counts(args, max(1, len(train_dataloader)))
        self.negatives.loader = self.loader
        self.negatives.draws.start()
        service = self.negatives.service
        if service is not None and self.index is not None:
            service.versions = BatchVersions(self.index.refresh, self.loader)
            service.versions.check()
        if state.is_world_process_zero:
            self._lines, self._read = [], {}
            self.shown.drop_from(0 if self.resumed is None else self.loader.first_of(state.global_step))
            if self.index is not None and service is not None:
                self.index.start(service, None if self.resumed is None else self.resumed / SAVED)
        self.wait_for_everyone()

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        """Tell the collator which batch comes next."""
        if self.collator is not None:
            self.collator.start_at(self.loader.first_of(state.global_step))

    def on_step_end(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        """Publish the weights if that is due."""
        self.trained, self.steps = self.loader.first_of(state.global_step), state.global_step
        if index := self._moved_by(state):
            index.after_step(state.global_step, self._ahead)

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **rest: Any) -> None:
        """Add version, lag, waits and counts to what is logged."""
        if logs is None or not state.is_world_process_zero or "train_runtime" in logs:
            return
        lines = self._trained_on(self._shown_so_far())
        sums = totals(lines)
        figures = {"negatives_waited": round(sums["waited"], 3), "negatives_filled": sums["filled"]}
        if self.index is not None and lines:
            last = max(reversed(lines), key=lambda line: line["batch"])  # of rows without a number the last
            step = state.global_step if last["batch"] < 0 else self.loader.step_of(last["batch"])
            figures |= {"negatives_version": last["version"], "negatives_lag": step - last["version"]}
            figures["negatives_guarded"] = sums["dropped"]
        logs.update(figures)
        if state.log_history:  # written before any callback
            state.log_history[-1].update(figures)

    def on_save(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        """Keep the index with the checkpoint."""
        if index := self._moved_by(state):
            folder = Path(args.output_dir) / f"checkpoint-{state.global_step}" / SAVED
            index.save(folder, state.global_step, self._ahead(state.global_step))

    def on_train_end(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        """Stop the index."""
        self.resumed = None
        best = state.best_global_step if args.load_best_model_at_end else None
        self.scored_step = best or state.global_step
        if index := self._moved_by(state):
            index.close()

    def _moved_by(self, state: Any) -> MovingIndex | None:
        """Return the index if this process moves it: the first one of a training does."""
        return self.index if state.is_world_process_zero else None

    def _ahead(self, step: int) -> dict[str, int]:
        """Return the versions of the batches that were fetched before a step and are trained on after it."""
        first = self.loader.first_of(step)
        lines = self._shown_so_far()
        return {f"{line['rank']}-{line['batch']}": line["version"] for line in lines if line["batch"] >= first}

    def lines(self) -> list[dict[str, Any]]:
        """Return what was shown in the batches that have been trained on."""
        return self._trained_on(self.shown.lines())

    def _shown_so_far(self) -> list[dict[str, Any]]:
        """Return the lines of this training. Only new ones are read, since files grow and are asked for often."""
        self._lines += self.shown.lines(self._read)
        return self._lines

    def _trained_on(self, lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [line for line in lines if line["batch"] < max(1, self.trained)]
