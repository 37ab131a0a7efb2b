"""The built-in collection, over made-up packages and a small part of the standard library."""

import json
import platform
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from importlib.metadata import requires
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from pyrite.ranking.collections import packages
from pyrite.ranking.collections.cache import open_collection
from pyrite.ranking.collections.collection import Collection
from pyrite.ranking.collections.docstrings import Docstring, docstrings
from pyrite.ranking.collections.pydocs import Pydocs
from pyrite.ranking.errors import BadInput

ROOT = Path(__file__).resolve().parents[3]
STDLIB = Path(sysconfig.get_paths()["stdlib"])

MOLES = '''"""How moles live underground.

They dig long tunnels, and eat what falls into them.
"""

import nothing_that_exists


class Mole:
    """A mole that digs.

    It has strong hands and it can hardly see the light of day.
    """

    def dig(self):
        """Dig a new tunnel.

        The tunnel goes on from where the last one ended, at the same depth.
        """

        def helper():
            """Too short.

            Yes.
            """

    def eat(self, worm):
        r"""Eat one \\worm.

        Worms are kept alive in a larder until they are wanted for a meal.
        """

    async def sleep(self):
        """Sleep for some hours.

        Moles sleep three times a day, and each time for about four hours.
        """

    @property
    def depth(self):
        """The depth in metres, one paragraph only, however long it may be."""

    @depth.setter
    def depth(self, metres):
        """Set the depth once more.

        A second definition of one name gets an id that tells it from the first.
        """


if True:

    def twice():
        """Dig a new tunnel.

        Another answer to a question that was asked before is dropped with it.
        """

    def thrice():
        """Sleep for many hours.

        Moles sleep three times a day, and each time for about four hours.
        """
'''


@pytest.fixture
def burrow(tmp_path) -> Path:
    """A package of two modules, one of which is no Python, and its tests."""
    folder = tmp_path / "burrow"
    (folder / "tests").mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    (folder / "moles.py").write_text(MOLES)
    (folder / "template.py").write_text('"""A template.\n\nNot Python: {{ name }} """ ] def\n')
    (folder / "bytes.py").write_bytes(b'"""Not \xff text.\n\nAnd no encoding that says so."""\n')
    (folder / "tests" / "test_moles.py").write_text(MOLES)
    return folder


def read(folder: Path, cache: Path, queries: str = "first_paragraph", **options: Any) -> dict[str, tuple[str, ...]]:
    """Query text and the texts of its relevant documents, by the query's id."""
    collection = open_collection(Pydocs(queries, folders=[folder], **options), cache)
    texts = dict(collection.documents.select("id", "text").iter_rows())
    found = {id: (text,) for id, text in collection.queries.select("id", "text").iter_rows()}
    for query, document, grade in collection.judgements.iter_rows():
        assert grade == 1
        found[query] += (" ".join(texts[document].split()),)
    return found


def test_first_paragraphs_find_the_rest(burrow, cache):
    assert read(burrow, cache, document_words=8) == {
        "burrow.moles": ("How moles live underground.", "They dig long tunnels, and eat what falls into them."),
        "burrow.moles.Mole": ("A mole that digs.", "It has strong hands and it can hardly see the light of day."),
        "burrow.moles.Mole.dig": (
            "Dig a new tunnel.",
            "The tunnel goes on from where the last one ended, at the same depth.",
        ),
        "burrow.moles.Mole.eat": (
            "Eat one \\worm.",
            "Worms are kept alive in a larder until they are wanted for a meal.",
        ),
        "burrow.moles.Mole.sleep": (
            "Sleep for some hours.",
            "Moles sleep three times a day, and each time for about four hours.",
        ),
        "burrow.moles.Mole.depth#2": (
            "Set the depth once more.",
            "A second definition of one name gets an id that tells it from the first.",
        ),
    }


def test_package_and_module_are_the_categories(burrow, cache):
    collection = open_collection(Pydocs(folders=[burrow], document_words=8), cache)
    for frame in (collection.documents, collection.queries):
        assert set(frame.select("category", "subcategory").iter_rows()) == {("burrow", "burrow.moles")}


def test_short_ones_are_dropped(burrow, cache):
    kept = {f"burrow.moles.Mole.{name}" for name in ("dig", "eat", "depth#2")}
    assert set(read(burrow, cache, document_words=14)) == kept
    assert set(read(burrow, cache, document_words=8, query_words=5)) == {"burrow.moles.Mole.depth#2"}


def test_topics_have_their_members_as_relevant_documents(burrow, cache):
    found = read(burrow, cache, "topics", document_words=8)
    assert {query: texts[0] for query, texts in found.items()} == {
        "burrow.moles": "How moles live underground.",
        "burrow.moles.Mole": "A mole that digs.",
    }
    # The class is a topic, so its own document is without the paragraph that would find itself.
    _, *members = found["burrow.moles"]
    assert members[0] == "It has strong hands and it can hardly see the light of day."
    assert [member.partition(". ")[0] for member in members[1:]] == ["Dig a new tunnel", "Sleep for many hours"]
    _, *methods = found["burrow.moles.Mole"]
    assert [method.partition(".")[0].partition(",")[0] for method in methods] == [
        "Dig a new tunnel",
        "Eat one \\worm",
        "Sleep for some hours",
        "The depth in metres",
        "Set the depth once more",
    ]


