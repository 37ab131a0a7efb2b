"""README and docs say nothing that the command line refuses: commands and options compose, paths and links exist."""

import copy
import functools
import importlib.util
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import yaml

from pyrite.cluster.commands.experiment import verb_named
from pyrite.cluster.commands.pool import DEFAULT
from pyrite.cluster.commands.resuming import read
from pyrite.cluster.commands.verbs import SUBMITTABLE, VERBS, parser
from pyrite.cluster.config.aliases import quoted_baseline
from pyrite.cluster.config.compose import compose
from pyrite.cluster.config.declared import options_of
from pyrite.cluster.config.grammar import values_of
from pyrite.cluster.config.groups import CONF, fill_defaults, group_options, groups_of, option
from pyrite.cluster.config.parts import PARTS
from pyrite.cluster.config.schema import SHAPES
from pyrite.cluster.plan.pool_methods import split, variants
from pyrite.cluster.plan.sweep import key_of, plan
from pyrite.ranking.errors import BadInput

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *ROOT.glob("*/README.md")])


def begins_with(page: Path, sentence: str) -> bool:
    """Whether a sentence is the first behind a page's title."""
    return page.read_text("utf-8").partition("\n\n")[2].startswith(sentence)


GONE = "Made with version 0.2; the code is no longer here"
"""Begins a page of results whose commands no longer exist."""
COMPOSED = [
    pytest.param(page, marks=pytest.mark.nightly if page.parent.name == "experiments" else (), id=page.name)
    for page in PAGES if page.name != "CHANGELOG.md" and not begins_with(page, GONE)
]  # fmt: skip
PLACEHOLDER = re.compile(r"[A-Z]{2,}|^[A-Z]$|…|\.\.\.")
"""What stands for a value of the reader's own: OUT, N, FOLDER_OR_URI, …"""
NEEDED = {
    **{name: ["ranker.checkpoint=somewhere"] for name in ("bi_encoder", "cross_encoder", "late_interaction", "sparse")},
    **{name: ["collection.path=somewhere"] for name in ("beir", "trec", "msmarco", "pairs")},
    "run_file": ["function.run_file.path=somewhere"],
    "ranker": ["teacher.checkpoint=somewhere"],
}
"""What an option can't be composed without."""
NEEDED_BY = {
    "audit": ["studies=somewhere"],
    "evaluate": ["runs=somewhere", "qrels=somewhere"],
    "judge": ["runs=somewhere", "collection=beir", "collection.path=somewhere"],
    "rank": ["checkpoint=somewhere"],
}
"""What a verb can't be composed without."""


def blocks(page: str) -> Iterator[str]:
    """Commands in code blocks and code spans, each on one line."""
    fenced = [
        block for language, block in re.findall(r"^```([a-z]*)\n(.*?)^```", page, re.M | re.S) if language != "python"
    ]
    spans = re.findall(r"`(\.?[^`\n]*\bpyrite [^`\n]+)`", re.sub(r"^```.*?^```", "", page, flags=re.M | re.S))
    for line in [line for block in fenced for line in block.replace("\\\n", " ").splitlines()] + spans:
        found = re.search(r"(?:^|[\s/&|])pyrite (.*)$", line.strip().removeprefix("$ "))
        if found and re.match(r"[a-z]+\b", found[1]):
            yield found[1]


def words(command: str) -> list[str]:
    """A command's words, without what only the shell reads."""
    found = shlex.split(command, comments=True)
    stop = next((place for place, word in enumerate(found) if word in ("&&", "||", "|", ";", "&", ">")), len(found))
    return [word.rstrip(";") for word in found[:stop]]


@functools.cache
def keys(primary: str) -> dict[str, list[str]]:
    """All keys that options of a primary file may have, each with the choices of a group that bring it."""
    found: dict[str, list[str]] = {}

    def walk(node: object, key: str, choice: str) -> None:
        found.setdefault(key, []).append(choice)
        for name, value in node.items() if isinstance(node, dict) else ():
            if name != "defaults":
                walk(value, f"{key}.{name}".removeprefix("."), choice)

    def file(name: str, key: str, choice: str = "") -> None:
        text = (CONF / f"{name}.yaml").read_text("utf-8")
        package = re.match(r"# @package (\S+)", text)
        place = key if package is None else package[1].removeprefix("_global_").removeprefix("_global_.")
        node = yaml.safe_load(text) or {}
        fill_defaults(node)
        walk(node, place, choice)
        for default in node.get("defaults", []):
            for name, part in default.items() if isinstance(default, dict) else ((default, None),):
                group, _, where = str(name).removeprefix("override ").partition("@")
                if group.startswith("/") and where == "_here_":
                    file(group[1:] if part is None else f"{group[1:]}/{part}", place, choice)

    file(primary, "")
    declared = copy.deepcopy(options_of(primary))
    fill_defaults(declared)
    walk(declared, "", "")
    for group in groups_of(primary):
        for name in group_options()[group]:
            if name in PARTS.get(group, {}):
                walk(option(group, name), f"{group}.{name}" if group == "method" else group, f"{group}={name}")
            else:
                file(f"{group}/{name}", group, f"{group}={name}")
    return found


