"""Objects of the Python API in an interactive session: names that they have, and those that they don't."""

import copy
import pickle
import subprocess
import sys

import pytest

import pyrite
from pyrite.public import HERE, Public


class Broken(Public):
    """A class with a property that fails, and a class method."""

    @property
    def failing(self) -> int:
        """Raise an error of its own."""
        return {}.missing  # type: ignore[attr-defined, no-any-return]

    @classmethod
    def from_pairs(cls, path: str) -> str:
        """Return the argument."""
        return path


def test_a_missing_attribute_is_refused_with_the_one_that_is_meant():
    study = pyrite.Study(pyrite.Collection.pydocs(), {"a": pyrite.BM25(1)})
    with pytest.raises(AttributeError, match=r"^Study has no attribute 'comand'; did you mean command\?$"):
        study.comand  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(AttributeError, match=r"^Study has no attribute 'start'; did you mean run\?$"):
        study.start()  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match=r"^Study has no attribute 'zebra'; it has command, more_seeds, out, over"):
        study.zebra  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(AttributeError, match=r"^Collection has no attribute 'from_csv'; did you mean from_pairs\?$"):
        pyrite.Collection.from_csv("x.csv")  # type: ignore[attr-defined]
    assert all(HERE.values())


def test_an_error_within_a_property_stays():
    with pytest.raises(AttributeError, match="'dict' object has no attribute 'missing'"):
        Broken().failing  # noqa: B018
    assert Broken.from_pairs("a") == "a"
    assert not hasattr(Broken(), "_repr_html_")


def test_objects_are_copied_and_pickled():
    data = pyrite.Collection.pydocs()
    assert copy.deepcopy(data).overrides() == pickle.loads(pickle.dumps(data)).overrides() == data.overrides()


def test_python_adds_no_guess_of_its_own():
    code = "import pyrite; pyrite.StudyResult.sumary"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False).stderr
    assert shown.splitlines()[-1] == "AttributeError: StudyResult has no attribute 'sumary'; did you mean summary?"


def test_results_that_are_not_finished_are_shown(tmp_path):
    result = pyrite.StudyResult(tmp_path / "nothing")
    assert repr(result).startswith(f"StudyResult({str(tmp_path / 'nothing')!r})\n")
    assert "there is no trials.parquet" in repr(result)
    assert result._repr_html_() is None
