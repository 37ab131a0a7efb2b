"""Negatives in every trainer of sentence-transformers and in PyLate's: what `docs/guide/your_trainer.md` lists.

`tests/oldest_libraries.py` runs this with the oldest libraries, PyLate among them.
"""

import importlib.util
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import pyrite
from pyrite import BM25, Dense, InBatch, Top
from pyrite.ranking.errors import BadInput
from pyrite.sampling.retrieval.dense import Refresh
from pyrite.torch import Negatives
from pyrite.torch.builders import BuildOnRay
from pyrite.torch.text_encoder import encoder_of
from tests.pyrite_torch.tiny_trainer import open_model, pairs, served, train, words

SETTINGS: dict[str, Any] = {
    "per_device_train_batch_size": 8, "max_steps": 4, "save_strategy": "no", "learning_rate": 1e-2, "seed": 7,
    "report_to": "none", "use_cpu": True, "disable_tqdm": True,
}  # fmt: skip
NEW = importlib.util.find_spec("sentence_transformers.multi_vector_encoder") is not None
"""Whether sentence-transformers is version 6."""


def trained(kind: str, out: Path, model: Any, loss: Any, moving: Negatives, **options: Any) -> Any:
    """Train a model for four steps with a trainer of sentence-transformers."""
    import sentence_transformers

    arguments = getattr(sentence_transformers, f"{kind}TrainingArguments")(
        str(out), **SETTINGS | {"batch_sampler": "no_duplicates"} | options.pop("arguments", {})
    )
    trainer = getattr(sentence_transformers, f"{kind}Trainer")(model, arguments, moving.dataset, loss=loss, **options)
    moving.attach(trainer)
    trainer.train()
    return trainer


@pytest.mark.by_day(1)
@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.nightly)])
def test_a_sparse_encoder_is_indexed_while_it_trains(bert, masked, tmp_path, workers):
    from sentence_transformers import SparseEncoder
    from sentence_transformers.sparse_encoder import losses

    model = SparseEncoder(str(masked), device="cpu")
    loss = losses.SpladeLoss(
        model, losses.SparseMultipleNegativesRankingLoss(model),
        query_regularizer_weight=1e-4, document_regularizer_weight=1e-4,
    )  # fmt: skip
    refresh = Refresh(every=1, lag=5) if workers else Refresh("sync", every=1)
    moving = Negatives(pairs(), InBatch() + Dense(1, refresh=refresh, pick=Top()), model=model)
    arguments = {"max_steps": 7, "dataloader_num_workers": workers}
    trainer = trained("SparseEncoder", tmp_path, model, loss, moving, arguments=arguments)
    versions = [0, 0, 0, 0, 0, 0, 1] if workers else [0, 0, 1, 2, 3, 4, 5]
    assert served(moving)[:7] == list(enumerate(versions))
    assert np.isfinite([line["loss"] for line in trainer.state.log_history if "loss" in line]).all()
    assert moving.report().table["may_be_relevant"].is_not_null().all()


def token_model(bert: Path) -> Any:
    """A model with a vector per token: PyLate's, or that of sentence-transformers 6."""
    if NEW:
        from sentence_transformers import MultiVectorEncoder

        return MultiVectorEncoder(str(bert), device="cpu")
    models = pytest.importorskip("pylate.models", reason="late interaction needs sentence-transformers 6 or PyLate")
    return models.ColBERT(str(bert), device="cpu", query_length=8, document_length=16)


def test_a_model_of_token_vectors_is_indexed_while_it_trains(bert, tmp_path):
    model = token_model(bert)
    moving = Negatives(pairs(), InBatch() + Dense(1, refresh=Refresh("sync", every=1), pick=Top()), model=model)
    if NEW:
        from sentence_transformers.multi_vector_encoder.losses import MultiVectorMultipleNegativesRankingLoss

        trained("MultiVectorEncoder", tmp_path, model, MultiVectorMultipleNegativesRankingLoss(model), moving)
    else:
        from pylate.losses import Contrastive
        from pylate.utils import ColBERTCollator

        trained("SentenceTransformer", tmp_path, model, Contrastive(model), moving,
                data_collator=ColBERTCollator(tokenize_fn=model.tokenize))  # fmt: skip
    assert served(moving)[:4] == list(enumerate([0, 0, 1, 2]))
    assert moving.report().table["may_be_relevant"].is_not_null().all()


