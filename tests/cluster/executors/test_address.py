"""Agreeing on a token with a cluster."""

import os
from typing import Any

import pytest

from pyrite.cluster.executors import address
from pyrite.ranking.errors import BadInput


@pytest.fixture
def undecided(monkeypatch) -> Any:
    """A process whose user has said nothing of tokens, and a cluster that requires one or not."""

    def cluster(required: bool, token: bool = False, sends: bool = False) -> None:
        monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
        monkeypatch.setattr(address, "requires_token", lambda place: required)
        monkeypatch.setattr(address, "has_token", lambda: token)
        monkeypatch.setattr(address, "sends_token", lambda: sends)
        monkeypatch.setattr(address, "send_token", lambda: token and os.environ.update(RAY_AUTH_MODE="token") is None)

    return cluster


def test_a_cluster_gets_a_token_if_it_requires_one(undecided):
    undecided(required=True, token=True)
    with address.agreed_token("head:6379"):
        assert os.environ["RAY_AUTH_MODE"] == "token"
    assert "RAY_AUTH_MODE" not in os.environ
    undecided(required=True)
    refused = pytest.raises(BadInput, match=r"^head:6379: the cluster requires its token; put it")
    with refused, address.agreed_token("head:6379"):
        pass
    undecided(required=False, token=True)
    with address.agreed_token("head:6379"):
        assert "RAY_AUTH_MODE" not in os.environ
    undecided(required=False, token=True, sends=True)
    with pytest.raises(BadInput, match="takes no token, and this process"), address.agreed_token("head:6379"):
        pass


def test_a_local_ray_has_a_token_of_its_own_if_none_can_be_written(undecided, monkeypatch):
    undecided(required=False)
    for writable, given in ((True, False), (False, True)):
        monkeypatch.setattr(address, "is_writable", lambda folder, name, writable=writable: writable)
        monkeypatch.delenv("RAY_AUTH_TOKEN", raising=False)
        with address.agreed_token(None):
            assert ("RAY_AUTH_TOKEN" in os.environ) == given
        assert "RAY_AUTH_TOKEN" not in os.environ
