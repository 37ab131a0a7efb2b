"""Prints a job's log while it is written, and returns its exit code."""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
import time
from typing import TYPE_CHECKING

from rich.console import Console

from cluster.output.terminal import print_lines
from ranking.errors import BadInput

if TYPE_CHECKING:
    from ray.job_submission import JobDetails, JobSubmissionClient

INTERRUPTED = 130
POLL_S = 0.5
"""Pause between two queries of the state of a job whose log has ended."""


def follow(client: JobSubmissionClient, job: str, console: Console) -> int:
    """Print a job's log until the job ends, and return its exit code: 130 after Ctrl-C, which leaves the job running.

    Raises:
        BadInput: if the server is lost; the job may continue.
    """
    import aiohttp
    import requests

    commands = follow_commands(job, client.get_address())
    try:
        asyncio.run(_print_log(client, job))
        while not (info := client.get_job_info(job)).status.is_terminal():
            time.sleep(POLL_S)
    except KeyboardInterrupt:
        print_lines(console, f"\n{job} continues. {commands}")
        return INTERRUPTED
    except BrokenPipeError:  # the reader of our output has closed it
        raise
    except (aiohttp.ClientError, requests.RequestException, OSError, RuntimeError) as error:
        reason = " ".join(str(error).split())[:200]
        raise BadInput(f"the job server is lost ({reason}), and the job may continue", job, commands) from None
    code = exit_code(info)
    print_lines(console, f"{job} {outcome(info, code)}")
    return code


async def _print_log(client: JobSubmissionClient, job: str) -> None:
    async for text in client.tail_job_logs(job):
        sys.stdout.write(text)
        sys.stdout.flush()


def exit_code(info: JobDetails) -> int:
    """Return the exit code of a job that has ended, as a shell would: 128 + N after signal N, 1 if it is unknown."""
    if info.status in ("SUCCEEDED", "STOPPED"):
        return 0 if info.status == "SUCCEEDED" else INTERRUPTED
    code = info.driver_exit_code or 1
    return 128 - code if code < 0 else code


def outcome(info: JobDetails, code: int) -> str:
    """Describe in one line how a job ended."""
    if code == 0 or info.status == "STOPPED":
        return "has succeeded" if code == 0 else "was stopped"
    if info.driver_exit_code is not None:
        return f"has failed with exit code {code}"
    return f"has failed: {' '.join((info.message or '').split())[:2000] or 'its cluster does not report why'}"


def follow_commands(job: str, address: str) -> str:
    """Return Ray's commands that follow and stop a running job."""
    # Ray's command sends a token only if its mode says so.
    mode = "RAY_AUTH_MODE=token " if os.environ.get("RAY_AUTH_MODE") == "token" else ""
    end = shlex.join(["--address", address, job])
    return f"Follow it with: {mode}ray job logs --follow {end}; stop it with: {mode}ray job stop {end}"
