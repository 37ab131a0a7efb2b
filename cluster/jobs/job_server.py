"""Finds the job server of a Ray cluster and connects to it."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from pyrite.cluster.executors.address import MODE, TOKEN, check_address, has_token, requires_token, send_token
from pyrite.cluster.jobs.job_options import Access
from pyrite.cluster.lazy import ray, requests
from pyrite.cluster.limits import CONNECT_TIMEOUT_S
from pyrite.ranking.errors import BadInput, refuse

VARIABLE = "RAY_API_SERVER_ADDRESS"
TOKEN_REFUSED = "authentication token"
"""Part of what Ray answers without a token, and to a wrong one."""
ANYONE = Access()
PORT = 8265
"""Default port of Ray's dashboard."""
OF_DASHBOARD = "of Ray's dashboard, as http://HOST:8265"
START = "start one with `ray start --head`, or name a cluster's by --address http://HOST:8265 or RAY_API_SERVER_ADDRESS"


@contextmanager
def connected(address: str | None, access: Access = ANYONE) -> Iterator[ray.job_submission.JobSubmissionClient]:
    """Yield a client of the job server. What the server refuses in the block is raised as one line.

    Args:
        address: the server's address, as `http://HOST:8265`, `HOST:8265` or `auto`; None takes RAY_API_SERVER_ADDRESS,
            a URL in RAY_ADDRESS, or the Ray that runs on this machine.
        access: headers and certificates.
    """
    mode, before, level = os.environ.get(MODE), os.environ.get(VARIABLE), logging.root.manager.disable
    send_token()
    try:
        logging.disable(logging.ERROR)  # Ray's client logs what it also raises
        url = find_server(address)
        os.environ[VARIABLE] = url  # Ray prefers it to the address that it is given
        with refusals_in_one_line(url):
            _check_version(url, access)
            # Ray's client would exit.
            refuse(
                mode == "token" and not has_token(),
                f"{MODE}=token, and there is no token",
                url,
                f"put the cluster's token into {TOKEN}",
            )
            yield ray.job_submission.JobSubmissionClient(url, headers=dict(access.headers), verify=access.verify)
    finally:
        logging.disable(level)
        if mode is None:
            os.environ.pop(MODE, None)
        os.environ.pop(VARIABLE, None)
        if before is not None:
            os.environ[VARIABLE] = before


def _check_version(url: str, access: Access) -> None:
    """Raise `BadInput` if no job server of Ray answers, or something in front of it refuses.

    Ray's client waits without a limit, and takes every 401 and 403 for a missing token.
    """
    asked: Any = {"headers": dict(access.headers), "verify": access.verify, "timeout": CONNECT_TIMEOUT_S}
    answer = requests.get(f"{url}/api/version", **asked)
    if answer.status_code in (401, 403):
        what = f"refuses, and not as Ray does ({answer.status_code}: {in_one_line(answer.text)})"
        refuse(
            TOKEN_REFUSED not in answer.text.lower(),
            what,
            url,
            "is there a proxy that wants --headers or RAY_JOB_HEADERS?",
        )
        refuse(not has_token(), "the job server requires its token", url, f"put the cluster's token into {TOKEN}")
    else:
        refuse('"ray_version"' not in answer.text, "is no job server of Ray", url, f"give the address {OF_DASHBOARD}")


@contextmanager
def refusals_in_one_line(url: str) -> Iterator[None]:
    """Raise the errors of Ray's client as `BadInput`."""
    try:
        yield
    except BrokenPipeError:  # the reader of our output has closed it
        raise
    except ray.exceptions.AuthenticationError:
        if os.environ.get(MODE) == "disabled" and has_token():
            raise BadInput("the job server requires its token", url, f"set {MODE}=token") from None
        what = "the job server refuses this token" if has_token() else "the job server requires its token"
        raise BadInput(what, url, f"put the cluster's token into {TOKEN}") from None
    except requests.exceptions.ProxyError as error:
        host = urlsplit(url).hostname
        raise BadInput(f"the proxy does not answer ({_cause(error)})", url, f"add {host} to NO_PROXY") from None
    except (ConnectionError, requests.RequestException) as error:
        raise BadInput(f"no server answers ({_cause(error)})", url, f"is this its address? {START}") from None
    except RuntimeError as error:
        refused = re.match(r"Request failed with status code (\d+): (.*?)\.?$", str(error), re.DOTALL)
        if not refused:
            raise
        last = [line for line in refused[2].splitlines() if line.strip()][-1:]
        raise BadInput(f"the job server refuses ({refused[1]}: {in_one_line(*last)})", url) from None


def find_server(address: str | None) -> str:
    """Return the URL of the job server for an address; raise BadInput if none is named and none runs here."""
    cluster = os.environ.get("RAY_ADDRESS", "")
    named = address or os.environ.get(VARIABLE) or (cluster if cluster.startswith("http") else "auto")
    if named == "auto":
        return _local_server()
    if "://" not in named:
        named = f"http://{named if ':' in named else f'{named}:{PORT}'}"
    refuse(
        not named.startswith(("http://", "https://")) or not urlsplit(named).hostname,
        "is no address of a job server",
        named,
        f"give that {OF_DASHBOARD}",
    )
    return named.rstrip("/")


def _local_server() -> str:
    """Return the URL of the dashboard of the Ray in RAY_ADDRESS, or of the latest one that started on this machine."""
    check_address(os.environ.get("RAY_ADDRESS"))
    try:
        address = ray._private.services.canonicalize_bootstrap_address_or_die("auto")
        check_address(address)
        if has_token() or not requires_token(address):
            return str(ray.dashboard.utils.ray_address_to_api_server_url(address))
    except (OSError, ValueError, RuntimeError, ray.exceptions.RayError, BadInput):
        raise BadInput("no Ray with a job server runs on this machine", None, START) from None
    raise BadInput("the cluster requires its token", address, f"put it into {TOKEN}")


def _cause(error: BaseException) -> str:
    """Return the first cause of an error of the network, as "Connection refused"."""
    while deeper := error.__cause__ or error.__context__:
        error = deeper
    return in_one_line(getattr(error, "strerror", None) or error)


def in_one_line(reason: object = "") -> str:
    """Return an error in one line, cut to 200 letters."""
    return " ".join(str(reason).split())[:200]
