"""Compares negatives in sentence-transformers' own trainer as one study: in the batch, by BM25, mined once, refreshed.

    python -m benchmarks.trainer_study MODEL [--steps N] [--seeds N] [--length N] [--out FOLDER]

MODEL is a folder in sentence-transformers' layout. The pairs are the first paragraphs of SciPy's docstrings, each with
the rest of its docstring; all documents are ranked. The study is resumed by the same command with the same `--out`.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from sentence_transformers.losses import MultipleNegativesRankingLoss

from pyrite import BM25, Collection, Dense, InBatch, Study, StudyResult
from pyrite.sampling.retrieval.dense import Refresh
from pyrite.torch import TrainingData

SMALLEST = ["{small_bert} --steps 2 --seeds 1 --batch 8 --length 8 --package requests --out {out}/trainer_study"]


def train(data: TrainingData, seed: int, folder: str, steps: int = 30, batch: int = 32, length: int = 32) -> None:
    """Train with the trainer of sentence-transformers; the negatives are those of the run's method."""
    model = SentenceTransformer(data.checkpoint, device="cpu")
    model.max_seq_length = length
    arguments = SentenceTransformerTrainingArguments(
        str(data.scratch), seed=seed, max_steps=steps, per_device_train_batch_size=batch, learning_rate=2e-5,
        warmup_steps=steps // 10, batch_sampler="no_duplicates", report_to="none", save_strategy="no",
    )  # fmt: skip
    trainer = SentenceTransformerTrainer(model, arguments, data.dataset, loss=MultipleNegativesRankingLoss(model))
    data.negatives.attach(trainer)
    trainer.train()
    print(data.negatives.report())
    model.save_pretrained(folder)


def study_of(chosen: argparse.Namespace) -> Study:
    """Return the study of four methods."""
    mined, refreshed = Refresh("never"), Refresh("lagged", every=max(1, chosen.steps // 4))
    methods = {
        "in the batch": InBatch(),
        "+1 BM25": InBatch() + BM25(1),
        "+1 mined once": InBatch() + Dense(1, refresh=mined),
        "+1 refreshed": InBatch() + Dense(1, refresh=refreshed),
    }
    words = chosen.length - 2  # without the first and the last subword, which mark its ends
    options = {
        "ranker": "bi_encoder", "ranker.checkpoint": chosen.model, "ranker.max_document": words,
        "ranker.max_query": words, "trainer.steps": chosen.steps, "trainer.batch": chosen.batch,
        "trainer.length": chosen.length, "guard.relative": 0.05, "origin": ["full"], "limits.dev": 10,
        "validation.origin": "bm25", "validation.negatives": 20, "local": True, "resume": "auto",
    }  # fmt: skip
    data = Collection.pydocs(packages=[chosen.package])
    return Study(data, methods, trainer=train, seeds=chosen.seeds, out=chosen.out, options=options)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the study, or what is left of it, and print its table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--length", type=int, default=32, help="subwords of a text")
    parser.add_argument("--package", default="scipy", help="whose docstrings are read")
    parser.add_argument("--out", default="outputs/trainer_study")
    chosen = parser.parse_args(arguments)
    study_of(chosen).run()
    print(StudyResult(chosen.out))


if __name__ == "__main__":
    main()
