"""`Negatives.attach`: negatives that move while the trainer of sentence-transformers trains."""

import csv
import gc
import io
import itertools
import json
import os
import pickle
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from ray import cloudpickle
from torch.utils.data import DataLoader

import pyrite
from pyrite import BM25, Curriculum, Dense, Fixed, Guard, InBatch, Mixture, Random, Schedule, SimANS, Top
from pyrite.ranking.errors import BadInput
from pyrite.sampling.retrieval.dense import Refresh
from pyrite.torch import Negatives, beside, builders
from pyrite.torch.builders import BuildBeside
from pyrite.torch.moving_index import MovingIndex
from pyrite.torch.report import ShownFiles
from pyrite.torch.text_encoder import encoder_of
from pyrite.torch.text_pairs import TextPairs
from pyrite.torch.trainer_batches import check_loss, lists
from pyrite.torch.version_files import VersionFolder
from tests.pyrite_torch.ends import ends
from tests.pyrite_torch.in_thread import InThread
from tests.pyrite_torch.tiny_trainer import digest, open_model, pairs, served, train, words


def test_versions_follow_the_steps(bert, tmp_path):
    negatives, trainer = train(bert, tmp_path, Refresh("sync", every=1), gradient_accumulation_steps=2)
    versions = dict(served(negatives))
    assert [versions[batch] for batch in range(7)] == [0, 0, 0, 1, 1, 2, 2]
    report = negatives.report()
    assert report.table["function"].unique().to_list() == ["dense"]
    logged = [line for line in trainer.state.log_history if "negatives_version" in line]
    assert [line["negatives_version"] for line in logged] == [1, 2, 5]
    assert not (tmp_path / "negatives" / "index").exists()  # deleted at the end


@pytest.mark.by_day(1)
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize(
    ("accumulation", "lag", "steps", "versions"),
    [(1, 5, 8, [0, 0, 0, 0, 0, 0, 1, 2]), (2, 3, 6, [0, 0, 0, 0, 0, 0, 0, 1, 1, 2, 2])],  # 7 batches per epoch
)
def test_lagged_serves_the_same_with_any_number_of_workers(
    bert, tmp_path, in_thread, workers, accumulation, lag, steps, versions
):  # fmt: skip
    options = {"dataloader_num_workers": workers, "gradient_accumulation_steps": accumulation, "max_steps": steps}
    negatives, _ = train(bert, tmp_path, Refresh(every=1, lag=lag), **options)
    assert served(negatives) == list(enumerate(versions))
    assert negatives.report().waited > 0
    assert "version of step 2" in str(negatives.report())


@pytest.mark.parametrize("mode", ["sync", pytest.param("lagged", marks=pytest.mark.nightly)])
def test_a_resumed_training_repeats_an_uninterrupted_one(bert, tmp_path, mode):
    refresh = Refresh(mode, every=2, lag=2 if mode == "lagged" else None)
    saving = {"save_strategy": "steps", "save_steps": 4, "gradient_accumulation_steps": 2}
    whole, trained = train(bert, tmp_path, refresh, **saving)
    again, resumed = train(bert, tmp_path, refresh, resume=str(tmp_path / "checkpoint-4"), **saving)
    assert digest(trained.model) == digest(resumed.model)
    assert served(whole) == served(again)
    assert len({version for _, version in served(whole)}) > 1


def test_a_checkpoint_in_the_arguments_alone_resumes_nothing(bert, tmp_path):
    """As in trainers, which start with fresh weights. The index started with those of the checkpoint."""
    refresh, steps = Refresh("sync", every=1), 3
    whole, trained = train(bert, tmp_path, refresh, max_steps=steps)
    named = str(tmp_path / "checkpoint-4")
    again, same = train(bert, tmp_path, refresh, max_steps=steps, resume_from_checkpoint=named)
    assert digest(trained.model) == digest(same.model)
    assert served(whole) == served(again)


@pytest.mark.nightly
def test_async_replays_the_recorded_versions_and_says_that_it_does_not_repeat(bert, tmp_path):
    """A function is searched in the trainer's process, so that versions exist at known steps."""
    saving = {"save_strategy": "steps", "save_steps": 3}

    def trained(resume: str | None = None) -> Negatives:
        model = open_model(bert)
        dense = InBatch() + Dense(1, refresh=Refresh("async", every=1), pick=Top())
        moving = Negatives(pairs(), dense, encode=lambda texts, kind: model.encode(texts))
        return train(bert, tmp_path, Refresh(), negatives=moving, model=model, resume=resume, **saving)[0]

    whole = trained()
    kept = tmp_path / "checkpoint-3" / "negatives"
    assert json.loads((kept / "ahead.json").read_text()) == {"0-3": 2}  # fetched before step 3
    assert sorted(path.name for path in kept.glob("0*")) == ["000000002", "000000003"]
    again = trained(str(tmp_path / "checkpoint-3"))
    assert served(whole) == served(again) == list(enumerate([0, 0, 1, 2, 3, 4]))
    assert str(again.report()).startswith(
        "versions were served as they were built (async): a training repeated or resumed"
    )


