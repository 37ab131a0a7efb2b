"""Runs `pyrite rank`: ranks a collection, or the candidates of a first stage, into a TREC run.

It writes files and no folder, so it is no `commands.experiment.Verb`: the run, and next to it the judgements of its
queries, as `pyrite evaluate` reads them. A file is written whole at the end: one that exists is complete, and an
interrupted command is started again. Nothing is random: the same ranker and collection give the same lines.
"""

from __future__ import annotations

import argparse
import gzip
import io
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from rich.console import Console
from rich.markup import escape

from pyrite.analysis.reports.report import Table
from pyrite.cluster.config.build import build
from pyrite.cluster.config.compose import compose, texts_config
from pyrite.cluster.config.override import key_of
from pyrite.cluster.output.storage import Storage, new_place
from pyrite.cluster.output.terminal import counted, print_counts, print_lines
from pyrite.cluster.runs.artifacts import Artifacts
from pyrite.cluster.runs.cut_checkpoints import cut_of_node, only_cut
from pyrite.cluster.runs.trained import precision_line, read_ranker
from pyrite.cluster.runs.what_was_read import cut_words
from pyrite.cluster.telemetry.reading_line import reading_shown
from pyrite.cluster.telemetry.silence_line import silence_shown
from pyrite.pooling.judging.topics import read_topics
from pyrite.ranking.collections.build import STORED
from pyrite.ranking.collections.collection import Collection
from pyrite.ranking.collections.faults import Faults
from pyrite.ranking.encoding import EncodedCollection, Encoder
from pyrite.ranking.errors import refuse
from pyrite.ranking.evaluation.evaluation import Evaluation
from pyrite.ranking.evaluation.measures import parse
from pyrite.ranking.evaluation.origins import Candidates, without_repeats
from pyrite.ranking.full_ranking import rank_all, rank_candidates
from pyrite.ranking.ranked_lists import RankedLists
from pyrite.ranking.sources import Sources
from pyrite.ranking.threads import threads
from pyrite.ranking.trec_files import check_collection, check_ids, judged_name, write_qrels, write_run
from pyrite.ranking.vectors import WordVectors


def run_verb(chosen: argparse.Namespace, console: Console) -> int:
    """Run `pyrite rank`."""
    rank(chosen.overrides, console)
    return 0


def rank(arguments: Sequence[str], console: Console) -> str:
    """Rank, write the run, and return its path or URI."""
    config = compose(arguments, "rank")
    refuse(len(config["origin"]) != 1, "a run ranks the candidates of one origin", "origin", "name one")
    for measure in config["measures"]:
        parse(measure)
    refuse(
        config["topics"] and "queries" in map(key_of, arguments),
        "are the queries",
        "topics",
        "leave queries= out",
    )
    storage, name = _output(config["out"])
    of_split = config["queries"] if "queries" in map(key_of, arguments) else None
    with threads(config["cpu"]), silence_shown(console):
        _write(config, storage, name, console, of_split)
    return storage.path(name) if storage.local else storage.uri(name)


