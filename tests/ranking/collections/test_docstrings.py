"""Bytecode holds the same docstrings as the source, in the same order, and counts only if it is that of the source."""

import os
import py_compile
from pathlib import Path

import pytest

from pyrite.ranking.collections import docstrings as extraction
from pyrite.ranking.collections.docstrings import docstrings

SOURCE = '''"""The module's."""
from typing import overload
if 0:
    def never():
        """Is not compiled."""
while False:
    class Never:
        """Nor this."""
else:
    def after_the_loop():
        """Is compiled."""

@overload
def twice(a: int): """First of two."""

def twice(a):
    """Second.

        Indented.
    """
    count = """no docstring"""
    def inner():
        """Within a function."""
    return lambda: inner

def only_text():
    return """not a docstring"""

class Assigned:
    __doc__ = """Assigned, so no docstring."""

class Outer:
    """Of a class."""
    __slots__ = ()
    class Inner:
        def method(self): """Of a method."""
    @property
    def value(self):
        """Getter."""
    @value.setter
    def value(self, new):
        """Setter."""

async def waiting():
    """Of a coroutine."""

def formatted():
    f"""Formatted, so {1} none."""

try:
    def tried(): """In try."""
except ImportError:
    def tried(): """In except."""
else:
    def tried(): """In else."""
finally:
    def last(): """In finally."""
GLOBAL = [(lambda: """none""") for _ in """none"""]
'''


@pytest.fixture
def module(tmp_path: Path) -> Path:
    path = tmp_path / "module.py"
    path.write_text(SOURCE)
    return path


def found(path: Path, bytecode: bool) -> list[tuple[str, str, str]]:
    return [(one.name, one.kind, one.text) for one in docstrings([("m", str(path))], bytecode=bytecode)]


def test_bytecode_has_the_docstrings_of_the_source(module, monkeypatch):
    parsed = found(module, bytecode=False)
    assert parsed[:5] == [
        ("m", "module", "The module's."),
        ("m.after_the_loop", "function", "Is compiled."),
        ("m.twice", "function", "First of two."),
        ("m.twice", "function", "Second.\n\nIndented."),
        ("m.twice.inner", "function", "Within a function."),
    ]
    assert [name for name, *_ in parsed[5:]] == [
        "m.Outer", "m.Outer.Inner.method", "m.Outer.value", "m.Outer.value",
        "m.waiting", "m.tried", "m.tried", "m.tried", "m.last",
    ]  # fmt: skip
    py_compile.compile(str(module), doraise=True)
    monkeypatch.setattr(extraction, "_tree", lambda source: pytest.fail("parsed"))
    assert found(module, bytecode=True) == parsed


@pytest.mark.parametrize("damage", ["none", "cut", "older", "of another Python"])
def test_a_source_without_its_bytecode_is_parsed(module, damage):
    parsed = found(module, bytecode=False)
    if damage != "none":
        compiled = Path(py_compile.compile(str(module), doraise=True))
        content = compiled.read_bytes()
        if damage == "older":
            module.write_text(SOURCE + '\ndef more():\n    """More."""\n')
            os.utime(module, (1, 1))
            parsed.append(("m.more", "function", "More."))
        else:
            compiled.write_bytes(content[:40] if damage == "cut" else b"\0\0\0\0" + content[4:])
    assert found(module, bytecode=True) == parsed


def test_the_bytecode_of_a_users_folder_is_not_read(module, monkeypatch):
    from pyrite.ranking.collections.pydocs import Pydocs

    py_compile.compile(str(module), doraise=True)
    monkeypatch.setattr(extraction, "_cached_bytecode", lambda path: pytest.fail("read"))
    texts = Pydocs(folders=[module.parent], document_words=1, query_words=1)._content
    assert texts is not None


@pytest.mark.parametrize("between", ["\x0c", "# a \x0b b", "# a \x1c b", "# a \x85 b", "# a \u2028 b"])
def test_the_code_of_a_function_is_its_own_after_any_character(between, module):
    function = 'def {0}(number):\n    """Return the {0} of it."""\n    return number["{0}"]\n'
    module.write_text(f"{function.format('first')}{between}\n{function.format('second')}", "utf-8")
    found = docstrings([("module", str(module))], code=True)
    for name, docstring in zip(("first", "second"), found, strict=True):
        assert docstring.code == f'def {name}(number):\n    return number["{name}"]'