def test_a_training_after_an_interrupted_one_starts_with_its_own_weights(bert, tmp_path):
    from transformers import TrainerCallback

    seen = []

    class Stop(TrainerCallback):
        def on_step_begin(self, args, state, control, **rest):
            if state.global_step == 0:
                of_start = moving._index.served.folder.open(0).queries[moving.training.examples.queries[0]]
                read = trainer.model.encode(moving.dataset["query"][0], normalize_embeddings=True)
                seen.append(abs(of_start - read).max())

        def on_step_end(self, args, state, control, **rest):
            if state.global_step == 3 and len(seen) == 1:
                raise KeyboardInterrupt

    moving = Negatives(pairs(), Dense(1, refresh=Refresh("sync", every=1), pick=Top()), model=open_model(bert))
    trainer = trainer_of(bert, tmp_path, moving, max_steps=5, learning_rate=0.1)
    trainer.model.load_state_dict(moving._encoder.model.state_dict())
    moving._encoder.model = trainer.model
    moving.attach(trainer)
    trainer.add_callback(Stop())
    with pytest.raises(KeyboardInterrupt):
        trainer.train()
    trainer.train()
    assert seen == pytest.approx([0, 0], abs=1e-6)
    assert served(moving) == list(enumerate([0, 0, 1, 2, 3]))


def test_what_was_shown_is_read_when_it_is_needed_and_once(bert, tmp_path, monkeypatch):
    read, lines = [], ShownFiles.lines

    def recorded(shown, *arguments):
        read.append(lines(shown, *arguments))
        return read[-1]

    monkeypatch.setattr(ShownFiles, "lines", recorded)
    train(bert, tmp_path, Refresh("sync", every=2), logging_steps=4)
    assert [[line["batch"] for line in each] for each in read] == [[0, 1, 2], [3, 4], [], [5, 6]]  # at 2, 4, 4, 6


def test_a_line_that_is_still_written_is_left_for_later(tmp_path):
    shown, read = ShownFiles(tmp_path), {}
    shown.append("0-0", {"batch": 0})
    shown.append("1-0", {"batch": 0})
    with (tmp_path / "0-0.jsonl").open("a") as file:
        file.write('{"bat')
        file.flush()
        assert shown.lines(read) == [{"rank": "0", "batch": 0}, {"rank": "1", "batch": 0}]
        file.write('ch": 1}\n{"batch": 2')
    assert shown.lines(read) == [{"rank": "0", "batch": 1}]
    shown.drop_from(1)  # the training was killed, and is resumed
    shown.append("0-0", {"batch": 1})
    assert shown.lines() == [{"rank": "0", "batch": 0}, {"rank": "0", "batch": 1}, {"rank": "1", "batch": 0}]


def test_the_report_says_first_if_nothing_was_refreshed(bert, tmp_path):
    negatives, _ = train(bert, tmp_path, Refresh("sync", every=500), max_steps=2)
    assert str(negatives.report()).startswith("only the first version was served")


@dataclass
class Reads:
    """A collator that keeps the rows that it receives."""

    valid_label_columns: list[str]
    read: list[list[dict[str, str]]]

    def __call__(self, rows: list[dict[str, str]]) -> dict[str, torch.Tensor]:
        self.read.append(rows)
        return {"label": torch.zeros(1)}


def batches_of(negatives: Negatives, trainer) -> list[dict[str, list[str]]]:
    """The texts of each batch of an epoch, as the trainer's collator receives them."""
    read: list[list[dict[str, str]]] = []
    inner = trainer.data_collator
    negatives._callback.collator.inner = Reads(inner.valid_label_columns, read)
    loader = trainer.get_train_dataloader()
    negatives._callback.on_train_begin(trainer.args, trainer.state, None, train_dataloader=loader)
    for _ in loader:
        pass
    return read


def trainer_of(bert, out, negatives, **arguments):
    from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments, losses

    model = open_model(bert)
    settings = {"report_to": "none", "use_cpu": True, "save_strategy": "no", "per_device_train_batch_size": 4}
    args = SentenceTransformerTrainingArguments(str(out), **settings | arguments)
    return SentenceTransformerTrainer(
        model, args, negatives.dataset, loss=losses.MultipleNegativesRankingLoss(model)
    )  # fmt: skip


def test_static_negatives_are_the_rows_of_mine(bert, tmp_path):
    source = tmp_path / "pairs.csv"
    with source.open("w") as file:
        writer = csv.DictWriter(file, ["query", "positive"])
        writer.writeheader()
        writer.writerows(words(80))
    negatives = Negatives(str(source), BM25(2, pick=Top()))
    trainer = trainer_of(bert, tmp_path / "out", negatives, per_device_train_batch_size=1)
    negatives.attach(trainer)
    served_rows = {tuple(row.values()) for rows in batches_of(negatives, trainer) for row in rows}
    mined = pyrite.mine(pyrite.Collection.from_pairs(str(source)), BM25(2, pick=Top()), out=tmp_path / "mined")
    assert served_rows == set(mined.rows.rows())
    assert len(served_rows) == len(negatives.dataset)


@pytest.mark.by_day(1)
@pytest.mark.parametrize("workers", [2, 0])
@pytest.mark.parametrize(("switch", "length"), [({"epochs": 2}, 14), ({"steps": 5}, 9)])  # 7 batches per epoch
def test_a_schedule_has_the_epochs_of_the_trainer(bert, tmp_path, workers, switch, length):
    arguments = {"dataloader_num_workers": workers, "gradient_accumulation_steps": 2, "max_steps": -1}
    arguments |= {"save_strategy": "steps", "save_steps": 6}
    moving = [Negatives(words(64), Schedule(Random(), BM25(), shape="switch", **switch)) for _ in range(2)]
    for negatives, resume in zip(moving, [None, str(tmp_path / "checkpoint-6")], strict=True):
        train(bert, tmp_path, Refresh(), negatives=negatives, num_train_epochs=3, resume=resume, **arguments)
        hard = [line["batch"] for line in negatives.lines() if line["functions"]["bm25"]["shown"]]
        assert sorted(hard) == list(range(length, 21))


def test_a_schedule_without_numbers_of_batches_is_refused():
    with pytest.raises(BadInput, match="a schedule would stay at its start"):
        _ = Negatives(pairs(), Schedule(Random(), BM25())).transform


