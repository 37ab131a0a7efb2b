"""A dataset at the hub is read as a folder of tables, and a failed download is one line."""

import huggingface_hub
import pytest

from cluster.config.compose import compose
from ranking.collections import hub_files
from ranking.collections.hub_files import local_path
from ranking.collections.pairs import Pairs
from ranking.errors import BadInput


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
