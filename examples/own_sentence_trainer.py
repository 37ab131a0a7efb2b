"""Trains a sentence-transformers model with its trainer, with negatives that Pyrite chooses during the training.

Any `SentenceTransformer` works; this one is a table of word vectors, so that the example takes seconds.
"""

# %% The negatives: two per pair, a mixture of BM25's lists and the whole collection.
import os
import shlex
import tempfile

import torch
from datasets import Features, IterableDataset, Value
from sentence_transformers import (
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
    losses,
    models,
)
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.normalizers import Lowercase
from tokenizers.pre_tokenizers import Whitespace

from pyrite.torch import Negatives

DATA = shlex.split(os.environ.get("PYRITE_EXAMPLE", "scale=tiny"))
CHOICE = ["policy=mixture", "policy.per=negative", "function=[bm25,random]", "sampling.negatives=2"]
data = Negatives([*DATA, *CHOICE])

# %% The model: the words of the collection, with random vectors.
texts = [*data.collection.documents["text"], *data.collection.queries["text"]]
known = sorted({word for text in texts for word in text.lower().split()})
tokenizer = Tokenizer(WordLevel({word: place for place, word in enumerate(["[UNK]", *known])}, unk_token="[UNK]"))
tokenizer.normalizer, tokenizer.pre_tokenizer = Lowercase(), Whitespace()
torch.manual_seed(1)
model = SentenceTransformer(modules=[models.StaticEmbedding(tokenizer, embedding_dim=32)], device="cpu")

# %% The library's trainer and loss; each epoch has new negatives.
features = Features(dict.fromkeys(data.columns, Value("string")))
rows = IterableDataset.from_generator(data.rows, features=features)
arguments = SentenceTransformerTrainingArguments(
    output_dir=tempfile.mkdtemp(), max_steps=12, per_device_train_batch_size=data.training.batch_size,
    accelerator_config={"dispatch_batches": False},  # dispatching would cut the flat token ids of a static embedding
    learning_rate=0.05, logging_steps=1, report_to=[], save_strategy="no", use_cpu=True, disable_tqdm=True,
)  # fmt: skip
loss = losses.MultipleNegativesRankingLoss(model)
trainer = SentenceTransformerTrainer(model, arguments, train_dataset=rows, loss=loss)
trainer.train()

# %% The losses, and the negatives that Pyrite supplied.
curve = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
print("losses", curve)
print({row["function"]: row["negatives"] for row in data.sampler.report()})
assert sum(curve[-4:]) / 4 < curve[0]