def test_positives_of_the_batch_and_texts_of_the_positive_are_never_served(bert, tmp_path):
    data = [{"query": f"w{number}", "positive": "w1 w2" if number % 3 else f"w{number}"} for number in range(40)]
    negatives = Negatives(data, BM25(3, pick=Top()))
    trainer = trainer_of(bert, tmp_path, negatives, per_device_train_batch_size=4)
    negatives.attach(trainer)
    rows = batches_of(negatives, trainer)
    assert sum(map(len, rows)) == len(negatives.dataset)
    for batch in rows:
        positives = {row["positive"] for row in batch}
        for row in batch:
            shown = [text for column, text in row.items() if column.startswith("negative_")]
            assert len(shown) == len(set(shown)) == 3
            assert not positives & set(shown)
            assert all(text.strip() for text in shown)
    assert "drawn at random" in str(negatives.report())


@pytest.mark.parametrize(("loss", "barred"), [("MultipleNegativesRankingLoss", True), ("TripletLoss", False)])
def test_a_query_sees_no_other_positive_of_its_own_in_a_neighbours_row(bert, tmp_path, loss, barred):
    data = [{"query": f"w{number}", "positive": f"w{number} w{number % 12 + 1} w{100 + number + 12 * place}"}
            for number in range(12) for place in range(4)]  # fmt: skip
    negatives = Negatives(data, BM25(3, pick=Top()))
    trainer = trainer_of(bert, tmp_path, negatives)
    trainer.loss = _loss(loss)(trainer.model)
    negatives.attach(trainer)
    relevant = {(row["query"], row["positive"]) for row in data}
    seen = [
        (row["query"], text) in relevant
        for batch in batches_of(negatives, trainer)
        for row in batch
        for shown in batch
        for column, text in shown.items()
        if column.startswith("negative_")
    ]
    assert any(seen) != barred


@pytest.mark.parametrize("negatives", [BM25(2, pick=Top()), Random(2)])
def test_a_query_sees_its_own_text_in_no_row(bert, tmp_path, negatives):
    texts = [f"w{number % 12} w{20 + number % 8} w{60 + number}" for number in range(48)]
    data = [{"query": text, "positive": texts[number ^ 1]} for number, text in enumerate(texts)]
    moving = Negatives(data, negatives)
    trainer = trainer_of(bert, tmp_path, moving, per_device_train_batch_size=8)
    moving.attach(trainer)
    for batch in batches_of(moving, trainer):
        shown = {text for row in batch for column, text in row.items() if column.startswith("negative_")}
        assert not shown & {row["query"] for row in batch}


@pytest.mark.parametrize("prompts", [{}, {"query": "w7 w9 ", "positive": "w3 "}])
def test_lists_are_those_of_mine_hard_negatives(bert, tmp_path, prompts):
    from sentence_transformers.util import mine_hard_negatives

    model, data = open_model(bert), words(60)
    negatives = Negatives(data, Dense(2, refresh=Refresh("sync", every=1), pick=Top()), model=model)
    negatives._use_prompts(prompts, None)
    moving = negatives._batch_negatives(tmp_path / "index", trainer_loader())
    assert negatives._index is not None
    negatives._index.start(moving.service)
    rows = list(negatives.dataset)
    ours = [moving.texts([(row["query"], row["positive"])], 0)[0] for row in rows]
    corpus = negatives.collection.documents["text"].to_list()
    mined = mine_hard_negatives(
        negatives.dataset, model, anchor_column_name="query", positive_column_name="positive", corpus=corpus,
        num_negatives=2, range_max=10, sampling_strategy="top", output_format="n-tuple", verbose=False,
        query_prompt=prompts.get("query"), corpus_prompt=prompts.get("positive"),
    )  # fmt: skip
    by_query = {row["query"]: [row["negative_1"], row["negative_2"]] for row in mined}
    assert [by_query[row["query"]] for row in rows] == ours
    negatives.close()


def trainer_loader():
    from pyrite.torch.batch_versions import LoaderCounts

    return LoaderCounts(10)


def test_selectors_read_the_scores_of_the_version_and_the_guard_drops(bert, tmp_path):
    negatives, _ = train(
        bert, tmp_path, Refresh("sync", every=2),
        negatives=InBatch() + BM25(1, pick=SimANS()) + Dense(1, refresh=Refresh("sync", every=2), pick=SimANS()),
        data=words(60),
    )  # fmt: skip
    table = negatives.report().table
    assert set(table["function"]) == {"bm25", "dense"}
    assert table["may_be_relevant"].null_count() == 0
    guarded = Negatives(words(60), Dense(1, refresh=1, pick=Top()), guard=Guard(relative=0.05), model=open_model(bert))
    assert guarded._config["guard"]["relative"] == 0.05


@pytest.mark.parametrize(
    "policy",
    [Fixed(BM25(), candidates=8), Mixture(BM25(), Random(), candidates=8), Schedule(Random(), BM25(), candidates=8)],
)
def test_candidates_of_a_policy_are_scored_by_the_version(policy):
    negatives = Negatives(words(8), policy)
    assert negatives._reads_versions(negatives.sampler)
    assert negatives._reads_versions(negatives._trainer_sampler)