def test_the_lists_of_a_model_of_token_vectors_are_those_of_its_scores(bert, tmp_path):
    model = token_model(bert)
    moving = Negatives(pairs(24), Dense(2, refresh=Refresh("sync", every=1), pick=Top()), model=model)
    batch = next(iter(moving))
    encoder = encoder_of(model, None)
    assert encoder is not None
    texts = moving.collection.documents["text"].to_list()
    documents = encoder.encode(texts, "document")
    for query, row in zip(batch.queries, batch.documents, strict=True):
        [words] = encoder.encode([query], "query")
        scores = {text: float((words @ each.T).max(1).sum()) for text, each in zip(texts, documents, strict=True)}
        order = sorted((text for text in texts if text != row[0]), key=lambda text: -scores[text])
        assert [scores[text] for text in row[1:]] == pytest.approx([scores[text] for text in order[:2]], abs=1e-5)
    moving.close()


RERANKING = {
    "tuples": "MultipleNegativesRankingLoss", "labelled_pairs": "BinaryCrossEntropyLoss", "lists": "ListNetLoss",
}  # fmt: skip
"""By form of rows, a loss of `CrossEncoderTrainer` that reads it."""


@pytest.mark.by_day(2)
@pytest.mark.parametrize(
    ("rows", "negatives"),
    [
        ("tuples", "bm25"),
        ("lists", "another model"),
        ("labelled_pairs", "mined"),
        pytest.param("lists", "bm25", marks=pytest.mark.nightly),
        pytest.param("tuples", "another model", marks=pytest.mark.nightly),
    ],
)
def test_a_reranker_trains_with_lists_from_elsewhere(bert, reranker, tmp_path, rows, negatives):
    from sentence_transformers import CrossEncoder
    from sentence_transformers.cross_encoder import losses

    model = CrossEncoder(str(reranker), device="cpu", num_labels=1)
    options: dict[str, Any]
    source, options, data = BM25(2), {}, words(60)
    if negatives == "another model":
        source, options = Dense(2, refresh=Refresh("never")), {"model": open_model(bert)}
    if negatives == "mined":
        mined = pyrite.mine(data, BM25(2, pick=Top()), out=tmp_path / "mined")
        data, source = mined.rows, pyrite.Given(2)
    moving = Negatives(data, source, rows=rows, **options)
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    trainer = trained("CrossEncoder", tmp_path / "out", model, getattr(losses, RERANKING[rows])(model), moving,
                      arguments={"batch_sampler": "batch_sampler"})  # fmt: skip
    assert np.isfinite([line["loss"] for line in trainer.state.log_history if "loss" in line]).all()
    assert any(not torch.equal(weight, before[name]) for name, weight in model.state_dict().items())
    report = moving.report()
    assert report.table["negatives"].sum() + report.filled == 4 * 8 * 2
    assert report.table["negatives"].sum() > 0


def test_a_reranker_is_no_model_to_search_with(reranker):
    from sentence_transformers import CrossEncoder

    with pytest.raises(BadInput, match="CrossEncoder has no vectors of texts"):
        Negatives(pairs(), Dense(1), model=CrossEncoder(str(reranker), device="cpu", num_labels=1))


@pytest.mark.nightly
def test_of_a_model_with_adapters_these_are_sent(bert, tmp_path):
    peft = pytest.importorskip("peft", reason="peft is in the dev extra")
    model = open_model(bert)
    model.add_adapter(peft.LoraConfig(task_type="FEATURE_EXTRACTION", r=2, target_modules=["query", "value"]))
    encoder = encoder_of(model, None)
    assert encoder is not None
    sent = encoder.trained_weights()
    adapters = [name for name in sent if "lora_" in name]
    assert len(adapters) == 4
    assert sum(sent[name].numel() for name in sent) < sum(each.numel() for each in model.parameters()) / 2
    moving, _ = train(bert, tmp_path, Refresh(every=1, lag=2), model=model, max_steps=6)
    assert served(moving)[:6] == list(enumerate([0, 0, 0, 1, 2, 3]))
    table = moving.report().table.filter(version=0)["may_be_relevant"].to_list()
    assert table != moving.report().table.filter(version=3)["may_be_relevant"].to_list()


