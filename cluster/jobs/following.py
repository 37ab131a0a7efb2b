"""Shows a job's log as it is written, and returns its exit code."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from rich.console import Console

from ranking.errors import BadInput

if TYPE_CHECKING:
    from ray.job_submission import JobDetails, JobSubmissionClient

INTERRUPTED = 130
PAUSE = 0.5
"""Seconds between two looks at a job's state."""
TRIES, WAIT = 12, 5.0
"""How often a lost server is tried again, and seconds between two tries."""


def follow(client: JobSubmissionClient, job: str, console: Console) -> int:
    """Show a job's log until it ends.

    Args:
        client: of the job server.
        job: its id.
        console: for what is ours to say.

    Returns:
        The job's own exit code; 130 where it goes on without us after Ctrl-C.

    Raises:
        BadInput: where the server is lost; the job may go on.
    """
    address = client.get_address()
    try:
        info = asyncio.run(stream(client, job, _show))
    except KeyboardInterrupt:
        console.print(f"\n{job} goes on. {ways_on(job, address)}", soft_wrap=True, markup=False)
        return INTERRUPTED
    except BrokenPipeError:  # the reader of our output had enough
        raise
    except _lost() as error:
        reason = " ".join(str(error).split())[:200]
        raise BadInput(
            f"the job server is lost ({reason}), and the job may go on", job, ways_on(job, address)
        ) from None
    code = exit_code(info)
    console.print(f"{job} {ending(info, code)}", soft_wrap=True, markup=False)
    return code


async def stream(
    client: JobSubmissionClient, job: str, show: Callable[[str], None], tries: int = TRIES, wait: float = WAIT
) -> JobDetails:
    """Hand on a job's log, each piece once, until the job has ended; a lost connection is taken up again.

    Args:
        client: of the job server.
        job: its id.
        show: takes each new piece of text.
        tries: how often in a row a lost server is tried again.
        wait: seconds between two tries.

    Returns:
        What the server says of the job that has ended.
    """
    shown = failures = 0
    while True:
        try:
            place = 0  # a log is told from its beginning each time
            async for text in client.tail_job_logs(job):
                show(text[max(0, shown - place) :])
                place += len(text)
                shown, failures = max(shown, place), 0
            info = client.get_job_info(job)
            if info.status.is_terminal():
                return info
        except BrokenPipeError:
            raise
        except _lost():
            failures += 1
            if failures > tries:
                raise
            await asyncio.sleep(wait)
        await asyncio.sleep(PAUSE)


def exit_code(info: JobDetails) -> int:
    """The exit code of a job that has ended: its own, as a shell would give it; 1 where it failed without one."""
    if info.status == "SUCCEEDED":
        return 0
    if info.status == "STOPPED":
        return INTERRUPTED
    code = info.driver_exit_code
    if code is None:
        told = re.search(r"exit code (-?\d+)", info.message or "")
        code = int(told[1]) if told else 1
    return 128 - code if code < 0 else code or 1


def ending(info: JobDetails, code: int) -> str:
    """How a job ended, in a line."""
    if code == 0:
        return "has succeeded"
    if info.status == "STOPPED":
        return "was stopped"
    message = info.message or ""
    if info.driver_exit_code is not None or "exit code" in message:
        return f"has failed with exit code {code}"
    return f"has failed: {' '.join(message.split())[:2000] or 'its cluster does not say why'}"


def ways_on(job: str, address: str) -> str:
    """The commands of Ray's with which a running job is followed and stopped.

    Args:
        job: its id.
        address: of the job server, as the client has it.
    """
    # Ray's command sends a token only where it is told to.
    mode = "RAY_AUTH_MODE=token " if os.environ.get("RAY_AUTH_MODE") == "token" else ""
    there = ["--address", address]
    to_follow, to_stop = (
        mode + shlex.join(["ray", "job", *words, *there, job]) for words in (("logs", "--follow"), ("stop",))
    )
    return f"Follow it with: {to_follow}; stop it with: {to_stop}"


def _show(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _lost() -> tuple[type[Exception], ...]:
    """What the client raises where the server is gone, or the connection to it."""
    import aiohttp
    import requests

    return (aiohttp.ClientError, requests.RequestException, OSError, RuntimeError)