@pytest.mark.parametrize(
    ("negatives", "message"),
    [
        (Curriculum(Random(), BM25()), "learns from losses or scores of each step"),
        (InBatch() + pyrite.Memory(1), "learns from losses or scores of each step"),
        (Mixture(InBatch(), BM25()), "a policy can't choose them for some"),
        (InBatch(3) + BM25(1), r"negatives: a count of InBatch does nothing in a trainer.*; write InBatch\(\)"),
        (InBatch(hard=True) + BM25(1), "hard of InBatch does nothing"),
        (InBatch(pick=Top()) + BM25(1), "pick of InBatch does nothing"),
        (Mixture(Random(), BM25(), each=1), "a trainer's rows have one number"),
        (BM25(1, pick=pyrite.Adversarial()), "learns from losses or scores of each step"),
        (BM25(1, pick=pyrite.Shared()), "selector: Shared chooses for a whole batch"),
        (BM25(1, pick=pyrite.FromMargin()), "selector: FromMargin chooses for a whole batch"),
    ],
)
def test_what_needs_a_step_or_a_ranker_is_refused(bert, tmp_path, negatives, message):
    moving = Negatives(words(40), negatives)
    trainer = trainer_of(bert, tmp_path, moving)
    with pytest.raises(BadInput, match=message):
        moving.attach(trainer)


def test_a_guard_of_in_batch_negatives_is_refused():
    moving = Negatives(words(40), InBatch() + BM25(1))
    moving._config["function"]["in_batch"]["guard"]["relative"] = 0.0  # a guide would be trained first
    with pytest.raises(BadInput, match="guard of InBatch does nothing in a trainer"):
        _ = moving.columns


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"dataloader_num_workers": 2}, "the loader fetches 5 batches ahead; choose 5 or more"),
        ({"dataloader_num_workers": 1, "dataloader_persistent_workers": True}, "loses count of its batches"),
        ({"ignore_data_skip": True}, "have other numbers"),
    ],
)
def test_loaders_that_lose_count_are_refused(bert, tmp_path, arguments, message):
    moving = Negatives(words(40), Dense(1, refresh=1))
    with pytest.raises(BadInput, match=message):
        moving.attach(trainer_of(bert, tmp_path, moving, **arguments))


def test_other_rows_are_refused(bert, tmp_path):
    moving = Negatives(words(40), BM25(1))
    trainer = trainer_of(bert, tmp_path, moving)
    moving.attach(trainer)
    trainer.train_dataset = trainer.train_dataset.map(lambda row: {"query": row["query"].upper()})
    with pytest.raises(BadInput, match=r"is no pair of negatives.dataset"):
        next(iter(trainer.get_train_dataloader()))


def test_an_error_of_a_loader_worker_is_one_line(bert, tmp_path):
    moving = Negatives(words(40), BM25(1))
    trainer = trainer_of(bert, tmp_path, moving, dataloader_num_workers=1)
    moving.attach(trainer)
    trainer.train_dataset = trainer.train_dataset.map(lambda row: {"query": row["query"].upper()})
    with pytest.raises(BadInput, match=r"^train_dataset: the row of .* is no pair of negatives.dataset; give the"):
        trainer.train()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda trainer, moving: None, "attach: NoneType is no trainer of transformers; make the trainer first"),
        (lambda trainer, moving: moving.attach(trainer) or trainer, "this trainer has negatives already; attach once"),
        (
            lambda trainer, moving: _set(trainer, train_dataset=trainer.train_dataset.rename_column("query", "anchor")),
            "train_dataset: has no columns query and positive",
        ),
        (lambda trainer, moving: _set(trainer, train_dataset=None), "train_dataset: has no columns query and positive"),
        (
            lambda trainer, moving: _set(
                trainer, eval_dataset={"moving": trainer.train_dataset.with_transform(moving.transform)}
            ),
            "no two of its losses compare",
        ),
        (
            lambda trainer, moving: _set(trainer, train_dataset=trainer.train_dataset.with_transform(moving.transform)),
            "train_dataset: its rows have negatives by a transform",
        ),
        (
            lambda trainer, moving: _set(trainer, loss=_loss("TripletLoss")(trainer.model)),
            r"TripletLoss compares no documents of the batch, so that InBatch\(\) adds nothing",
        ),
    ],
)
def test_a_trainer_that_negatives_cannot_follow_is_refused(bert, tmp_path, change, message):
    moving = Negatives(words(40), InBatch() + BM25(1))
    with pytest.raises(BadInput, match=message):
        moving.attach(change(trainer_of(bert, tmp_path, moving), moving))


def _set(trainer, **values):
    for name, value in values.items():
        setattr(trainer, name, value)
    return trainer


def _loss(name):
    from sentence_transformers import losses

    return getattr(losses, name)


def test_a_loss_around_one_within_the_batch_is_known(bert):
    model = open_model(bert)
    inner = _loss("CachedMultipleNegativesRankingLoss")(model)
    check_loss({"pairs": _loss("MatryoshkaLoss")(model, inner, [8, 4])}, in_batch=True)
    check_loss(lambda features, labels: torch.zeros(1), in_batch=True)  # the user's own


@pytest.mark.parametrize(
    ("rows", "column"), [("tuples", "negative_1"), ("labelled_pairs", "label"), ("lists", "labels")]
)  # fmt: skip
def test_a_column_that_negatives_would_replace_is_refused(bert, tmp_path, rows, column):
    moving = Negatives(words(40), BM25(1), rows=rows)
    trainer = trainer_of(bert, tmp_path, moving)
    data = moving.dataset.add_column(column, ["own"] * len(moving.dataset))
    _set(trainer, train_dataset=data, loss=torch.nn.Identity())
    with pytest.raises(BadInput, match=f"train_dataset: has a column {column}, which negatives would replace"):
        moving.attach(trainer)


def test_other_columns_stay_in_lists():
    assert lists([{"query": "q", "positive": "p", "note": "own"}], [["n"]])[0]["note"] == "own"


