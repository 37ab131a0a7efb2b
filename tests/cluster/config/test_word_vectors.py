"""Word vectors are read by the parts that read them, and nothing else asks for them."""

import io

import pytest
from rich.console import Console

from pyrite.cluster.commands.resuming import started
from pyrite.cluster.commands.study import STUDY
from pyrite.cluster.config.compose import compose, texts_config
from pyrite.cluster.config.word_vectors import RANDOM, reads_word_vectors, word_vectors
from pyrite.cluster.runs.artifacts import Artifacts
from pyrite.cluster.runs.execute import run
from pyrite.ranking.vectors import PackagedGlove

ENCODER = ["ranker=bi_encoder", "ranker.checkpoint=FOLDER"]
ELSEWHERE = "tests.cluster.config.test_word_vectors.Elsewhere"


class Elsewhere:
    """A class of a user, which may read anything."""


@pytest.mark.parametrize(
    ("overrides", "reads"),
    [
        (["ranker=feed_forward"], True),
        (["ranker=static"], True),
        (["ranker=match_pyramid"], True),
        (["ranker=static", "ranker.checkpoint=FOLDER"], False),
        (["ranker=dssm"], False),
        (ENCODER, False),
        (["ranker=cross_encoder", "ranker.checkpoint=FOLDER"], False),
        ([*ENCODER, "function=[in_batch,bm25]", "origin=full", "guard.ranker=itself", "guard.relative=0.05"], False),
        ([*ENCODER, "function=[bm25,tfidf]"], True),
        ([*ENCODER, "batches=topic_balanced"], True),
        ([*ENCODER, "policy=learned"], True),
        ([*ENCODER, "function=[]", f"+function.mine._target_={ELSEWHERE}"], True),
        ([*ENCODER, f"batches._target_={ELSEWHERE}"], True),
    ],
)
def test_the_parts_that_read_them(overrides, reads, checkpoint):
    config = compose([text.replace("FOLDER", checkpoint) for text in overrides])
    assert reads_word_vectors(config) == reads
    assert word_vectors(config) == (config["vectors"] if reads else RANDOM)


@pytest.mark.parametrize(("function", "read"), [("bm25", False), ("[bm25,tfidf]", True)])
def test_mining_reads_them_for_its_functions(function, read):
    config = texts_config(compose([f"function={function}"], "mine"))
    assert (config["vectors"]["_target_"] != RANDOM["_target_"]) == read


@pytest.mark.nightly
def test_an_encoder_needs_no_package(base, checkpoint, tmp_path, monkeypatch):
    """Without GloVe nothing is said, with GloVe nothing is read, and the numbers are the same."""
    options = [text for text in base if not text.startswith(("vectors", "ranker.preset"))] + [
        "vectors=glove", "ranker=bi_encoder", f"ranker.checkpoint={checkpoint}", "local=true", "limits.examples=8",
        "training.max_epochs=1", "origin=random", "validation.origin=random", "seeds=1", f"cache={tmp_path / 'cache'}",
    ]  # fmt: skip

    def fail(*arguments):
        raise AssertionError("word vectors are read")

    monkeypatch.setattr(PackagedGlove, "read", fail)
    monkeypatch.setattr(PackagedGlove, "stand_in", fail)
    options += ["encoding.max_document=2"]  # words, which nothing reads
    console = Console(file=io.StringIO(), width=1000)
    experiment = started(STUDY, [*options, f"out={tmp_path / 'study'}"])
    work = experiment.prepare(console)
    config = work.waiting[0].config  # the parts of all are made
    assert run(config, work.artifacts.parts(config)).losses
    said = console.file.getvalue()
    assert " (0 done) over " in said
    assert "GloVe" not in said
    assert "words: " not in said


def test_a_file_that_nothing_reads_is_named(base, checkpoint):
    lines: list[str] = []
    options = ["ranker=bi_encoder", f"ranker.checkpoint={checkpoint}", "vectors=file", "vectors.path=words.txt"]
    config = compose([text for text in base if not text.startswith(("vectors", "ranker"))] + options)
    Artifacts(lines.append).check([config])
    assert lines[-1] == "vectors.path=words.txt is not read: no part of this command reads word vectors"


def test_a_missing_package_is_named_once(base, monkeypatch):
    lines: list[str] = []
    config = compose([text for text in base if not text.startswith("vectors")] + ["vectors.package=nowhere"])
    artifacts = Artifacts(lines.append)
    for _ in range(3):
        artifacts.part(config, "base")
    assert sum("GloVe is not installed" in line for line in lines) == 1
