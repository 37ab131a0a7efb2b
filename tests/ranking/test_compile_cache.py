"""Where numba caches compiled loops in a container whose home and packages can't be written."""

import os
import stat
import tempfile
from pathlib import Path

from ranking.compile_cache import VARIABLE, choose_compile_cache


def test_a_private_folder_is_used_if_no_other_can_be_written(tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, "")  # restored after the test
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "file").write_text("")
    nowhere = [tmp_path / "file" / "__pycache__"]
    for _ in range(2):  # the second process finds the folder of the first
        monkeypatch.delenv(VARIABLE)
        choose_compile_cache(nowhere)
        chosen = Path(os.environ[VARIABLE])
        assert chosen == tmp_path / f"pyrite-numba-{os.getuid()}"
        assert stat.S_IMODE(chosen.stat().st_mode) == 0o700
    monkeypatch.delenv(VARIABLE)
    chosen.chmod(0o777)  # anybody could have put files there
    choose_compile_cache(nowhere)
    assert Path(os.environ[VARIABLE]) != chosen
    choose_compile_cache([tmp_path])  # what is set stays
    monkeypatch.delenv(VARIABLE)
    choose_compile_cache([tmp_path / "new"])
    assert VARIABLE not in os.environ
