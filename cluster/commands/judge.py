"""Runs `pyrite judge`: serves a page on which people judge a pool in the order of a method."""

from __future__ import annotations

import argparse
import ipaddress
import json
import os
import shlex
import socket
import webbrowser
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast
from urllib.parse import urlsplit

from rich.console import Console

from pyrite.cluster.commands.first_folder import STARTED_IN, absolute, recorded_folder
from pyrite.cluster.commands.resuming import RESUME, is_automatic
from pyrite.cluster.config.aliases import as_override
from pyrite.cluster.config.build import build
from pyrite.cluster.config.compose import compose
from pyrite.cluster.config.moved import with_present_paths
from pyrite.cluster.config.override import key_of, replaced, values_by_key
from pyrite.cluster.config.trust import from_folder, named_classes, trusting
from pyrite.cluster.output.manifest import refuse_other_files
from pyrite.cluster.output.storage import Storage
from pyrite.cluster.output.terminal import counted, print_counts, print_lines
from pyrite.cluster.pools.sources import fingerprint, shown_progress
from pyrite.pooling.judging import export, export_files, store
from pyrite.pooling.judging.backup import back_up
from pyrite.pooling.judging.documents import pooled, read_texts, write_texts
from pyrite.pooling.judging.folder import private_file
from pyrite.pooling.judging.log_check import check_log
from pyrite.pooling.judging.opening import Judging, open_judging
from pyrite.pooling.judging.options import Options
from pyrite.pooling.judging.topics import read_topics, topics_of
from pyrite.pooling.pool import make_pool, with_machine
from pyrite.pooling.runs import files_of, read_runs
from pyrite.pooling.simulation import needs_of
from pyrite.pooling.terms import with_terms
from pyrite.ranking.bounds import check_arguments
from pyrite.ranking.collections.faults import Faults
from pyrite.ranking.collections.lines import lines
from pyrite.ranking.digest import digest
from pyrite.ranking.errors import BadInput
from pyrite.ranking.trec_files import read_qrels

if TYPE_CHECKING:
    from starlette.applications import Starlette

OVERRIDES = "overrides.json"
OUT = "outputs/judging"
LISTED = 5
"""Topics without a run that a line names."""
OF_A_START = {"out", "host", "hosts", "url", "port", "open_browser"}
"""Options that the folder does not remember, so that access to the page is granted only explicitly."""


def judge(overrides: Sequence[str], console: Console, resume: str | None = None) -> None:
    """Serve the page until it is interrupted.

    Args:
        overrides: overrides of conf/judge.yaml. The folder remembers them. With `resume=auto` a folder that holds
            judgements is resumed.
        resume: a folder whose pool may grow: the runs in `overrides` are added to its runs, and its depth may rise.
    """
    automatic = is_automatic(overrides, resume)
    overrides = [text for text in overrides if key_of(text) != RESUME]
    with from_folder(), trusting(named_classes(overrides)):
        if automatic and _remembered(begun := _folder(overrides)):
            resume, overrides = begun.path(""), [text for text in overrides if key_of(text) != "out"]
        if resume is not None:
            overrides = _grown(resume, overrides)
        storage = _folder(overrides)
        merged = replaced(_remembered(storage), overrides)
        config = compose(merged, "judge") | {"out": storage.path("")}
    if len(config["method"]) > 1:
        raise BadInput(f"{len(config['method'])} methods are given", "method", "a pool is judged in one order")
    if storage.read(OVERRIDES) is None:
        refuse_other_files(storage, own=True)
    listening = listen(config["host"], config["port"])
    judging = _open(config, console, grow=resume is not None)
    remembered = [text for text in merged if key_of(text) not in OF_A_START]
    storage.write(OVERRIDES, json.dumps({STARTED_IN: os.getcwd(), "overrides": remembered}).encode())
    private_file(Path(storage.path(OVERRIDES)))
    bound, port = listening.getsockname()[:2]
    shown = "127.0.0.1" if config["host"] in ("0.0.0.0", "") else config["host"]
    address = f"http://{f'[{shown}]' if ':' in shown else shown}:{port}" if config["url"] is None else config["url"]
    addresses = [f"{address.rstrip('/')}/?token={link.token}" for link in judging.links]
    for link, linked in zip(judging.links, addresses, strict=True):
        label = "your link, as the owner" if link.owner else f"link for {link.assessor or 'assessors'}"
        print_lines(console, f"{label}: {linked}")
    if not ipaddress.ip_address(bound).is_loopback:
        console.print("[yellow]other machines can reach this page over plain HTTP: anyone with a link can use it[/]")
    if config["open_browser"]:
        webbrowser.open(addresses[0])
    try:
        run(judging.app, listening)
    except KeyboardInterrupt:
        pass  # the usual way to end it
    finally:
        judging.store.close()
    print_lines(console, f"Stopped. To continue: {shlex.join(['pyrite', 'judge', f'out={storage}'])}")