@pytest.mark.parametrize(
    ("loss", "rows", "message"),
    [
        ("MultipleNegativesRankingLoss", "labelled_pairs", r'does not read labelled_pairs; give .*rows="tuples"'),
        ("TripletLoss", "labelled_pairs", r'does not read labelled_pairs; give .*rows="tuples"'),
        ("CoSENTLoss", "tuples", r'does not read tuples; give Negatives\(…, rows="labelled_pairs"\)'),
        ("OnlineContrastiveLoss", "lists", r'does not read lists; give .*rows="labelled_pairs"'),
        ("MarginMSELoss", "tuples", "learns from a teacher's scores, which rows with moving negatives lack"),
    ],
)
def test_a_loss_that_reads_other_rows_is_refused(bert, tmp_path, loss, rows, message):
    moving = Negatives(words(40), BM25(1), rows=rows)
    trainer = trainer_of(bert, tmp_path, moving)
    with pytest.raises(BadInput, match=f"{loss} {message}"):
        moving.attach(_set(trainer, loss=_loss(loss)(trainer.model)))


@pytest.mark.parametrize(
    ("loss", "rows", "read"),
    [("MultipleNegativesRankingLoss", "labelled_pairs", "tuples"), ("ListNetLoss", "tuples", "lists"),
     ("BinaryCrossEntropyLoss", "tuples", "labelled_pairs")],
)  # fmt: skip
def test_a_rerankers_loss_that_reads_other_rows_is_refused(reranker, loss, rows, read):
    from sentence_transformers import CrossEncoder
    from sentence_transformers.cross_encoder import losses

    made = getattr(losses, loss)(CrossEncoder(str(reranker), device="cpu", num_labels=1))
    check_loss(made, read)
    with pytest.raises(BadInput, match=f'rows: {loss} does not read {rows}; give .*rows="{read}"'):
        check_loss(made, rows)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rows": "triplets"}, "Negatives: rows is 'triplets'; choose tuples, labelled_pairs or lists"),
        ({"refresh": 3}, "refresh: the dense function has a refresh of its own; leave it out"),
        ({"encode": torch.nn.Identity()}, "encode: is a model; give it as model="),
        ({"encode": lambda texts: texts}, r"encode: too many positional arguments; define it as encode\(texts, kind\)"),
        ({"model": "all-MiniLM-L6-v2"}, "model: str has no vectors of texts"),
    ],
)
def test_arguments_that_cannot_be_meant_are_refused(options, message):
    with pytest.raises(BadInput, match=message):
        Negatives(words(40), Dense(1, refresh=5), **options)


@pytest.mark.parametrize(
    ("read", "message"),
    [
        (lambda texts: None, "encode: returned nothing; return one vector of finite numbers per text"),
        (lambda texts: np.full((len(texts), 2), np.nan), "encode: returned NaN or infinite numbers; return one vector"),
        (lambda texts: torch.full((len(texts), 2), torch.inf), "encode: returned NaN or infinite numbers"),
        (lambda texts: [[1.0]] * (len(texts) - 1) + [[1.0, 2.0]], "encode: returned a list that is no array"),
        (lambda texts: np.ones(len(texts)), r"encode: returned an array of shape \(1,\) for 1 texts"),
    ],
)
def test_what_encode_must_not_return_is_one_line(read, message):
    negatives = Negatives(words(40), Dense(1, refresh=Refresh("sync")), encode=lambda texts, kind: read(texts))
    encoder = negatives._encoder
    with pytest.raises(BadInput, match=message):
        encoder._read(["w1", "w2"] if "list" in message else ["w1"], "document")


@pytest.mark.parametrize("dense", [[], [Dense(0, refresh=1)]])
def test_negatives_of_the_batch_alone_need_no_index(bert, tmp_path, dense):
    moving = Negatives(words(40), sum(dense, InBatch()))
    assert str(moving.report()).startswith("no batch has been served: attach the trainer before it trains\n")
    trainer = trainer_of(bert, tmp_path, moving, max_steps=2)
    moving.attach(trainer)
    trainer.train()
    assert moving._index is None
    assert str(moving.report()).startswith("2 batches have the negatives of the batch alone\n")


def test_remedies_are_arguments_of_python():
    remedy = r'as options=\{"sampling.negatives": 8\}, or choose options=\{"policy": "fixed"\}'
    with pytest.raises(BadInput, match=remedy):
        Negatives(words(20), Schedule(Random(), BM25(1)))


def test_the_report_says_which_pairs_are_trained_on():
    data = [*words(20), {"query": "w1", "positive": ""}]
    moving = Negatives(data, BM25(1), options={"strict": False})
    counts, skipped = moving.report().data
    assert f"→ train {len(moving.dataset)}, dev 2, test 2" in counts
    assert skipped == "skipped in pairs: 1 × empty text"
    assert str(moving.report()).endswith(f"{counts}\n{skipped}")


ORPHAN = """
import sys, tempfile, time
from pathlib import Path
from pyrite import Dense
from pyrite.torch import Negatives
from pyrite.torch.builders import BuildBeside
from pyrite.torch.moving_index import MovingIndex
from tests.pyrite_torch.tiny_trainer import open_model, pairs
negatives = Negatives(pairs(), Dense(1, refresh=1), model=open_model(Path(sys.argv[1])))
batch = next(iter(negatives))
print(negatives._index.builder.process.pid, flush=True)
time.sleep(600)
"""


@pytest.mark.nightly
def test_the_process_beside_ends_with_a_trainer_that_is_killed(bert):
    command = [sys.executable, "-c", ORPHAN, str(bert)]
    trainer = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2])
    assert trainer.stdout is not None
    beside = int(trainer.stdout.readline())
    os.kill(beside, 0)
    trainer.send_signal(signal.SIGKILL)
    trainer.wait()
    assert ends(beside)