def test_equal_topics_and_equal_documents_are_one(tmp_path, cache):
    method = '    def {0}(self):\n        """{1} with as many words as a document must have here."""\n'
    shared = "".join(method.format(name, name.upper()) for name in ("draw", "fill"))
    shapes = 'class {0}:\n    """All about shapes."""\n' + shared
    circle = shapes.format("Circle") + method.format("roll", "Roll")
    (tmp_path / "shapes.py").write_text(circle + shapes.format("Square") + method.format("tile", "Tile"))
    collection = open_collection(Pydocs("topics", document_words=5, folders=[tmp_path]), cache)
    assert collection.queries["id"].to_list() == ["shapes.Circle"]
    members = ("Circle.draw", "Circle.fill", "Circle.roll", "Square.tile")
    assert collection.judgements["document"].to_list() == [f"shapes.{member}" for member in members]


def test_bad_options(tmp_path, cache):
    with pytest.raises(BadInput, match="Pydocs: queries is 'titles'; choose first_paragraph or topics"):
        Pydocs("titles")
    with pytest.raises(BadInput, match="no such folder"):
        open_collection(Pydocs(folders=[tmp_path / "none"]), cache)
    (tmp_path / "empty").mkdir()
    with pytest.raises(BadInput, match="no Python files in it"):
        open_collection(Pydocs(folders=[tmp_path / "empty"]), cache)


def test_half_characters_are_replaced(tmp_path, cache):
    (tmp_path / "odd.py").write_text('def f():\n    """A half\\ud800 character here.\n\n    And some text more."""\n')
    assert read(tmp_path, cache, document_words=3)["odd.f"][0] == "A half? character here."


def test_a_part_of_the_standard_library(cache):
    collection = open_collection(Pydocs(folders=[STDLIB / "json", STDLIB / "email"], document_words=20), cache)
    assert set(collection.documents["category"]) == {"json", "email"}
    assert "json.decoder" in set(collection.documents["subcategory"])
    assert len(collection.queries) == len(collection.documents) == len(collection.judgements) > 50
    (dump,) = collection.queries.filter(id="json.dump")["text"]
    assert dump.startswith("Serialize ``obj`` as a JSON formatted stream")
    counts = dict(collection.queries["split"].value_counts().iter_rows())
    assert counts["train"] > 3 * (counts["dev"] + counts["test"])
    topics = open_collection(Pydocs("topics", folders=[STDLIB / "email"]), cache)
    assert topics.judgements["query"].value_counts()["count"].min() >= 3


def test_processes_find_what_one_finds(burrow):
    files = [(source.module, str(source.path)) for source in packages.tree(burrow)]
    files += [(source.module, str(source.path)) for source in packages.tree(STDLIB / "json")]
    alone = docstrings(files)
    assert docstrings(files, alone=0) == alone
    assert alone[0] == Docstring(2, "burrow.moles", "module", MOLES.split('"""')[1].strip())
    assert [found.file for found in alone] == sorted(found.file for found in alone)


def test_a_script_without_a_main_guard_can_ask(burrow, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import json, sys\n"
        f"sys.path.insert(0, {str(ROOT)!r})\n"
        "from pyrite.ranking.collections.docstrings import docstrings\n"
        f"print(json.dumps(docstrings([('moles', {str(burrow / 'moles.py')!r})], alone=0)))\n"
    )
    answer = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert len(answer.stdout.splitlines()) == 1
    assert [found[1] for found in json.loads(answer.stdout)][:2] == ["moles", "moles.Mole"]


def test_a_process_that_fails_says_why(tmp_path):
    with pytest.raises(RuntimeError, match="IsADirectoryError"):
        docstrings([("folder", str(tmp_path))], alone=-1)


Install = Callable[..., Path]


@pytest.fixture
def install(tmp_path) -> Install:
    """Installs made-up distributions into a folder: name, version and what it requires."""

    def write(name: str, version: str, requires: list[str], where: str = "site", documented: str = "") -> Path:
        site = tmp_path / where
        info = site / f"{name.replace('-', '_')}-{version}.dist-info"
        package = site / name.replace("-", "_").lower()
        info.mkdir(parents=True)
        package.mkdir()
        (package / "__init__.py").write_text(f'"""{documented or name} is a package.\n\nIt is made up for a test."""\n')
        metadata = [f"Name: {name}", f"Version: {version}", *(f"Requires-Dist: {one}" for one in requires)]
        (info / "METADATA").write_text("Metadata-Version: 2.1\n" + "\n".join(metadata) + "\n")
        files = [f"{package.name}/__init__.py", f"{package.name}/tests/test_it.py", f"{info.name}/METADATA"]
        files += ["../../bin/tool.py", f"{package.name}/not-a-module.py", f"{package.name}/data.json"]
        (info / "RECORD").write_text("".join(f"{file},sha256=x,1\n" for file in files))
        return site

    return write


