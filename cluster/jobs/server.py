"""Finds and connects to the job server of a Ray cluster."""

from __future__ import annotations

import logging
import os
import re
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ranking.errors import BadInput

if TYPE_CHECKING:
    from ray.job_submission import JobSubmissionClient

VARIABLE = "RAY_API_SERVER_ADDRESS"
PORT = 8265
"""Of Ray's dashboard, unless the cluster was told otherwise."""
PATIENCE = 10
"""Seconds until a server that says nothing is given up."""
START = "start one with `ray start --head`, or name a cluster's by --address http://HOST:8265 or RAY_API_SERVER_ADDRESS"
TOKEN = (
    "put the cluster's token into RAY_AUTH_TOKEN, or into the file that RAY_AUTH_TOKEN_PATH names or ~/.ray/auth_token"
)


@contextmanager
def connected(address: str | None) -> Iterator[JobSubmissionClient]:
    """A client of the job server; what the server refuses within is told in one line.

    Args:
        address: of the server, as `http://HOST:8265`, `HOST:8265` or `auto`; None takes RAY_API_SERVER_ADDRESS, a
            RAY_ADDRESS, or the Ray that runs on this machine.

    Raises:
        BadInput: where there is none, it does not answer, is something else, or refuses.
    """
    if "ray" not in sys.modules and os.environ.get("RAY_AUTH_MODE") == "token" and not token_given():
        os.environ["RAY_AUTH_MODE"] = "disabled"  # Ray's client would refuse itself; a server that wants one says so
    from ray.job_submission import JobSubmissionClient

    url = find_server(address)
    before, loud = os.environ.get(VARIABLE), logging.root.manager.disable
    os.environ[VARIABLE] = url  # Ray would take it before the address that it is given
    logging.disable(logging.WARNING)  # of uploads, of default excludes
    try:
        with told(url):
            probe(url)
            yield JobSubmissionClient(url)
    finally:
        logging.disable(loud)
        os.environ.pop(VARIABLE)
        if before is not None:
            os.environ[VARIABLE] = before


@contextmanager
def told(url: str) -> Iterator[None]:
    """Turn what Ray's client raises into one line."""
    import requests
    from ray.exceptions import AuthenticationError

    try:
        yield
    except BrokenPipeError:  # the reader of our output had enough
        raise
    except AuthenticationError:
        if os.environ.get("RAY_AUTH_MODE") == "disabled" and token_given():
            raise BadInput("the job server wants its token", url, "set RAY_AUTH_MODE=token") from None
        what = "the job server refuses our token" if token_given() else "the job server wants its token"
        raise BadInput(what, url, TOKEN) from None
    except (ConnectionError, requests.RequestException) as error:
        raise BadInput(f"nobody answers ({_short(error)})", url, f"is this its address? {START}") from None
    except RuntimeError as error:
        refused = re.match(r"Request failed with status code (\d+): (.*?)\.?$", str(error), re.DOTALL)
        if not refused:
            raise
        last = [line for line in refused[2].splitlines() if line.strip()][-1:]
        raise BadInput(f"the job server refuses ({refused[1]}: {_short(*last)})", url) from None


def token_given() -> bool:
    """Whether there is a token in one of the places where Ray looks for one."""
    file = os.environ.get("RAY_AUTH_TOKEN_PATH") or Path.home() / ".ray" / "auth_token"
    return bool(os.environ.get("RAY_AUTH_TOKEN")) or Path(file).is_file()


def find_server(address: str | None) -> str:
    """URL of the job server that is meant.

    Raises:
        BadInput: where none is named and none runs here.
    """
    named = address or os.environ.get(VARIABLE)
    if not named and os.environ.get("RAY_ADDRESS", "").startswith("http"):
        named = os.environ["RAY_ADDRESS"]
    if not named or named == "auto":
        return _local_server()
    if "://" not in named:
        named = f"http://{named if ':' in named else f'{named}:{PORT}'}"
    if not named.startswith(("http://", "https://")) or not urlsplit(named).hostname:
        raise BadInput("is no address of a job server", named, "give that of Ray's dashboard, as http://HOST:8265")
    return named.rstrip("/")


def probe(url: str) -> None:
    """See within seconds that a Ray job server answers: Ray's own client would wait for ever.

    Raises:
        BadInput: where something else does.
        requests.RequestException: where nobody does.
    """
    import requests

    answer = requests.get(f"{url}/api/version", timeout=PATIENCE)
    if answer.status_code in (401, 403):  # Ray's client says what is missing
        return
    try:
        known = "ray_version" in answer.json()
    except (ValueError, TypeError):
        known = False
    if not known:
        raise BadInput("is no job server of Ray", url, "give the address of Ray's dashboard, as http://HOST:8265")


def _local_server() -> str:
    """URL of the dashboard of the Ray that RAY_ADDRESS names, or of the latest one that was started here."""
    from ray._private.services import canonicalize_bootstrap_address_or_die
    from ray.dashboard.utils import ray_address_to_api_server_url
    from ray.exceptions import RayError

    loud, host = logging.root.manager.disable, "127.0.0.1"
    logging.disable(logging.ERROR)
    try:
        address = canonicalize_bootstrap_address_or_die("auto")
        host = address.rpartition(":")[0]
        socket.create_connection((host.strip("[]"), int(address.rpartition(":")[2])), timeout=PATIENCE).close()
        if _may_ask():
            return str(ray_address_to_api_server_url(address))
    except (OSError, ValueError, RuntimeError, RayError):
        pass
    finally:
        logging.disable(loud)
    for usual in dict.fromkeys((f"http://{host}:{PORT}", f"http://127.0.0.1:{PORT}")):
        if _answers(usual):
            return usual
    raise BadInput("no Ray with a job server runs on this machine", None, START)


def _may_ask() -> bool:
    """Whether Ray itself can be asked: without a token that it believes to need, its client ends the process."""
    from ray._private.authentication.authentication_utils import is_token_auth_enabled

    return not is_token_auth_enabled() or token_given()


def _answers(url: str) -> bool:
    import requests

    try:
        probe(url)
    except (BadInput, requests.RequestException):
        return False
    return True


def _short(reason: object = "") -> str:
    return " ".join(str(reason).split())[:200]