def train_without_builder(bert: Path, out: Path, killed: int) -> Negatives:
    """Train with `async`; the process beside is killed before a step."""
    from transformers import TrainerCallback

    class Kill(TrainerCallback):
        def on_step_begin(self, args, state, control, **rest):
            if state.global_step == killed:
                builder = moving._index.builder
                builder.process.kill()
                builder.watch.join()

    dense = InBatch() + Dense(1, refresh=Refresh("async", every=1), pick=Top())
    moving = Negatives(pairs(), dense)
    train(bert, out, Refresh(), negatives=moving, prepare=lambda trainer: trainer.add_callback(Kill()))
    return moving


@pytest.mark.nightly
def test_a_failed_build_ends_an_async_training(bert, tmp_path):
    with pytest.raises(RuntimeError, match="could not be built: its process ended with status -9"):
        train_without_builder(bert, tmp_path, 1)
    assert max(int(path.stem) for path in (tmp_path / "negatives" / "index").glob("weights/*")) <= 1


@pytest.mark.nightly
def test_a_build_that_fails_after_the_last_batch_leaves_the_training_whole(bert, tmp_path):
    moving = train_without_builder(bert, tmp_path, 5)
    assert len(served(moving)) == 6
    assert not (tmp_path / "negatives" / "index").exists()


def test_a_process_beside_that_has_failed_gets_no_weights_and_is_closed(bert, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "executable", "/bin/false")
    index = MovingIndex(encoder_of(open_model(bert), None), Refresh("async", every=1), {})
    index.served = index.service(tmp_path / "index", trainer_loader())
    folder = index.served.folder
    folder.version_path(0).mkdir(parents=True)
    folder.write("newest.json", {"step": 0})
    index.builder = builder = BuildBeside(index.encoder, None, folder, "cpu")
    builder.watch.join()
    index.after_step(1, lambda step: {})
    assert not folder.weights_path(1).exists()
    assert folder.wait(0)[0] == 0
    with pytest.raises(RuntimeError, match="could not be built: its process ended with status 1"):
        folder.wait(None)
    builder.publish_saved(1)
    index.close()
    assert not folder.path.exists()