def run_verb(chosen: argparse.Namespace, console: Console) -> int:
    """Serve the page, or write the judgements so far."""
    if empty := [name for name in ("export", "backup", "resume") if getattr(chosen, name) == ""]:
        raise BadInput("is empty", f"--{empty[0]}", "name a file or a folder")
    given = [f"--{name}" for name in ("export", "backup", "resume") if getattr(chosen, name)]
    if len(given) > 1:
        what = f"{' and '.join(given)} exclude each other"
        raise BadInput(what, remedy=f"give the folder of {given[0]} by out=FOLDER")
    if chosen.export:
        write_qrels(chosen.overrides, chosen.export, console)
    elif chosen.backup:
        write_backup(chosen.overrides, chosen.backup, console)
    else:
        judge(chosen.overrides, console, chosen.resume)
    return 0


def _grown(folder: str, overrides: Sequence[str]) -> list[str]:
    """Return the overrides for a folder whose pool grows: with its runs and then those that these do not hold."""
    if any(key_of(text) == "out" for text in overrides):
        raise BadInput("out= is given with --resume", remedy="--resume FOLDER is the folder: leave out= out")
    given = [f"out={as_override(folder)}", *overrides]
    stored = _remembered(_folder(given))
    if not stored:
        raise BadInput("no judgements in it", folder, "start with: pyrite judge out=FOLDER runs=…")
    before, after = (compose(texts, "judge")["depth"] for texts in (stored, [*stored, *overrides]))
    if after < before:
        raise BadInput(f"the depth was {before}, and may only rise", f"depth={after}", f"give depth={before} or more")
    if not any(key_of(text) == "runs" for text in overrides):
        return given
    runs: list[str] = []
    for texts in (stored, [*stored, *overrides]):
        paths = compose(texts, "judge")["runs"]
        new = [paths] if isinstance(paths, str) else paths
        inside = {file.resolve() for path in runs for file in files_of(path)}
        runs += [path for path in new if not inside.issuperset(file.resolve() for file in files_of(path))]
    return [*(text for text in given if key_of(text) != "runs"), f"runs={as_override(runs)}"]


