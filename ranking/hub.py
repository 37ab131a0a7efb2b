"""Fetches data sets from the Hugging Face hub; without a network, requests to it fail at once and quietly."""

from __future__ import annotations

import logging
import socket
import urllib.request
from functools import cache
from pathlib import Path
from urllib.parse import urlparse

from pyrite.ranking.errors import BadInput

HUB = "hf:"
"""The beginning of a path that names a dataset at the hub."""
TABLES = [f"*.{ending}{packed}" for ending in ("parquet", "csv", "tsv", "json", "jsonl") for packed in ("", ".gz")]


@cache
def prepare_hub() -> None:
    """Silence the hub's retries, and make it use downloaded files alone if its name can't be resolved."""
    from huggingface_hub import constants

    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)
    if urllib.request.getproxies():
        return  # the proxy resolves names
    try:
        socket.getaddrinfo(urlparse(constants.ENDPOINT).hostname, 443)
    except OSError:
        constants.HF_HUB_OFFLINE = True


def local_path(path: str | Path) -> Path:
    """Return a path, or the folder to which the dataset `hf:NAME` was downloaded.

    Raises:
        BadInput: if it can't be downloaded.
    """
    text = str(path)
    if not text.startswith(HUB):
        return Path(path).expanduser()
    from huggingface_hub import constants, snapshot_download
    from huggingface_hub.utils import disable_progress_bars

    prepare_hub()
    disable_progress_bars()
    try:
        return Path(snapshot_download(text.removeprefix(HUB), repo_type="dataset", allow_patterns=TABLES))
    except Exception as error:  # of the network, of the hub, and of names: their classes change between versions
        why = (str(error).strip() or type(error).__name__).splitlines()[0]
        why = "no network, and it was not downloaded before" if constants.HF_HUB_OFFLINE else why
        remedy = "check name and network, or download it elsewhere and give collection.path=FOLDER"
        raise BadInput(f"can't be fetched from the hub ({why})", text, remedy) from None
