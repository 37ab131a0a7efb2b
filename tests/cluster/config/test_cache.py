"""Where what is made once is kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster.config.cache import cache_of
from ranking.collections.cache import default_cache
from ranking.errors import BadInput


def test_the_cache_is_a_folder_named_or_the_users_own() -> None:
    assert cache_of({"cache": "/there"}) == Path("/there")
    assert cache_of({"cache": None}) == default_cache()


@pytest.mark.parametrize("place", ["s3://bucket/cache", "file:///there"])
def test_a_uri_is_refused_and_named(place: str) -> None:
    with pytest.raises(BadInput, match=f"a cache can't be a URI.*{place}|{place}.*a cache can't be a URI"):
        cache_of({"cache": place})
