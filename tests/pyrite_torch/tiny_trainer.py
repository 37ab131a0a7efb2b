"""A one-layer model, pairs of its words, and a trainer of sentence-transformers for them."""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pyrite import Dense, InBatch, Top
from pyrite.sampling.retrieval.dense import Refresh
from pyrite.torch import Negatives

WORDS = 200


def write_bert(folder: Path) -> Path:
    """Write a BERT of one layer with random weights and a vocabulary of w0 … w199."""
    from transformers import BertConfig, BertModel, BertTokenizerFast

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{number}" for number in range(WORDS))]
    folder.mkdir(parents=True)
    BertTokenizerFast(vocab={word: number for number, word in enumerate(words)}).save_pretrained(folder)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
        BertModel(BertConfig(vocab_size=len(words), initializer_range=0.5, **sizes)).save_pretrained(folder)
    return folder


def write_headed(bert: Path, folder: Path, kind: str) -> Path:
    """Write a BERT with the same weights and another head of transformers."""
    import transformers

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        getattr(transformers, kind).from_pretrained(bert, num_labels=1).save_pretrained(folder)
    transformers.AutoTokenizer.from_pretrained(bert).save_pretrained(folder)
    return folder


def open_model(bert: Path) -> Any:
    """Open it as a SentenceTransformer of mean vectors."""
    from sentence_transformers import SentenceTransformer, models

    return SentenceTransformer(modules=[models.Transformer(str(bert)), models.Pooling(16)], device="cpu")


def pairs(count: int = 64) -> list[dict[str, str]]:
    """Return pairs that share a word."""
    return [{"query": f"w{number}", "positive": f"w{number} w{number + 64}"} for number in range(count)]


def words(count: int) -> list[dict[str, str]]:
    """Return pairs of several words, some of which others share."""
    rng = np.random.default_rng(3)
    return [
        {"query": " ".join(f"w{each}" for each in rng.choice(60, 3)) + f" w{100 + number}",
         "positive": " ".join(f"w{each}" for each in rng.choice(60, 12)) + f" w{100 + number}"}
        for number in range(count)
    ]  # fmt: skip


def digest(model: Any) -> str:
    """Return a digest of a model's weights."""
    content = hashlib.sha256()
    for name, weight in sorted(model.state_dict().items()):
        content.update(name.encode() + weight.detach().numpy().tobytes())
    return content.hexdigest()


def train(
    bert: Path,
    out: Path,
    refresh: Refresh,
    *,
    negatives: Any = None,
    resume: str | None = None,
    model: Any = None,
    data: Any = None,
    prepare: Any = lambda trainer: None,
    **arguments: Any,
) -> tuple[Negatives, Any]:
    """Train a model for six steps with dense negatives, and return the negatives and the trainer."""
    from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments, losses

    model = model or open_model(bert)
    chosen = negatives or InBatch() + Dense(1, refresh=refresh, pick=Top())
    moving = chosen if isinstance(chosen, Negatives) else Negatives(data or pairs(), chosen, model=model)
    settings = {"per_device_train_batch_size": 8, "max_steps": 6, "save_strategy": "no", "learning_rate": 1e-2}
    settings |= {"report_to": "none", "use_cpu": True, "disable_tqdm": True, "logging_steps": 2, "seed": 7}
    settings |= {"batch_sampler": "no_duplicates", **arguments}
    training = SentenceTransformerTrainingArguments(str(out), **settings)
    loss = losses.MultipleNegativesRankingLoss(model)
    trainer = SentenceTransformerTrainer(model, training, moving.dataset, loss=loss)
    prepare(trainer)
    moving.attach(trainer)
    trainer.train(resume_from_checkpoint=resume)
    return moving, trainer


def served(negatives: Negatives) -> list[tuple[int, int]]:
    """Return the number of each batch and the version that it was served."""
    assert negatives._callback is not None
    return sorted((line["batch"], line["version"]) for line in negatives._callback.lines())
