"""Runs `pyrite judge`: serves a page on which people judge a pool in the order of a method."""

from __future__ import annotations

import argparse
import ipaddress
import os
import shlex
import socket
import webbrowser
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import uvicorn
from rich.console import Console

from pyrite.cluster.commands.judging_exports import write_backup, write_qrels
from pyrite.cluster.commands.judging_folder import OVERRIDES, folder_of, grown, remember, remembered
from pyrite.cluster.commands.judging_inputs import opened
from pyrite.cluster.commands.resuming import RESUME, is_automatic
from pyrite.cluster.config.compose import compose
from pyrite.cluster.config.override import replaced, without
from pyrite.cluster.config.trust import from_folder, trusting_typed
from pyrite.cluster.output.manifest import refuse_other_files
from pyrite.cluster.output.storage import Storage
from pyrite.cluster.output.terminal import print_lines
from pyrite.pooling.judging.connection import TimedProtocol
from pyrite.pooling.judging.imports import read_made
from pyrite.pooling.judging.opening import Judging
from pyrite.pooling.judging.requests import Refused
from pyrite.ranking.collections.faults import Faults
from pyrite.ranking.errors import BadInput, refuse

if TYPE_CHECKING:
    from starlette.applications import Starlette

__all__ = ["import_judgements", "judge", "listen", "run", "run_verb", "write_backup", "write_qrels"]
FLAGS = {"--resume": "resume", "--export": "export", "--import": "imported", "--backup": "backup"}
"""The arguments that name a folder or a file, each excluding the others, and their attributes."""
EVERY_HOST = ("0.0.0.0", "")


def judge(overrides: Sequence[str], console: Console, resume: str | None = None) -> None:
    """Serve the page until it is interrupted.

    Args:
        overrides: overrides of `JudgeConfig`. The folder remembers them. With `resume=auto` a folder that holds
            judgements is resumed.
        resume: a folder whose pool may grow: the runs in `overrides` are added to its runs, and its depth may rise.
    """
    storage, merged, config, grow = _requested(overrides, resume)
    refuse(
        len(config["method"]) > 1,
        f"{len(config['method'])} methods are given",
        "method",
        "a pool is judged in one order",
    )
    if storage.read(OVERRIDES) is None:
        refuse_other_files(storage, own=True)
    listening = listen(config["host"], config["port"])
    judging = opened(config, console, grow)
    remember(storage, merged, config)
    addresses = _addresses(judging, config, listening)
    for link, address in zip(judging.links, addresses, strict=True):
        label = "your link, as the owner" if link.owner else f"link for {link.assessor or 'assessors'}"
        print_lines(console, f"{label}: {address}")
    if not ipaddress.ip_address(listening.getsockname()[0]).is_loopback:
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


def _requested(overrides: Sequence[str], resume: str | None) -> tuple[Storage, list[str], dict[str, Any], bool]:
    """Return the folder, the overrides with those it remembers, their configuration, and whether the pool may grow."""
    automatic = is_automatic(overrides, resume)
    overrides = without(overrides, {RESUME})
    with from_folder(), trusting_typed(overrides):
        if automatic and remembered(begun := folder_of(overrides)):
            resume, overrides = begun.path(""), without(overrides, {"out"})
        if resume is not None:
            overrides = grown(resume, overrides)
        storage = folder_of(overrides)
        merged = replaced(remembered(storage), overrides)
        return storage, merged, compose(merged, "judge") | {"out": storage.path("")}, resume is not None


def _addresses(judging: Judging, config: Mapping[str, Any], listening: socket.socket) -> list[str]:
    """Return the address of each link."""
    if config["url"] is not None:
        address = config["url"].rstrip("/")
    else:
        host = "127.0.0.1" if config["host"] in EVERY_HOST else config["host"]
        shown = f"[{host}]" if ":" in host else host
        address = f"http://{shown}:{listening.getsockname()[1]}"
    return [f"{address}/?token={link.token}" for link in judging.links]


def import_judgements(overrides: Sequence[str], path: str, console: Console) -> None:
    """Record judgements that were made elsewhere (`pyrite judge --import PATH out=FOLDER`), while no page is served.

    Args:
        overrides: as for `judge`; a folder that holds judgements needs only `out`.
        path: the file (`pyrite.pooling.judging.imports`).
    """
    storage, merged, config, _ = _requested(overrides, None)
    judging, faults = opened(config, console, False), Faults(config["strict"])
    try:
        counts = judging.session.take_over(read_made(path, judging.words, faults))
    except Refused as error:
        raise BadInput(str(error).rstrip("."), path) from None
    finally:
        judging.store.close()
    remember(storage, merged, config)
    for what, count in (counts | faults.notes | faults.skipped).items():
        print_lines(console, f"{what}: {count:,}")


def run_verb(chosen: argparse.Namespace, console: Console) -> int:
    """Serve the page, or read or write judgements."""
    given = [flag for flag, name in FLAGS.items() if getattr(chosen, name) is not None]
    if empty := [flag for flag in given if getattr(chosen, FLAGS[flag]) == ""]:
        raise BadInput("is empty", empty[0], "name a file or a folder")
    if len(given) > 1:
        what = f"{' and '.join(given)} exclude each other"
        raise BadInput(what, remedy=f"give the folder of {given[0]} by out=FOLDER")
    if given and given[0] in WITH_A_FILE:
        WITH_A_FILE[given[0]](chosen.overrides, getattr(chosen, FLAGS[given[0]]), console)
    else:
        judge(chosen.overrides, console, chosen.resume)
    return 0


WITH_A_FILE: Mapping[str, Callable[[Sequence[str], str, Console], None]] = {
    "--export": write_qrels, "--import": import_judgements, "--backup": write_backup,
}  # fmt: skip


def run(app: Starlette, listening: socket.socket) -> None:
    """Serve an application on a listening socket, until Ctrl-C or SIGTERM."""
    # Requests are not logged: the address of the first one holds the token.
    config = uvicorn.Config(
        app, http=TimedProtocol, access_log=False, log_level="warning", lifespan="off", ws="none", server_header=False,
        timeout_graceful_shutdown=5,
    )  # fmt: skip
    uvicorn.Server(config).run(sockets=[listening])


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens on a port of this machine."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family)
    except (OSError, OverflowError) as error:
        why = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
        what = f"can't listen on port {port} of {host} ({why})"
        raise BadInput(what, remedy="choose another port= or host=") from None