def known(override: str, primary: str) -> bool:
    """Whether an override's key is one of a primary file's, or of a part that it can choose."""
    key = key_of(override)
    of_one = re.match(r"\+*(?:negatives|selectors?)\.(\w+)", key)  # selector.bm25
    if of_one and "function" in groups_of(primary) and of_one[1] in group_options()["function"]:
        return True
    return key in keys(primary) or key in groups_of(primary) or override.startswith("+")


def is_tail(override: str) -> bool:
    """Whether it is the end of an option's path, as pages say it where the part is plain."""
    return any(key.endswith(f".{key_of(override)}") for primary in SHAPES for key in keys(primary))


def made_up(page: str) -> set[str]:
    """What a page says for an example, or of another program, and declares in a comment."""
    return {each.strip() for said in re.findall(r"<!-- not ours: (.*?) -->", page) for each in said.split(" ; ")}


@functools.cache
def check_command(command: str) -> None:
    """Compose what a command asks for, without reading any data."""
    given = words(command)
    if not given or given[0] not in VERBS:
        raise BadInput(f"there is no verb in {command!r}")
    given = ["OUT" if before == "--resume" else word for before, word in zip(["", *given], given, strict=False)]
    given = [word for word in given if word not in ("…", "...", "--resources")]
    # A page names the verb alone, or a file of overrides, which the test of `pyrite study FILE` composes.
    if given in (["report"], ["rank"]) or "--help" in given or (given[1:] and given[1].endswith(".yaml")):
        return
    if given[0] == "submit" and not {*SUBMITTABLE, "VERB"} & set(given):
        given.append("study")
    chosen, more = parser().parse_known_args(["study" if word == "VERB" else concrete(word) for word in given])
    overrides = [*getattr(chosen, "overrides", []), *(word for word in more if "=" in word)]
    verb = getattr(chosen, "sent", None) or chosen.verb
    if getattr(chosen, "resume", None) or verb in ("report", "options"):
        for text in overrides:
            assert any(known(text, primary) for primary in SHAPES), f"{text}: there is no such option"
    elif verb in ("study", "train"):
        experiment = read(verb_named(verb), [*(text for text in overrides if key_of(text) != "out"), "out=somewhere"])
        if verb == "study":
            point = experiment.plan.points()[0]  # tests of the experiments compose them all
            plan(point, point.at([0.5] * len(point.intervals)), experiment.plan.seeds[:1])
    elif verb in ("audit", "learn", "mine", "rank"):
        own = [text for text in overrides if "=" in text or verb != "audit"]
        compose([*own, *NEEDED_BY.get(verb, [])], verb)
    elif verb == "pool":
        names, options, others = split(overrides)
        variants(names or DEFAULT, options, compose(others, "pool")["preset"]["overrides"])
    elif verb == "judge" and {key_of(text) for text in overrides} - {"out", "port", "host"}:
        compose(overrides, "judge")


def concrete(word: str) -> str:
    """An override with something in the place of what is the reader's own."""
    key, sign, value = word.partition("=")
    if value == "N":
        return f"{key}=3"
    value = value.replace("…", "somewhere").replace("...", "somewhere")
    names = r"(?<![A-Za-z0-9@])[A-Z][A-Z_]{2,}(?![A-Za-z0-9@])"  # of several, each has a place of its own
    value = re.sub(names, lambda name: f"somewhere/{name[0]}", value)
    return quoted_baseline(f"{key}{sign}{value}")


def options_in(page: str) -> Iterator[str]:
    """Code spans that are one override."""
    for span in re.findall(r"(?<!`)`([^`\n]+)`(?!`)", re.sub(r"^```.*?^```", "", page, flags=re.M | re.S)):
        if re.fullmatch(r"[+~]?[a-z][a-z0-9_]*(\.[A-Za-z0-9_]+)*=\S*", span):
            yield span


