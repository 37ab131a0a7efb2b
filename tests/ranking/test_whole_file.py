"""Files that are replaced whole."""

from pathlib import Path

import pytest

from pyrite.ranking.whole_file import keep_folder, replace_file


def test_a_file_is_replaced_when_the_block_ends(tmp_path):
    file = tmp_path / "new" / "a.txt"
    for content in ("first", "second"):
        with replace_file(file) as temporary:
            temporary.write_text(content)
            assert not file.exists() or file.read_text() == "first"
        assert file.read_text() == content
    assert list(file.parent.iterdir()) == [file]


def test_an_error_leaves_the_old_file_and_nothing_else(tmp_path):
    file = tmp_path / "a.txt"
    file.write_text("old")
    with pytest.raises(ValueError, match="half"):
        _interrupted(file)
    assert file.read_text() == "old"
    assert list(tmp_path.iterdir()) == [file]
    with pytest.raises(FileNotFoundError), replace_file(file):
        pass  # nothing was written
    assert file.read_text() == "old"


def _interrupted(file: Path) -> None:
    with replace_file(file) as temporary:
        temporary.write_text("half")
        raise ValueError("half")


def test_a_folder_that_another_process_has_made_stays(tmp_path):
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
        keep_folder(tmp_path / name, tmp_path / "kept")
    assert (tmp_path / "kept" / "file").read_text() == "first"
    with pytest.raises(FileNotFoundError):
        keep_folder(tmp_path / "none", tmp_path / "elsewhere")