def write_qrels(overrides: Sequence[str], path: str, console: Console) -> None:
    """Write the judgements so far (`pyrite judge --export PATH out=FOLDER`), also while the page is served.

    Args:
        overrides: `out`, and `resolve` to use another rule than the page's.
        path: the path of the qrels, in the form of its ending (`pyrite.pooling.judging.export_files`). If documents
            were judged twice, `PATH.disagreements.tsv` is written too. A path that ends in .csv receives a table of all
            judgements, with assessor, time and note.
    """
    storage = _folder(overrides)
    for text in overrides:
        if (key := key_of(text)) not in ("out", "resolve"):
            raise BadInput(f"{key} has no effect on an export", remedy="give out=, and resolve= if you need it")
    as_table = export_files.ending_of(Path(path))[0] == export_files.TABLE
    given = values_by_key(overrides)
    if as_table and "resolve" in given:
        what = "has no effect on a table of all judgements"
        raise BadInput(what, "resolve", "leave it out, or export qrels (no .csv)")
    remembered: dict[str, str] = {}
    with suppress(BadInput):  # an export needs none of the options of the folder, which may be lost
        remembered = values_by_key(_remembered(storage))
    rule = (remembered | given).get("resolve")
    if rule is not None:
        check_arguments(Options, {"resolve": rule})
    options = Options(resolve=cast(export.Rule, rule)) if rule is not None else Options()
    folder = Path(storage.path(""))
    content = store.read(folder)
    check_log(store.events_of(folder), content.settings.get("grades"), folder / store.FILE)
    if as_table:
        export_files.write(Path(path), export.table(content))
        print_lines(console, f"{counted(len(content.judgements), 'judgement')}: {path}")
        return
    disagreements = export.write_qrels(content, options.resolve, Path(path))
    machine = remembered.get("machine", "null")
    if machine != "null":
        model_grades = export.write_machine(content, read_qrels(machine.strip("'\"")), Path(path))
        print_lines(console, f"grades of a model for unjudged documents: {model_grades}")
    judged, known = content.judgements.drop_nulls("grade").n_unique(["topic", "document"]), len(content.known)
    print_lines(console, f"{counted(judged, 'document')} judged, {known:,} known before: {path}")
    if disagreements:
        print_lines(console, f"disagreements of assessors: {disagreements}")


def write_backup(overrides: Sequence[str], path: str, console: Console) -> None:
    """Write a copy of the judgements (`pyrite judge --backup FILE out=FOLDER`), also while the page is served."""
    for text in overrides:
        if (key := key_of(text)) != "out":
            raise BadInput(f"{key} has no effect on a backup", remedy="give out= alone")
    storage = _folder(overrides)
    count = back_up(Path(storage.path("")), Path(path))
    options = storage.path(OVERRIDES)
    print_lines(console, f"{counted(count, 'event')}: {path}")
    print_lines(console, f"To continue from it, copy it into a folder as {store.FILE}, with {options}")


def run(app: Starlette, listening: socket.socket) -> None:
    """Serve an application on a listening socket, until Ctrl-C or SIGTERM."""
    import uvicorn

    # Requests are not logged: the address of the first one holds the token.
    from pyrite.pooling.judging.connection import TimedProtocol

    config = uvicorn.Config(
        app, http=TimedProtocol, access_log=False, log_level="warning", lifespan="off", ws="none", server_header=False,
        timeout_graceful_shutdown=5,
    )  # fmt: skip
    uvicorn.Server(config).run(sockets=[listening])


def _folder(overrides: Sequence[str]) -> Storage:
    # Composed as a study, since required options of this verb may be remembered in the folder.
    out = compose([text for text in overrides if key_of(text) == "out"], "study")["out"] or OUT
    if "://" in out:
        raise BadInput("is not a folder on this machine", out, "SQLite needs one; give another out=")
    return Storage(out)


def _remembered(storage: Storage) -> list[str]:
    content = storage.read(OVERRIDES)
    try:
        saved = json.loads(content) if content else []
        saved = saved if isinstance(saved, dict) else {"overrides": list(saved)}  # a list until version 0.1
        overrides = [with_present_paths(override) for override in saved["overrides"]]
        return absolute(overrides, recorded_folder(saved))
    except (ValueError, TypeError, KeyError):
        raise BadInput("is damaged", f"{storage}/{OVERRIDES}", "delete it, and give the options again") from None


