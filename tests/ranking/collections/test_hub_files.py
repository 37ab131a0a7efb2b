"""A dataset at the hub is read as a folder of tables; without a network nothing is asked or retried."""

import socket

import huggingface_hub
import pytest
from huggingface_hub import constants

from cluster.config.compose import compose
from ranking.collections import hub_files
from ranking.collections.hub_files import local_path
from ranking.collections.pairs import Pairs
from ranking.errors import BadInput
from ranking.hub import prepare_hub


def test_a_failed_download_is_one_line(monkeypatch):
    def refuse(*arguments: object, **options: object) -> str:
        raise OSError("no network\nmore")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", refuse)
    monkeypatch.setattr(hub_files, "prepare_hub", lambda: None)
    with pytest.raises(BadInput, match=r"hf:some/pairs: can't be fetched from the hub \(no network\); check name"):
        Pairs("hf:some/pairs").sources()


def test_a_dataset_is_read_from_where_it_was_downloaded(tmp_path, monkeypatch):
    (tmp_path / "train.csv").write_text("query,positive\na,b\n")
    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda name, **options: str(tmp_path))
    pairs = Pairs("hf:some/pairs")
    assert pairs.name == "pairs"
    assert list(pairs.sources()) == [str((tmp_path / "train.csv").resolve())]
    assert local_path(tmp_path) == tmp_path
    assert compose(["collection=hf:some/pairs"])["collection"]["path"] == "hf:some/pairs"


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