@functools.cache
def composes(override: str) -> bool:
    """Whether some command takes an option, with whatever is chosen beside it."""
    key, value = key_of(override), override.partition("=")[2]
    for primary in SHAPES:
        if not known(override, primary):
            continue
        if PLACEHOLDER.search(value) or not value:
            return True
        for choice in (keys(primary).get(key) or [""])[-3:]:
            needed = [choice, *NEEDED.get(choice.partition("=")[2], [])] if choice else []
            needed = [*NEEDED_BY.get(primary, []), *needed, *NEEDED.get(value, [])]
            try:
                for each in values_of(override):
                    compose([*needed, f"{key}={each}"], primary)
            except BadInput:
                continue
            return True
    return is_tail(override)


@pytest.mark.parametrize("page", COMPOSED)
def test_commands_compose(page, monkeypatch):
    # What a page calls FOLDER does not exist here.
    monkeypatch.setattr("pyrite.ranking.collections.format_of.format_of", lambda path: "pairs")
    text, wrong = page.read_text("utf-8"), []
    for command in dict.fromkeys(blocks(text)):
        if set(words(command)) & made_up(text):
            continue
        try:
            check_command(command)
        except (BadInput, SystemExit, AssertionError, ValueError) as error:
            wrong.append(f"pyrite {command}: {error}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("page", COMPOSED)
def test_options_exist(page):
    text = page.read_text("utf-8")
    named = [each for each in dict.fromkeys(options_in(text)) if each not in made_up(text)]
    wrong = [each for each in named if not (any(known(each, primary) for primary in SHAPES) or is_tail(each))]
    assert not wrong, wrong


@pytest.mark.nightly
@pytest.mark.parametrize("page", COMPOSED)
def test_options_take_their_values(page):
    text = page.read_text("utf-8")
    wrong = [each for each in dict.fromkeys(options_in(text)) if each not in made_up(text) and not composes(each)]
    assert not wrong, wrong


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_paths_and_links_exist(page):
    text = page.read_text("utf-8")
    links = [link.partition("#")[0] for link in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in link]
    wrong = [link for link in links if link and not (page.parent / link).exists()]
    rooms = "ranking|sampling|rl|pooling|cluster|tests|benchmarks|docs|deploy|examples"
    for path in re.findall(rf"`((?:{rooms})/[\w./*-]+)`", text):
        there = (path.rstrip("/"), f"{path}.py", f"{path.rpartition('.')[0]}.py")  # rl/policy.LearnedPolicy
        if path not in made_up(text) and not any(each and list(ROOT.glob(each)) for each in there):
            wrong.append(path)
    assert not wrong, wrong


def test_what_nobody_defines_is_found():
    for command in ("study training.acumulate=4", "train scale=small colour=red", "pool method=nobody", "fly"):
        with pytest.raises((BadInput, SystemExit, AssertionError)):
            check_command(command)
    check_command("study function=random,bm25 selector=uniform seeds=2")
    assert not composes("training.acumulate=4")
    assert composes("function.bm25.k1=1.2")
    assert list(blocks("```\n.venv/bin/pyrite study \\\n  seeds=2\n```\n")) == ["study    seeds=2"]
    assert list(blocks("```python\nfrom pyrite import BM25\n```\n")) == []


def test_the_map_names_one_file_an_answer():
    table = (ROOT / "CONTRIBUTING.md").read_text("utf-8").split("Fourteen questions", 1)[1].split("\n\n")[1]
    rows = [row.strip("| ").split(" | ") for row in table.splitlines()[2:]]
    assert len(rows) == 14
    for question, answer in rows:
        named = re.match(r"`([\w/]+)`", answer)
        assert question.endswith("?")
        assert named, answer
        assert (ROOT / "cluster" / f"{named[1]}.py").is_file(), answer
        for name in re.findall(r": `([\w.]+)`", answer):
            assert re.search(rf"(def|class) {name.split('.')[-1]}\b", (ROOT / "cluster" / f"{named[1]}.py").read_text())


A_FILE_PER_CLASS = (
    "cluster/config/schema", "pooling/adjudicators", "ranking/batches", "ranking/objectives", "ranking/rankers",
    "rl/agents", "sampling/policies", "sampling/retrieval", "sampling/selection",
)  # fmt: skip
"""Folders whose files have the names of what they define, so that the map lists only those that don't."""


def test_the_map_names_every_file_but_those_with_a_class_each():
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    packages = ("analysis", "cluster", "pooling", "pyrite", "ranking", "rl", "sampling")
    files = [path.relative_to(ROOT) for package in packages for path in (ROOT / package).rglob("*.py")]
    listed = [file for file in files if not file.as_posix().startswith(A_FILE_PER_CLASS)]
    missing = [file.as_posix() for file in listed if f"`{file.stem}`" not in text and not file.stem.startswith("__")]
    assert len(listed) > 300
    assert not missing, "name them in CONTRIBUTING.md, in the row of their folder"


PRIVATE = re.compile(
    r"""ray\._[a-z]+(?:\.[a-z]\w+)?           # a private package of Ray, and a module of it
      | ray\.(?:dashboard\.\w+ | core\.\w+ | tune\.trainable)
      | (?<=\.)(?:_verify|_setup_logdir|_logdir|_create_iterator_if_necessary|update_resources|pickled_error_file)\b
      | (?<=def\ )(?:_setup_logdir|_create_iterator_if_necessary)\b
      | (?<=self\.)_module\b(?=\[)
      | (?<=tune_controller\.)stop_trial\b
      | \b(?:controller_failure|worker\.mode|preempted(?==)|RAY_JOB_CONFIG_JSON_ENV_VAR|_client_job(?==))""",
    re.VERBOSE,
)
"""Names of Ray that are private, or public in the source alone, as they are written in code."""
IMPORTED = re.compile(r"from (ray\._\w+) import (?=[a-z])")


def test_every_private_name_of_ray_is_listed_with_its_file_and_no_other():
    page = (ROOT / "docs" / "reference" / "ray_internals.md").read_text()
    rows = re.findall(r"^\| `([\w/]+\.py)` \| (.+?) \|", page, re.MULTILINE)
    listed = {file: set(re.findall(r"`([^`]+)`", names)) for file, names in rows}
    used = {
        path.relative_to(ROOT).as_posix(): names
        for folder in ("cluster", "analysis", "rl", "ranking", "sampling", "pooling")
        for path in (ROOT / folder).rglob("*.py")
        if (names := set(PRIVATE.findall(IMPORTED.sub(r"\1.", path.read_text("utf-8")))))
    }
    assert "ray._private.worker" in used["cluster/executors/session.py"]
    assert listed == used


@pytest.fixture(scope="module")
def site() -> ModuleType:
    """docs/site_pages.py."""
    pytest.importorskip("mkdocs", reason="needs mkdocs-material, of the extra dev")
    spec = importlib.util.spec_from_file_location("site_pages", ROOT / "docs" / "site_pages.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_each_kind_has_a_page_with_one_line_for_each_part(site):
    pages = dict(site.parts_pages())
    for group in ("selector", "function", "policy", "ranker", "objective", "method"):
        for name in group_options()[group]:
            row = rf"^\| (\[)?`{name}`(\]\(\.\./api/\S+\))? \| \S.{{10,}} \|$"
            assert re.search(row, pages[f"reference/parts/{group}.md"], re.MULTILINE), f"{group}={name}"
    simans = "[`simans`](../api/pyrite.sampling.selection.simans.md#pyrite.sampling.selection.simans.SimANS)"
    assert simans in pages["reference/parts/selector.md"]
    assert "[Selectors](selector.md)" in pages["reference/parts/index.md"]


def test_each_module_has_a_page(site):
    pages = dict(site.generated_pages())
    assert "reference/api/pyrite.sampling.selection.simans.md" in pages
    assert "::: pyrite.comparison" in pages["reference/api/pyrite.comparison.md"]
    assert pages["index.md"].startswith("# Pyrite")


def test_links_between_docs_and_project_files_are_rewritten(site):
    assert site.site_path("docs/guide/studies.md") == "guide/studies.md"
    assert site.site_path("README.md") == "index.md"
    assert site.site_path("benchmarks/README.md") == "project/benchmarks/README.md"


@pytest.mark.nightly
def test_the_site_builds_without_a_broken_link(site, tmp_path):
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]
    home = (tmp_path / "index.html").read_text("utf-8")
    assert 'href="guide/studies.html' in home
    for image in re.findall(r'<img [^>]*src="([^"]+)"', home):
        assert image.startswith("https://") or (tmp_path / image).is_file(), image
    assert (tmp_path / "search" / "search_index.json").is_file()
