"""The folder of what is made once."""

from pathlib import Path

import pytest

from pyrite.cluster.output.cache import cache_of
from pyrite.ranking.collections.cache import default_cache
from pyrite.ranking.errors import BadInput


def test_the_cache_is_a_folder(monkeypatch, tmp_path):
    assert cache_of({"cache": "/there"}) == Path("/there")
    assert cache_of({"cache": None}) == default_cache()
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_of({"cache": "~/mine"}) == tmp_path / "mine"


@pytest.mark.parametrize("place", ["s3://bucket/pyrite", "file:///shared/"])
def test_a_uri_is_refused(place):
    with pytest.raises(BadInput, match=f"^cache: {place} is a URI, .* give a folder on a disk that all machines share"):
        cache_of({"cache": place})
