"""Negatives that move in the trainer of sentence-transformers: an index of the model follows it while it trains."""

import os

from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from sentence_transformers.losses import MultipleNegativesRankingLoss

from pyrite import Dense, Guard, InBatch, SimANS
from pyrite.torch import Negatives

model = SentenceTransformer(os.environ.get("MODEL", "sentence-transformers/all-MiniLM-L6-v2"), device="cpu")
dense = Dense(1, refresh=4, pick=SimANS(a=100))  # from the neighbours of each query, every 4 steps
negatives = Negatives("pairs.csv", InBatch() + dense, guard=Guard(relative=0.05), model=model)
arguments = SentenceTransformerTrainingArguments(
    "outputs/your_trainer", per_device_train_batch_size=16, max_steps=10, report_to="none", save_strategy="no"
)
loss = MultipleNegativesRankingLoss(model)
trainer = SentenceTransformerTrainer(model, arguments, negatives.dataset, loss=loss)
negatives.attach(trainer)
trainer.train()
print(negatives.report())
