"""A study of your own training over two seeds: in-batch negatives, and one by BM25 or by the model that is trained."""

import os
from typing import Any

from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from sentence_transformers.losses import MultipleNegativesRankingLoss

from pyrite import BM25, Collection, Dense, InBatch, Study
from pyrite.torch import TrainingData


def train(data: TrainingData, seed: int, folder: str, lr: float = 5e-5) -> Any:
    model = SentenceTransformer(os.environ.get("MODEL", "sentence-transformers/all-MiniLM-L6-v2"), device="cpu")
    arguments = SentenceTransformerTrainingArguments(
        str(data.scratch), seed=seed, learning_rate=lr, per_device_train_batch_size=16, max_steps=4, report_to="none"
    )
    loss = MultipleNegativesRankingLoss(model)
    trainer = SentenceTransformerTrainer(model, arguments, data.dataset, loss=loss)
    data.negatives.attach(trainer)
    trainer.train()
    model.save_pretrained(folder)


if __name__ == "__main__":
    methods = {"in-batch": InBatch(), "+1 BM25": InBatch() + BM25(1), "+1 dense": InBatch() + Dense(1, refresh=2)}
    result = Study(Collection.from_pairs("pairs.csv"), methods, trainer=train, seeds=2).run()
    print(result.trials.height, "runs")
