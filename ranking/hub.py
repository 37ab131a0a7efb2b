"""Prepares for requests to the Hugging Face hub: without a network they fail at once and quietly."""

from __future__ import annotations

import logging
import socket
import urllib.request
from functools import cache
from urllib.parse import urlparse


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