@pytest.mark.parametrize("how", ["fsdp", "zero3"])
def test_weights_that_cannot_be_gathered_are_refused(bert, tmp_path, monkeypatch, how):
    def sharded(trainer: Any) -> None:
        if how == "fsdp":
            trainer.is_fsdp_enabled = True
        else:
            plugin = type("Plugin", (), {"zero_stage": 3})()
            monkeypatch.setattr(type(trainer.accelerator.state), "deepspeed_plugin", plugin)

    with pytest.raises(BadInput, match="FSDP or ZeRO-3 keeps the weights in parts"):
        train(bert, tmp_path, Refresh(every=1), prepare=sharded)


@pytest.mark.nightly
def test_an_index_on_ray_serves_the_same(bert, tmp_path, ray_session):
    builders = []

    def watched(trainer: Any) -> None:
        build = trainer.training_step

        def training_step(*arguments: Any, **options: Any) -> Any:
            builders.append(type(moving[0]._index.builder))
            return build(*arguments, **options)

        trainer.training_step = training_step

    moving: list[Any] = []
    refresh = Refresh(every=2, lag=2)
    for shards in (1, 2):
        negatives = Negatives(pairs(), InBatch() + Dense(1, refresh=refresh, pick=Top(), shards=shards), model=None)
        moving[:] = [negatives]
        _, trainer = train(bert, tmp_path / str(shards), refresh, negatives=negatives, prepare=watched)
        assert served(negatives)[:6] == list(enumerate([0, 0, 0, 0, 2, 2]))
        assert negatives.report().table["may_be_relevant"].is_not_null().all()
    assert set(builders) == {BuildOnRay}
    assert len(builders) == 12
    assert trainer.state.global_step == 6


RANKS = """
import json, os, sys
from pathlib import Path
from pyrite import Dense, InBatch
from pyrite.sampling.retrieval.dense import Refresh
from tests.pyrite_torch.tiny_trainer import train
read = []
class Reads:
    def __init__(self, inner): self.inner = inner
    def __getattr__(self, name): return getattr(self.__dict__["inner"], name)
    def __call__(self, rows):
        read.extend(rows)
        return self.inner(rows)
def prepare(trainer): trainer.data_collator = Reads(trainer.data_collator)
moving, trainer = train(Path(sys.argv[1]), Path(sys.argv[2]), Refresh(every=2, lag=2), prepare=prepare,
                        max_steps=-1, num_train_epochs=1, ddp_backend="gloo", average_tokens_across_devices=False)
rank = os.environ["RANK"]
digest = float(sum(weight.double().sum() for weight in trainer.model.parameters()))
Path(sys.argv[2], f"rank{rank}.json").write_text(json.dumps([[row["query"] for row in read], sorted(read[0]), digest]))
"""


@pytest.mark.nightly
def test_two_processes_serve_each_row_once(bert, tmp_path):
    script = tmp_path / "ranks.py"
    script.write_text(RANKS)
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node=2", "--master_port=0",
               "--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0", str(script), str(bert), str(tmp_path)]  # fmt: skip
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True,
                          env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))})  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    ranks = [json.loads((tmp_path / f"rank{rank}.json").read_text()) for rank in (0, 1)]
    queries = Counter(query for rows, _, _ in ranks for query in rows)
    assert max(queries.values()) == 1
    rows = len(Negatives(pairs(), BM25(1)).dataset)
    assert rows - 2 * 8 < len(queries) <= rows
    assert all(columns == ["negative_1", "positive", "query"] for _, columns, _ in ranks)
    assert ranks[0][2] == ranks[1][2]
    lines = [json.loads(text) for file in (tmp_path / "negatives" / "shown").iterdir()
             for text in file.read_text().splitlines()]  # fmt: skip
    by_batch: dict[int, set[int]] = {}
    for line in lines:
        by_batch.setdefault(line["batch"], set()).add(line["version"])
    assert all(len(versions) == 1 for versions in by_batch.values())
    assert [versions for _, versions in sorted(by_batch.items())][:3] == [{0}, {0}, {0}]
