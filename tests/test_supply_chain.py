"""What a release is built from is pinned: actions by commits, packages by hashes, weights by hashes."""

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def pins(name: str) -> dict[str, str]:
    """The version of each package in a file of requirements."""
    found = re.findall(r"^([\w.\[\]-]+)==([^\s;\\]+)", (ROOT / name).read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[-_.]+", "-", package.partition("[")[0]).lower(): version for package, version in found}


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_actions_are_pinned_by_commits_and_may_only_read(path):
    text = path.read_text("utf-8")
    used = re.findall(r"uses: (\S+)", text)
    assert used
    assert all(re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", action) for action in used)
    assert yaml.safe_load(text)["permissions"] == {"contents": "read"}
    installed = re.findall(r"pip install ([\w-]\S*)", text)
    assert all("==" in package or package.startswith("--") for package in installed)


def test_the_lock_has_a_hash_for_each_package_and_the_versions_of_the_constraints():
    locked, constrained = pins("requirements.lock"), pins("constraints.txt")
    assert len(locked) > 100
    different = {name for name in locked.keys() & constrained.keys() if locked[name] != constrained[name]}
    assert different == set()
    for entry in re.split(r"^(?=\w)", (ROOT / "requirements.lock").read_text("utf-8"), flags=re.MULTILINE)[1:]:
        assert "--hash=sha256:" in entry, entry


def test_what_pyproject_names_is_locked():
    content = (ROOT / "pyproject.toml").read_text("utf-8")
    named = re.findall(r'^    "([A-Za-z][\w.-]*)(?:\[[\w,]+\])?[>=]', content, re.MULTILINE)
    assert {re.sub(r"[-_.]+", "-", name).lower() for name in named} <= pins("requirements.lock").keys()


def test_no_index_wins_by_its_version():
    assert "unsafe-best-match" not in (ROOT / "Makefile").read_text("utf-8")


@pytest.mark.parametrize("name", ["bug", "capability"])
def test_forms_ask_for_what_an_answer_needs(name):
    form = yaml.safe_load((ROOT / ".github" / "ISSUE_TEMPLATE" / f"{name}.yml").read_text("utf-8"))
    ids = {field.get("id") for field in form["body"]}
    assert {"bug": {"version", "doctor", "command", "expected"}, "capability": {"question"}}[name] <= ids