def _write(config: dict[str, Any], storage: Storage, name: str, console: Console, of_split: str | None) -> None:
    """Rank and write the run; refuse a split that is asked for by name if the collection has none."""
    trained = read_ranker(config["checkpoint"], config["ranker"], precision=config["precision"])
    sources = _sources(config, config["relevant_from"] or trained.relevant_from, console)
    collection, encoded = sources.collection, sources.encoded
    what = f"has no {of_split} split: its queries are cross-validated"
    unsplit = of_split not in (None, "all") and not (encoded.split >= 0).any()
    refuse(unsplit, what, collection.name, "queries=all ranks for all of them")
    queries = _queries(encoded, config["queries"])
    tag = config["tag"] or re.sub(r"\s+", "_", name.split(".")[0])
    _check_names(collection, queries, tag)
    judged = _judgements(collection, queries)
    qrels = judged_name(name)
    other = judged and storage.read(qrels) not in (None, judged)
    refuse(other, "already exists, with other judgements", storage.uri(qrels), "choose another out=, or delete it")
    cut = cut_of_node(trained.options, trained.options.get("checkpoint"))
    read = trained.read(collection, encoded)
    words = cut_words(read, trained.encoding) if trained.encoding else ""
    lines = [only_cut(cut), words, precision_line(trained.ranker)]
    print_lines(console, *filter(None, lines))
    (node,) = config["origin"].values()
    candidates = build(node, "origin", trust="composed").of(sources, queries)
    split = "" if len(queries) == len(encoded.queries) else f"{config['queries']} "
    print_lines(console, f"ranking for {counted(len(queries), f'{split}query')} …")
    with reading_shown(console):
        lists = _named(_ranked(trained.ranker, read, candidates, config["depth"]), encoded, queries)
    present = lists.documents >= 0
    what = f"none of {counted(len(queries), 'query')} has a candidate, so the run would be empty"
    refuse(not present.any(), what, "origin", "does it have documents for these queries (queries=, topics=)?")
    content = as_run(lists, collection, queries, tag)
    storage.write_data(name, gzip.compress(content, mtime=0) if name.endswith(".gz") else content)
    counts = f"{counted(int(present.sum()), 'line')} of {counted(len(queries), 'query')}"
    console.print(f"{counts} over {collection.name} ({collection.fingerprint})", markup=False)
    print_counts(console, {"queries without a candidate, which get no line": int((~present.any(axis=1)).sum())})
    if len(encoded.judgements.documents):
        answered = encoded.judgements.answered()[queries]
        print_counts(console, {"queries without a relevant document (not measured)": int((~answered).sum())})
        if answered.any():
            of_answered = encoded, lists.take(np.flatnonzero(answered)), candidates.take(queries[answered])
            console.print(_measured(config["measures"], *of_answered, _caption(cut, encoded)), crop=False)
        _print_cut_lists(config, lists, collection.size, console)
    print_lines(console, f"run: {storage.shown(name)}")
    if judged:
        storage.write_data(qrels, judged)
        least = encoded.judgements.relevant_from
        graded = [f"relevant_from={least}"] * (least > 1)
        command = shlex.join(["pyrite", "evaluate", storage.shown(name), storage.shown(qrels), *graded])
        print_lines(console, f"judgements: {storage.shown(qrels)}", *[f"  {command}"] * storage.local)


def _judgements(collection: Collection, queries: NDArray[np.int64]) -> bytes:
    """Return the judgements of the queries that are ranked as TREC's lines; empty if there are none."""
    ranked = collection.queries["id"].gather(queries.astype(np.uint32))
    content = io.BytesIO()
    write_qrels(content, collection.judgements.filter(pl.col("query").is_in(ranked.implode())), collection.name)
    return content.getvalue()


def _caption(cut: str, encoded: EncodedCollection) -> str:
    """Return what the table of measures says if the checkpoint is cut, or grade 1 is not relevant."""
    least = encoded.judgements.relevant_from
    return "; ".join([f"with {cut}"] * bool(cut) + [f"relevant from grade {least} on"] * (least > 1))


def _texts(config: Mapping[str, Any], relevant_from: int) -> dict[str, Any]:
    """Return the configuration by which the collection is read; `encoding` is that of the topics."""
    of_texts = {key: value for key, value in config.items() if key != "encoding"}
    run = texts_config(of_texts | {"vectors": {"_target_": "pyrite.ranking.vectors.RandomVectors"}})
    return run | {"encoding": run["encoding"] | {"relevant_from": relevant_from}}


def _sources(config: dict[str, Any], relevant_from: int, console: Console) -> Sources:
    """Read the collection, with the topics instead of its queries if some are given."""
    artifacts = Artifacts(lambda line: console.print(f"[dim]{escape(line)} …[/]"))
    run = _texts(config, relevant_from)
    collection, encoded = artifacts.collection(run), artifacts.part(run, "base").encoded
    if config["topics"]:
        collection = _with_topics(collection, config, console)
        encoded = Encoder(min_count=1).encode(collection)[0]
    return Sources(collection, encoded, WordVectors(np.zeros((1, 1), np.float32), np.zeros(1, bool)))


def _print_cut_lists(config: Mapping[str, Any], lists: RankedLists, size: int, console: Console) -> None:
    """Say which measures look deeper than the lists, if one was cut."""
    depth = config["depth"]
    deeper = [name for name in config["measures"] if (parse(name).cutoff or np.inf) > depth]
    if deeper and depth < size and (lists.documents[:, depth - 1 :] >= 0).any():
        first = counted(depth, "document")
        print_lines(console, f"depth={depth}: of the run, the first {first} count for {', '.join(deeper)}")


