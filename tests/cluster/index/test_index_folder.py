"""What an index finds in its folder when it comes back."""

import json
import subprocess
import sys

import numpy as np
import pytest
import torch

from cluster.index.calls import OWNER, claim, release, remove_orphans
from cluster.index.index_folder import WEIGHTS, IndexFolder, Publication, digest_of
from ranking.checkpoint import to_bytes
from ranking.index import IndexOptions
from ranking.index_versions import DOCUMENTS, QUERIES, finish_version, start_version, weights_digest, write_block

OPTIONS = IndexOptions()


def content_of(number: float) -> np.ndarray:
    return np.frombuffer(to_bytes({"table": torch.full((2, 3), float(number))}), np.uint8)


def build(folder: IndexFolder, publication: Publication, content: np.ndarray) -> None:
    """A version of two documents and a query."""
    place = folder.version_path(publication.step)
    building = start_version(place, 2, 1, 3, OPTIONS)
    write_block(building / DOCUMENTS, 0, np.eye(2, 3, dtype=np.float32))
    write_block(building / QUERIES, 0, np.ones((1, 3), np.float32))
    content.tofile(building / WEIGHTS)
    finish_version(building, place, 4, publication.step, publication.digest, OPTIONS)


def test_what_was_published_is_named_by_what_it_holds_and_waits_in_the_order_of_steps(tmp_path):
    content = content_of(1)
    assert digest_of(content) == weights_digest({"table": torch.ones(2, 3)})
    for version in (None, 0, 17):
        publication = Publication(200, version, digest_of(content))
        assert Publication.named(publication.file) == publication
    folder = IndexFolder(tmp_path)
    waiting = [Publication(step, None, digest_of(content_of(step))) for step in (1000, 20, 300)]
    contents = [content_of(publication.step) for publication in waiting]
    for publication, content in zip(waiting, contents, strict=True):
        folder.publish(publication, content)
    assert [each.step for each in IndexFolder(tmp_path).published()] == [20, 300, 1000]
    assert (folder.weights(waiting[0]) == contents[0]).all()
    folder.withdraw(waiting[1])
    folder.withdraw(waiting[1])
    assert [each.step for each in IndexFolder(tmp_path).published()] == [300, 1000]


def test_a_good_version_is_found_again_and_its_weights_wait_no_more(tmp_path):
    folder, publication = IndexFolder(tmp_path), Publication(40, None, digest_of(content_of(1)))
    folder.publish(publication, content_of(1))
    build(folder, publication, content_of(1))
    again = IndexFolder(tmp_path)
    versions = again.versions()
    assert {step: (each.version, each.digest) for step, each in versions.items()} == {40: (4, publication.digest)}
    assert versions[40].search(np.array([0]), 2)[0].tolist() == [[0, 1]]
    assert again.published() == []
    again.remove(40)
    assert IndexFolder(tmp_path).versions() == {}


@pytest.mark.parametrize("broken", ["weights", "other weights", "vectors", "record", "no weights"])
def test_a_broken_version_is_removed(tmp_path, broken):
    folder, publication = IndexFolder(tmp_path), Publication(40, None, digest_of(content_of(1)))
    build(folder, publication, content_of(1))
    place = folder.version_path(40)
    if broken == "weights":
        (place / WEIGHTS).write_bytes(bytes(content_of(1))[:-2])
    elif broken == "other weights":
        content_of(2).tofile(place / WEIGHTS)
    elif broken == "no weights":
        (place / WEIGHTS).unlink()
    else:
        file = place / {"vectors": DOCUMENTS, "record": "version.json"}[broken]
        file.write_bytes(file.read_bytes()[:-4])
    assert folder.versions() == {}
    assert not place.exists()


def test_half_files_of_a_killed_actor_are_cleared_away(tmp_path):
    folder = IndexFolder(tmp_path)
    good, cut = (Publication(step, None, digest_of(content_of(step))) for step in (1, 2))
    folder.publish(good, content_of(1))
    folder.publish(cut, content_of(2)[:-2])
    start_version(folder.version_path(7), 2, 1, 3, OPTIONS)
    (tmp_path / "published" / "abc.part").write_bytes(b"half")
    again = IndexFolder(tmp_path)
    assert again.published() == [good]
    assert again.versions() == {}
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == [good.file]


def test_what_the_dead_have_left_is_removed_and_nothing_else(tmp_path):
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    for name in ("mine", "dead", "elsewhere", "damaged"):
        claim(tmp_path / name)
    owner = json.loads((tmp_path / "dead" / OWNER).read_text())
    (tmp_path / "dead" / OWNER).write_text(json.dumps(owner | {"pid": ended.pid}))
    (tmp_path / "elsewhere" / OWNER).write_text(json.dumps({"host": "far away", "pid": ended.pid}))
    (tmp_path / "damaged" / OWNER).write_text("{")
    (tmp_path / "nobody's").mkdir()
    remove_orphans(tmp_path)
    assert {folder.name for folder in tmp_path.iterdir()} == {"mine", "elsewhere", "damaged", "nobody's"}
    release(tmp_path / "mine")
    assert {folder.name for folder in tmp_path.iterdir()} == {"elsewhere", "damaged", "nobody's"}