def test_the_packages_are_a_list_whatever_else_is_installed(install, monkeypatch):
    monkeypatch.setattr(packages, "PACKAGES", ("alpha-one", "beta", "gamma"))
    install("alpha_one", "2.0", ["delta"])
    install("delta", "1.0", [])
    site = install("beta", "1.0", [])
    install("beta", "3.0", [], "later")
    found = packages.installed([str(site), str(site.parent / "later")])
    assert {name: one.version for name, one in found.items()} == {"alpha-one": "2.0", "beta": "1.0"}
    assert [source.module for source in packages.sources(found["alpha-one"])] == ["alpha_one"]


def test_the_fingerprint_tells_environments_apart(install, cache, monkeypatch):
    monkeypatch.setattr(packages, "PACKAGES", ("alpha", "beta", "gamma"))

    def opened(where: str, alpha: str, names: list[str]) -> Collection:
        for name in names:
            site = install(name, alpha if name == "alpha" else "1.0", [], where)
        installed = packages.installed([str(site)])
        with monkeypatch.context() as patch:
            patch.setattr("pyrite.ranking.collections.pydocs.packages.installed", lambda: installed)
            patch.setattr("pyrite.ranking.collections.pydocs.packages.standard_library", list)
            collection = open_collection(Pydocs(query_words=1, document_words=1), cache)
        assert collection.facts["packages"].startswith(f"Python {platform.python_version()}, alpha {alpha}, beta 1.0")
        return collection

    first = opened("one", "1.0", ["alpha", "beta"])
    assert first.facts["packages that are not installed"] == "gamma"
    assert opened("two", "1.0", ["beta", "unrelated", "alpha"]).fingerprint == first.fingerprint
    assert opened("three", "1.1", ["alpha", "beta"]).fingerprint != first.fingerprint
    whole = opened("four", "1.0", ["alpha", "beta", "gamma"])
    assert whole.fingerprint != first.fingerprint
    assert "packages that are not installed" not in whole.facts
    assert len(list(cache.iterdir())) == 3


def test_every_package_of_the_list_is_installed():
    assert list(packages.installed()) == list(packages.PACKAGES)


BURROWS = '''
class Burrow:
    """A burrow."""

    @property
    def depth(self) -> int:
        """Return how deep the burrow is.

        In metres.
        """
        total = 0
        for chamber in self.chambers:
            total += chamber.height
        return total

    def only_described(self):
        """Return nothing at all, since there is no code."""

    def short(self): """Return what a line says."""; return 1


def dig(depth):
    """Dig as deep as the argument says."""

    def inner(step):
        """Move the earth of one step."""
        return [step for _ in range(depth) if step > 0 and depth > 0]

    return [inner(step) for step in range(depth) if depth > 0]
'''


def test_functions_without_their_docstrings_are_documents(tmp_path, cache):
    (tmp_path / "burrows.py").write_text(BURROWS)
    texts = read(tmp_path, cache, documents="code", document_words=10)
    assert set(texts) == {"burrows.Burrow.depth", "burrows.dig", "burrows.dig.inner"}
    query, code = texts["burrows.Burrow.depth"]
    assert query == "Return how deep the burrow is."
    assert code == (
        "def depth(self) -> int: total = 0 for chamber in self.chambers: total += chamber.height return total"
    )
    assert "Dig as deep" not in texts["burrows.dig"][1]
    files = [("burrows", str(tmp_path / "burrows.py"))]
    assert docstrings(files, code=True, alone=0) == docstrings(files, code=True)


def test_some_packages_are_read_and_others_refused(cache):
    collection = open_collection(Pydocs(documents="code", packages=["joblib"]), cache)
    assert set(collection.documents["category"]) == {"joblib"}
    assert collection.name == "pydocs-code"
    assert len(collection.queries) > 50
    for options, message in (
        ({"packages": ["nothing"]}, "no package 'nothing' is read .*; choose from python, fonttools"),
        ({"queries": "topics", "documents": "code"}, "topics have docstrings as documents"),
    ):
        with pytest.raises(BadInput, match=message.split(" .*")[0]):
            Pydocs(**options)


def test_a_plain_installation_has_every_package_of_the_collection():
    """Packages of an extra would give two users two collections, and another table than the documentation's."""
    known, waiting = set[str](), [("pyrite-ir", "")]
    while waiting:
        name, extra = waiting.pop()
        for requirement in map(Requirement, requires(name) or []):
            if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
                found = {(canonicalize_name(requirement.name), each) for each in ("", *requirement.extras)}
                waiting += [pair for pair in found if str(pair) not in known]
                known |= {*map(str, found), canonicalize_name(requirement.name)}
    assert known >= {*packages.PACKAGES}