def _output(out: str | None) -> tuple[Storage, str]:
    out = out or f"{new_place('rank')}.run"
    folder, _, name = out.rpartition("/")
    refuse(not name, "a run is a file", out, "give out=FOLDER/NAME.run")
    refuse(os.path.isdir(out), "is a folder, and a run is a file", out, f"give out={out}/NAME.run")
    storage = Storage(folder or ("/" if out.startswith("/") else "."))
    refuse(storage.read(name) is not None, "already exists", out, "choose another out=, or delete it")
    return storage, name


def _with_topics(collection: Collection, config: dict[str, Any], console: Console) -> Collection:
    """Return the collection with other queries, which have no judgements."""
    faults = Faults(config["strict"])
    texts = read_topics(config["topics"], config["encoding"], faults)
    check_ids(pl.Series(list(texts)), "topic", config["topics"])
    queries = {name: text.title or text.description for name, text in texts.items()}
    counts = faults.skipped | {"topics without a text": sum(not it for it in queries.values())}
    print_counts(console, counts)
    rows = [(name, text, None, None, None) for name, text in queries.items()]
    frame = pl.DataFrame(rows, schema=dict.fromkeys(STORED["queries"], pl.String), orient="row")
    return collection.changed(queries=frame, judgements=collection.judgements.clear())


def _queries(encoded: EncodedCollection, split: str) -> NDArray[np.int64]:
    if split == "all" or not (encoded.split >= 0).any():
        return np.arange(len(encoded.queries))
    return encoded.queries_of(split)


def _ranked(ranker: Any, encoded: EncodedCollection, candidates: Candidates, depth: int) -> RankedLists:
    if candidates.documents is not None:
        return rank_candidates(ranker, encoded, candidates.queries, candidates.documents, depth)
    lists = RankedLists.empty(len(candidates.queries), depth)
    for rows, space in candidates.spaces(encoded):
        queries, itself = candidates.queries[rows], encoded.own_documents(candidates.queries[rows])
        part = rank_all(ranker, encoded, queries, depth + itself.shape[1], space)
        part = without_repeats(part, encoded, queries)
        lists.documents[rows], lists.scores[rows] = part.documents[:, :depth], part.scores[:, :depth]
    return lists


def _named(lists: RankedLists, encoded: EncodedCollection, queries: NDArray[np.integer]) -> RankedLists:
    """Return the lists with the judged one of merged documents, and documents of one score by their ids."""
    documents = encoded.judged_copies(queries, lists.documents)
    order = np.lexsort((-encoded.document_key[np.maximum(documents, 0)], -lists.scores), axis=1)
    return RankedLists(np.take_along_axis(documents, order, 1), np.take_along_axis(lists.scores, order, 1))


def as_run(lists: RankedLists, collection: Collection, queries: NDArray[np.integer], tag: str) -> bytes:
    """Return the lists as a TREC run; refuse ids and a tag with a blank, which this form can't hold."""
    rows, ranks = np.nonzero(lists.documents >= 0)
    run = pl.DataFrame({
        "query": collection.queries["id"].gather(np.asarray(queries)[rows].astype(np.uint32)),
        "document": collection.gather("id", lists.documents[rows, ranks]),
        "rank": 1 + ranks,
        "score": lists.scores[rows, ranks],
        "tag": pl.repeat(tag, len(rows), eager=True),
    })  # fmt: skip
    content = io.BytesIO()
    write_run(content, run, "out")
    return content.getvalue()


def _check_names(collection: Collection, queries: NDArray[np.integer], tag: str) -> None:
    """Refuse ids that a run can't hold, before anything is ranked."""
    check_ids(pl.Series([tag]), "tag", "tag")
    check_collection(collection, queries)


def _measured(
    measures: Sequence[str],
    encoded: EncodedCollection,
    lists: RankedLists,
    candidates: Candidates,
    caption: str,
) -> Table:
    """Return the measures of the run next to those of the first stage."""
    evaluation = Evaluation(encoded, candidates, measures)
    columns = evaluation.evaluator(evaluation.grades_of(lists.documents)), evaluation.of_bm25()
    rows = [[measure, *(f"{float(values[measure].mean()):.4f}" for values in columns)] for measure in measures]
    return Table(["measure", "run", "first stage"], rows, caption=caption)
