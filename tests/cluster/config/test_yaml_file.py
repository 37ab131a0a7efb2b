"""YAML files that users write."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster.config.aliases import read_overrides
from cluster.config.yaml_file import read_yaml
from ranking.errors import BadInput


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("a:\n\t- b\n", r"a\.yaml:2: can't be read .*write blanks, not tabs"),
        ("a: {b: 1}\nc: 2\na: 3\n", r"a\.yaml:3: can't be read \('a' is given twice\)"),
        ("- !!python/object/apply:os.system [echo]\n", r"a\.yaml:1: can't be read"),
        ("- a=1\n- 3\n", r"is not a list of overrides: entry 2 is 3; write a line"),
        ("- a=1\n- b=1\n- a=2\n", r"a\.yaml: gives a twice"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_in_a_line(content: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(content)
    with pytest.raises(BadInput, match=says):
        read_overrides(str(path))


def test_folders_and_other_encodings_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"can't be read \(Is a directory\)"):
        read_yaml(str(tmp_path))
    (tmp_path / "a.yaml").write_bytes(b"- a=\xff\n")
    with pytest.raises(BadInput, match="can't be read"):
        read_yaml(str(tmp_path / "a.yaml"))
