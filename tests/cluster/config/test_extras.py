"""A command whose extra is not installed says so in one line."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from cluster.config.build import EXTRAS, missing_extra

HIDING = """
import sys
for name in {hidden}:
    sys.modules[name] = None
from cluster.commands.cli import main
main({arguments})
"""


@pytest.mark.parametrize(
    ("verb", "extra"), [("judge", "judge"), pytest.param("learn", "rl", marks=pytest.mark.nightly)]
)
def test_what_to_install(verb: str, extra: str, tmp_path: Path) -> None:
    hidden = [module for module, of in EXTRAS.items() if of == extra]
    given = {
        "judge": ["judge", "runs=somewhere", "collection=pydocs"],
        "learn": ["learn", "scale=tiny", "episodes=1", "random_baseline=0", "workers=0", f"out={tmp_path}"],
    }[verb]
    ended = subprocess.run(
        [sys.executable, "-c", HIDING.format(hidden=hidden, arguments=given)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ended.returncode == 2, ended.stdout + ended.stderr
    assert f"pip install 'pyrite-ir[{extra}]'" in ended.stderr.splitlines()[-1]


def test_a_module_of_no_extra_is_an_error_like_any_other() -> None:
    assert missing_extra(ModuleNotFoundError("no", name="colours")) is None


def test_the_extras_are_those_of_the_package() -> None:
    with (Path(__file__).parents[3] / "pyproject.toml").open("rb") as file:
        extras = tomllib.load(file)["project"]["optional-dependencies"]
    assert set(EXTRAS.values()) <= set(extras)
    assert {line.partition(">")[0] for line in extras["judge"]} == {m for m, of in EXTRAS.items() if of == "judge"}
    assert f"pyrite-ir[{','.join(sorted({*EXTRAS.values(), 'hub', 'peft', 'track'}))}]" in extras["dev"]