def test_a_loop_of_ones_own_gets_dense_negatives(bert):
    model = open_model(bert)
    for given in ({"model": model}, {"encode": lambda texts, kind: model.encode(texts)}):
        negatives = Negatives(pairs(), Dense(1, refresh=Refresh("sync", every=2), pick=Top()), **given)
        versions = []
        for batch in negatives:
            versions.append(negatives.training.service.step)
            assert all(text for row in batch.documents for text in row)
        assert versions == [step // 2 * 2 for step in range(len(versions))]
        negatives.close()
    with pytest.raises(BadInput, match=r"give Negatives\(…, model=…\)"):
        next(iter(Negatives(pairs(), Dense(1))))


def test_the_trainers_model_is_indexed_if_none_is_given(bert, tmp_path):
    moving = Negatives(words(40), Dense(1, refresh=Refresh("sync", every=1)))
    moving.attach(trainer_of(bert, tmp_path, moving))
    assert moving._index is not None
    assert moving._index.encoder.prompts == {"query": "", "document": ""}


def test_the_index_follows_the_model_of_each_trainer(bert, tmp_path):
    moving = Negatives(words(40), Dense(1, refresh=Refresh("sync", every=1)))
    for name in ("first", "second"):
        trainer = trainer_of(bert, tmp_path / name, moving)
        moving.attach(trainer)
        assert moving._index is not None
        assert moving._index.encoder.model is trainer.model


def test_a_model_that_the_trainer_does_not_train_is_refused_unless_it_stands_still(bert, tmp_path):
    other = open_model(bert)
    moving = Negatives(words(40), Dense(1, refresh=1), model=other)
    with pytest.raises(BadInput, match="model: the trainer trains another model"):
        moving.attach(trainer_of(bert, tmp_path, moving))
    still = Negatives(words(40), Dense(1, refresh=Refresh("never")), model=other)
    still.attach(trainer_of(bert, tmp_path, still))
    assert still._index is not None
    assert still._index.encoder.model is other


@pytest.mark.parametrize("refresh", [Refresh("sync", every=2), Refresh("never"), Refresh(every=2, lag=5)])
def test_a_loop_goes_on_after_its_index_was_closed(bert, in_thread, refresh):
    dense = Dense(1, refresh=refresh, pick=Top())
    negatives = Negatives(pairs(16), dense, model=open_model(bert), options={"training.batch_size": 2})
    steps = [batch.step for batch in negatives]
    negatives.close()
    steps += [batch.step for batch in negatives]
    assert steps == list(range(2 * len(negatives)))
    negatives.close()


def test_a_loop_that_was_left_goes_on_with_the_version_of_its_last_step(bert, in_thread):
    dense = Dense(1, refresh=Refresh("sync", every=1), pick=Top())
    negatives = Negatives(pairs(16), dense, model=open_model(bert), options={"training.batch_size": 2})
    assert next(iter(negatives)).step == 0
    assert [(batch.step, negatives.training.service.step) for batch in negatives][:2] == [(1, 1), (2, 2)]
    negatives.close()


@pytest.mark.nightly
def test_the_index_of_a_loop_ends_with_the_negatives(bert):
    negatives = Negatives(pairs(), Dense(1, refresh=1), model=open_model(bert))
    next(iter(negatives))
    process, folder = negatives._index.builder.process, negatives._temporary
    assert folder.exists()
    del negatives
    gc.collect()
    assert process.poll() is not None
    assert not folder.exists()


def test_async_builds_the_newest_of_the_weights_that_wait(bert, tmp_path, monkeypatch):
    """A build may take longer than the steps between two publications: it must not fall behind further and further."""
    begun, go, built = threading.Event(), threading.Event(), []

    def build(self, encoder, texts, step):
        built.append(step)
        begun.set()
        assert go.wait(60)
        self.version_path(step).mkdir(parents=True)
        self.write("newest.json", {"step": step})

    monkeypatch.setattr(VersionFolder, "build", build)
    monkeypatch.setattr(builders, "subprocess", SimpleNamespace(Popen=InThread, PIPE=-1))
    for mode, expected in (("async", [0, 4]), ("lagged", [0, 1, 2, 3, 4])):
        index = MovingIndex(encoder_of(open_model(bert), None), Refresh(mode, every=1), {})
        index.served = index.service(tmp_path / mode, trainer_loader())
        folder = index.served.folder
        index.builder = builder = BuildBeside(index.encoder, None, folder, "cpu")
        builder.publish(0)
        assert begun.wait(60)
        for step in range(1, 5):
            builder.publish(step)
        go.set()
        folder.wait(4)
        assert built == expected
        if mode == "async":
            assert [path.stem for path in sorted(folder.path.glob("weights/*"))] == ["000000000", "000000004"]
            go.clear()  # the version of step 5 is not built yet
            index.after_step(5, lambda step: {})
            assert folder.version_path(0).exists()  # a process may be about to open the one before the newest
            go.set()
        index.close()
        begun.clear(), go.clear(), built.clear()


def test_the_process_beside_ends_quietly_if_its_folder_was_deleted(bert, tmp_path):
    folder = VersionFolder(tmp_path / "deleted")
    start = cloudpickle.dumps((encoder_of(open_model(bert), None), None, folder, "cpu", 1, os.getppid()))
    content = b"".join(len(each).to_bytes(8, "big") + each for each in (start, b"3"))
    followed = list[int]()
    beside.build_versions(io.BytesIO(content), followed.append)
    assert followed == [os.getppid()]
    assert not folder.path.exists()


def test_use_follows_another_model_in_a_loop(bert):
    first, second = open_model(bert), open_model(bert)
    negatives = Negatives(pairs(16), Dense(1, refresh=Refresh("sync", every=2), pick=Top()), model=first)
    list(negatives)
    with torch.no_grad():
        for weight in second.parameters():
            weight.normal_()
    batch = next(iter(negatives.use(model=second)))
    texts = negatives.collection.documents["text"].to_list()
    scores = second.similarity(second.encode(batch.queries), second.encode(texts))
    for row, (positive, shown) in zip(scores.tolist(), batch.documents, strict=True):
        assert shown == max((text for text in texts if text != positive), key=lambda text: row[texts.index(text)])
    negatives.close()


def test_negatives_inherit_the_prompt_of_the_positive(bert, tmp_path):
    prompts = {"query": "w1 ", "positive": "w2 "}
    moving = Negatives(words(40), Dense(2, refresh=Refresh("sync", every=1)))
    trainer = trainer_of(bert, tmp_path, moving, prompts=prompts)
    moving.attach(trainer)
    assert trainer.data_collator.prompts == prompts | {"negative_1": "w2 ", "negative_2": "w2 "}
    assert moving._index is not None
    assert moving._index.encoder.prompts == {"query": "w1 ", "document": "w2 "}


def test_a_collator_that_is_sent_to_another_process_serves_the_same(bert, tmp_path):
    moving = Negatives(words(40), BM25(1))
    trainer = trainer_of(bert, tmp_path, moving)
    moving.attach(trainer)
    negatives = moving._callback.negatives
    rows = [dict(row) for row in moving.dataset.select(range(6))]
    assert pickle.loads(pickle.dumps(negatives)).rows(rows, 3) == negatives.rows(rows, 3)
    alone = [negatives.rows([row], 3)[0] for row in rows]
    positives = {row["positive"] for row in rows}
    same = [one == of_batch or one["negative_1"] in positives for one, of_batch in
            zip(alone, negatives.rows(rows, 3), strict=True)]  # fmt: skip
    assert all(same)  # a pair's draw does not depend on its batch


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ("labelled_pairs", {"query", "positive", "label"}),
        ("lists", {"query", "positive", "labels"}),
    ],
)
def test_rows_have_the_form_that_a_loss_reads(bert, tmp_path, form, expected):
    moving = Negatives(words(40), BM25(2), rows=form)
    moving.attach(_set(trainer_of(bert, tmp_path, moving), loss=torch.nn.Identity()))
    rows = moving._callback.negatives.rows([dict(moving.dataset[0])], 0)
    assert set(rows[0]) == expected
    assert (
        [row["label"] for row in rows] == [1.0, 0.0, 0.0] if form == "labelled_pairs" else len(rows[0]["labels"]) == 3
    )


TRANSFORMED = {
    "positive_passages": (lambda text: [{"docid": "1", "title": "", "text": text}], "negative_passages"),
    "pos": (lambda text: [text], "neg"),
    "pos_doc": (lambda text: text, "neg_doc"),
    "positive": (lambda text: text, "negative"),
}


@pytest.mark.parametrize("column", TRANSFORMED)
def test_a_transform_adds_negatives_of_the_newest_version(bert, column):
    from datasets import Dataset

    written, negative = TRANSFORMED[column]
    model = open_model(bert)
    dense = Dense(2, refresh=Refresh("async", every=1))
    moving = Negatives(words(40), dense, encode=lambda texts, kind: model.encode(texts))
    rows = {"query": moving.dataset["query"][:4], column: [written(text) for text in moving.dataset["positive"][:4]]}
    data = Dataset.from_dict(rows).with_transform(moving.transform)
    read = data[:4]
    assert all(len(row) == 2 for row in read[negative])
    assert len(data[1][negative]) == 2
    lagged = Negatives(words(40), Dense(1, refresh=1), model=open_model(bert))
    with pytest.raises(BadInput, match="they get the newest version"):
        _ = lagged.transform
    moving.close()


