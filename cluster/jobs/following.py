"""Prints a job's log while it is written, and returns its exit code."""

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
POLL_S = 0.5
"""Pause between two queries of a job's state."""
RETRIES, RETRY_S = 12, 5.0
"""How often in a row a lost server is tried again, and the pause before each attempt."""


def follow(client: JobSubmissionClient, job: str, console: Console) -> int:
    """Print a job's log until the job ends.

    Args:
        client: client of the job server.
        job: the job's id.
        console: for messages.

    Returns:
        The job's exit code; 130 after Ctrl-C, which leaves the job running.

    Raises:
        BadInput: if the server is lost; the job may continue.
    """
    commands = follow_commands(job, client.get_address())
    try:
        info = asyncio.run(stream(client, job, _print))
    except KeyboardInterrupt:
        console.print(f"\n{job} continues. {commands}", soft_wrap=True, markup=False)
        return INTERRUPTED
    except BrokenPipeError:  # the reader of our output has closed it
        raise
    except _connection_errors() as error:
        reason = " ".join(str(error).split())[:200]
        raise BadInput(f"the job server is lost ({reason}), and the job may continue", job, commands) from None
    code = exit_code(info)
    console.print(f"{job} {outcome(info, code)}", soft_wrap=True, markup=False)
    return code


async def stream(
    client: JobSubmissionClient, job: str, show: Callable[[str], None], retries: int = RETRIES, pause: float = RETRY_S
) -> JobDetails:
    """Pass on each piece of a job's log once, and return the job's details when it ends. Reopens a lost connection."""
    shown = failures = 0
    while True:
        try:
            position = 0  # the server sends a log from its beginning each time
            async for text in client.tail_job_logs(job):
                show(text[max(0, shown - position) :])
                position += len(text)
                shown, failures = max(shown, position), 0
            info = client.get_job_info(job)
            if info.status.is_terminal():
                return info
        except BrokenPipeError:
            raise
        except _connection_errors():
            failures += 1
            if failures > retries:
                raise
            await asyncio.sleep(pause)
        await asyncio.sleep(POLL_S)


def exit_code(info: JobDetails) -> int:
    """Return the exit code of a job that has ended, as a shell would: 128 + N after signal N, 1 if it is unknown."""
    if info.status in ("SUCCEEDED", "STOPPED"):
        return 0 if info.status == "SUCCEEDED" else INTERRUPTED
    code = info.driver_exit_code
    if code is None:
        match = re.search(r"exit code (-?\d+)", info.message or "")
        code = int(match[1]) if match else 1
    return 128 - code if code < 0 else code or 1


def outcome(info: JobDetails, code: int) -> str:
    """Describe in one line how a job ended."""
    if code == 0 or info.status == "STOPPED":
        return "has succeeded" if code == 0 else "was stopped"
    message = " ".join((info.message or "").split())
    if info.driver_exit_code is not None or "exit code" in message:
        return f"has failed with exit code {code}"
    return f"has failed: {message[:2000] or 'its cluster does not report why'}"


def follow_commands(job: str, address: str) -> str:
    """Return Ray's commands that follow and stop a running job."""
    # Ray's command sends a token only if its mode says so.
    mode = "RAY_AUTH_MODE=token " if os.environ.get("RAY_AUTH_MODE") == "token" else ""
    end = shlex.join(["--address", address, job])
    return f"Follow it with: {mode}ray job logs --follow {end}; stop it with: {mode}ray job stop {end}"


def _print(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _connection_errors() -> tuple[type[Exception], ...]:
    """Return what the client raises if the server, or the connection to it, is lost."""
    import aiohttp
    import requests

    return (aiohttp.ClientError, requests.RequestException, OSError, RuntimeError)
