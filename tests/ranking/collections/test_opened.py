import bz2
import gzip
import lzma
import os

import pytest

from pyrite.ranking.collections import opened
from pyrite.ranking.collections.opened import open_bytes
from pyrite.ranking.errors import BadInput


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_a_file_that_becomes_far_larger_is_refused(tmp_path, monkeypatch, pack):
    monkeypatch.setattr(opened, "MOST", 1_000_000)
    path, says = tmp_path / "bomb", r"bomb: decompresses to more than 200 times its size .*PYRITE_ANY_SIZE=1"
    path.write_bytes(pack(bytes(3_000_000)))
    with pytest.raises(BadInput, match=says), open_bytes(path) as stream:
        stream.readline()
    monkeypatch.setenv("PYRITE_ANY_SIZE", "1")
    with open_bytes(path) as stream:
        assert len(stream.read()) == 3_000_000


def test_a_large_file_of_texts_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(opened, "MOST", 1000)
    path = tmp_path / "texts.gz"
    content = b"\n".join(str(number * 7919).encode() for number in range(20_000))
    path.write_bytes(gzip.compress(content))
    with open_bytes(path) as stream:
        assert stream.read() == content


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_a_file_that_is_compressed_twice_is_named(tmp_path, pack):
    path = tmp_path / "rows.jsonl.gz"
    path.write_bytes(gzip.compress(pack(b'{"query": "who digs?"}')))
    says = "what it unpacks to is compressed again; unpack it once, with gzip -d"
    with pytest.raises(BadInput, match=says), open_bytes(path):
        pass
    path.write_bytes(gzip.compress(b"BZh is the name of a bus stop"))
    with open_bytes(path) as stream:
        assert stream.read(3) == b"BZh"


def test_a_pipe_is_refused_before_it_is_read(tmp_path):
    """It is read from its beginning only once, and a file is opened several times."""
    pipe = tmp_path / "runs.txt"
    os.mkfifo(pipe)
    with (
        pytest.raises(BadInput, match=r"runs\.txt: is a pipe or a device, .*; write it to a file first"),
        open_bytes(pipe),
    ):
        pass