OWN_ROWS = {
    "pos": lambda title, text: {"pos": [text], "neg": []},
    "positive_passages": lambda title, text: {
        "positive_passages": [{"docid": text.strip(), "title": title, "text": text}], "negative_passages": [],
    },
}  # fmt: skip
"""By column of positives, a row of a trainer's own file without its query."""


def write_own(folder, column):
    """Files of a trainer's own rows, as users write them: with blanks, in decomposed letters, with a prompt."""
    folder.mkdir()
    for first, split in ((0, "train"), (40, "dev"), (50, "test")):
        rows = [
            {
                "query": f"Wo ist  Cafe\u0301 {number} ",
                "prompt": "Find: ",
                **OWN_ROWS[column]("Straße", f"e\u0301 {number}\n"),
            }
            for number in range(first, first + (40 if split == "train" else 10))
        ]
        (folder / f"{split}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return folder


@pytest.mark.parametrize("column", OWN_ROWS)
def test_a_transform_reads_the_trainers_own_file(tmp_path, own_cache, column):
    from datasets import load_dataset

    folder = write_own(tmp_path / "rows", column)
    moving = Negatives(folder, Random(2))
    train, dev = (
        load_dataset("json", data_files=str(folder / f"{split}.jsonl"), split="train", cache_dir=str(tmp_path / "hub"))
        for split in ("train", "dev")
    )
    read = train.with_transform(moving.transform)[:]
    assert [len(row) for row in read[TRANSFORMED[column][1]]] == [2] * 40
    found = moving._transformed.pairs.find([("wo ist café 7", moving.dataset["positive"][7])], of_files=True)
    assert found.tolist() == [7]
    with pytest.raises(BadInput, match="is of a query that is kept for validation or test; bring files named train"):
        moving.transform(dev[:])


def test_queries_that_differ_in_case_alone_keep_their_own_pairs():
    pairs = TextPairs(["US", "us", "Find: them"], ["a", "a", "b"], ["US", "us", "them"], ["other"])
    assert pairs.find([("us", "a"), ("US", "a"), ("Us", "a"), ("them ", "b")], of_files=True).tolist() == [1, 0, 0, 2]
    with pytest.raises(BadInput, match=r"the row of 'them' is no pair of negatives.dataset; give the trainer"):
        pairs.find([("them", "c")], of_files=True)
    with pytest.raises(BadInput, match=r"the row of 'Us' is no pair of negatives.dataset"):
        pairs.find([("Us", "a")])


def test_a_second_training_with_a_transform_forgets_the_first_ones_rows(tmp_path):
    shown = ShownFiles(tmp_path)
    for batch in (-1, 0, 1):
        shown.append("0-0", {"batch": batch})
    shown.drop_from(1)
    assert [line["batch"] for line in shown.lines()] == [-1, 0]
    shown.drop_from(0)
    assert not shown.lines()


def test_a_weight_that_is_frozen_later_is_sent_with_its_last_value(bert):
    encoder = encoder_of(open_model(bert), None)
    name, weight = next(iter(encoder.named_parameters()))
    frozen, rest = next(reversed([*encoder.named_parameters()]))
    rest.requires_grad_(False)
    assert name in encoder.trained_weights()
    assert frozen not in encoder.trained_weights()
    weight.requires_grad_(False)
    assert name in encoder.trained_weights()


@pytest.mark.parametrize("workers", [0, 2])
def test_a_transform_draws_again_in_each_epoch_and_the_same_for_the_same_seed(workers):
    epochs = []
    for _ in range(2):
        moving = Negatives(words(40), Random(2))
        loader = DataLoader(moving.dataset.with_transform(moving.transform), 8, num_workers=workers, collate_fn=list)
        epochs.append([[row["negative"] for rows in loader for row in rows] for _ in range(3)])
    assert epochs[0] == epochs[1]
    assert all(one != other for one, other in itertools.combinations(epochs[0], 2))
    assert len({tuple(rows[0]) for rows in epochs[0]}) > 1


def test_scores_of_a_loop_are_refused_in_a_trainer(bert, tmp_path):
    data = [Negatives(words(40), Random(1, pick=SimANS()), score=lambda queries, documents: 0) for _ in range(2)]
    with pytest.raises(BadInput, match=r"^score: score= is for a loop.*; leave it out$"):
        data[0].attach(trainer_of(bert, tmp_path, data[0]))
    with pytest.raises(BadInput, match="score= is for a loop"):
        _ = data[1].transform


def test_the_version_of_a_transform_is_logged(bert, tmp_path):
    model = open_model(bert)
    dense = Dense(1, refresh=Refresh("async", every=1))
    moving = Negatives(words(64), dense, encode=lambda texts, kind: model.encode(texts))

    def flat(columns):
        rows = moving.transform(columns)
        return {**columns, "negative_1": [texts[0] for texts in rows["negative"]]}

    trainer = trainer_of(bert, tmp_path, moving, max_steps=4, logging_steps=1, per_device_train_batch_size=8)
    trainer.train_dataset = moving.dataset.with_transform(flat)
    moving.attach(trainer, collator=False)
    trainer.train()
    logged = [line for line in trainer.state.log_history if "negatives_version" in line]
    assert [line["negatives_version"] for line in logged] == [0, 1, 2, 3]
    assert [line["negatives_lag"] for line in logged] == [1, 1, 1, 1]