def _open(config: dict[str, Any], console: Console, grow: bool = False) -> Judging:
    options = Options(**{key: config[key] for key in Options.__dataclass_fields__} | {"owners": _owners(config)})
    hosts = [*config["hosts"], config["host"]]
    if config["url"] is not None:
        url = urlsplit(config["url"])
        if url.scheme not in ("http", "https") or not url.hostname:
            what = "is no address of a page"
            raise BadInput(what, f"url={config['url']}", "write it as https://judging.example.org")
        hosts.append(url.hostname)
    faults = Faults(config["strict"])
    topics = None if config["topics"] is None else read_topics(config["topics"], config["encoding"], faults)
    read = partial(read_qrels, faults=faults, encoding=config["encoding"], repeated=config["qrels_repeated"])
    qrels = None if config["qrels"] is None else read(config["qrels"])
    gold = None if config["gold"] is None else read(config["gold"])
    folders = [config["runs"]] if isinstance(config["runs"], str) else config["runs"]
    if Path(config["out"]).resolve() in (Path(folder).resolve() for folder in folders):
        raise BadInput("is the folder of the runs", config["out"], "its files would be read as runs; give another out=")
    with shown_progress(console) as on_progress:
        runs = read_runs(
            config["runs"], config["order"], config["groups"], config["strict"], config["encoding"], config["depth"],
            config["order_precision"], on_progress,
        )  # fmt: skip
        pool = make_pool(runs, None, config["depth"], config["relevant_from"], on_progress=on_progress)
    if config["machine"] is not None:
        pool = with_machine(pool, read(config["machine"]))
    reader = build(config["collection"], "collection", trust="composed")
    of_collection = reader.faults(config["strict"])
    path = Path(config["out"]) / f"documents-{digest([config['collection'], fingerprint(pool)])}.arrow"
    texts = read_texts(path)
    with ExitStack() as refused:
        if texts is None:
            refused.callback(path.unlink, missing_ok=True)
            console.print("[dim]reading the documents …[/]")
            texts = write_texts(path, pooled(reader.read_documents(of_collection), pool))
        if topics is None:
            topics = topics_of(reader.read_queries(of_collection))
        ((named, node),) = config["method"].items()
        method = build(node, f"method.{named}", trust="composed")
        if "texts" in needs_of(method):
            topic_texts = {name: " ".join(filter(None, fields)) for name, fields in topics.items()}
            pool = with_terms(pool, texts, topic_texts)
        console.print("[dim]preparing the order; at the first use of a method it is compiled …[/]")
        judging = open_judging(
            config["out"], pool, method, texts, topics, options,
            of={"pool": fingerprint(pool), "method": f"{named} {json.dumps(node, sort_keys=True)}"},
            qrels=qrels, gold=gold,
            collection=(lambda: reader.read_documents(reader.faults(config["strict"]))) if config["search"] else None,
            stemming=config["stemming"], title=config["title"],
            hosts=hosts, encrypted=str(config["url"]).startswith("https:"), grow=grow,
        )  # fmt: skip
        refused.pop_all()
    documents, runs_pooled = counted(pool.size, "document"), counted(len(pool.runs), "run")
    console.print(f"{counted(len(pool.topics), 'topic')}, {documents} of {runs_pooled} in the pool")
    if config["topics"] is not None and (lacking := sorted(set(topics) - set(runs.topics))):
        named = ", ".join(lacking[:LISTED]) + (", …" if len(lacking) > LISTED else "")
        console.print(f"topics that no run has: {len(lacking):,} ({named})", markup=False)
    skipped = Counter(faults.skipped) + Counter(of_collection.skipped)
    print_counts(console, judging.notes | runs.notes | skipped | faults.notes | of_collection.notes)
    if done := len(judging.session.state.judgements):
        console.print(f"continuing after {counted(done, 'judgement')}")
    return judging


def _owners(config: dict[str, Any]) -> dict[str, str] | Literal["first"] | None:
    """Return the assessor of each topic, from a file with one topic and assessor per line."""
    path = config["owners"]
    if path is None or path == "first":
        return path
    owners: dict[str, str] = {}
    for number, line in lines(path, Faults(), config["encoding"]):
        topic, _, assessor = line.strip().partition("\t")
        if not topic or not assessor.strip():
            raise BadInput("broken line: not a topic, a tab and an assessor", f"{path}:{number}")
        if topic in owners:
            raise BadInput(f"topic {topic} is given twice", f"{path}:{number}")
        owners[topic] = assessor.strip()
    return owners


def listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family)
    except (OSError, OverflowError) as error:
        why = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
        what = f"can't listen on port {port} of {host} ({why})"
        raise BadInput(what, remedy="choose another port= or host=") from None
