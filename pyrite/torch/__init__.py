"""Serves negatives to trainers that are not Pyrite's: a custom loop, sentence-transformers, PyLate and others.

negatives = Negatives("pairs.csv", InBatch() + Dense(1, refresh=500), model=model)
trainer = SentenceTransformerTrainer(model, arguments, negatives.dataset, loss=loss)
negatives.attach(trainer)                        # the collator adds negatives, a callback refreshes their index
trainer.train()
print(negatives.report())

for batch in negatives:                          # or in a custom loop: an epoch
    scores = my_scores(batch.queries, batch.documents)
    loss = ...
    negatives.observe(batch, scores, loss.item())  # policy and selector learn from them
"""

from pyrite.torch.negatives import Negatives, Score, ServedBatch
from pyrite.torch.report import NegativesReport
from pyrite.torch.training_data import TrainingData

__all__ = ["Negatives", "NegativesReport", "Score", "ServedBatch", "TrainingData"]
