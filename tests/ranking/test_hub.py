"""Without a network the hub is not asked, and nothing is retried."""

import socket

import pytest
from huggingface_hub import constants

from ranking.hub import prepare_hub


@pytest.mark.parametrize("resolves", [True, False])
def test_an_unknown_host_makes_the_hub_offline(resolves, monkeypatch):
    def getaddrinfo(*address: object) -> list[object]:
        if not resolves:
            raise socket.gaierror(-2, "Name or service not known")
        return []

    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    prepare_hub.cache_clear()
    prepare_hub()
    assert constants.HF_HUB_OFFLINE is not resolves
    prepare_hub.cache_clear()
