"""A command whose extra is not installed says so in one line."""

import subprocess
import sys
import tomllib
from pathlib import Path

from cluster.config.build import EXTRAS, missing_extra

HIDING = """
import sys
for name in {hidden}:
    sys.modules[name] = None
from cluster.commands.cli import main
main(["judge", "runs=somewhere", "collection=pydocs"])
"""


def test_what_to_install():
    program = HIDING.format(hidden=[module for module, extra in EXTRAS.items() if extra == "judge"])
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ended.returncode == 2, ended.stdout + ended.stderr
    assert "pip install 'pyrite-ir[judge]'" in ended.stderr.splitlines()[-1]


def test_a_module_of_an_extra_is_told_from_any_other_and_extras_are_those_of_the_package():
    assert missing_extra(ModuleNotFoundError("no", name="colours")) is None
    assert "pyrite-ir[rl]" in str(missing_extra(ModuleNotFoundError("no", name="tree")))
    with (Path(__file__).parents[3] / "pyproject.toml").open("rb") as file:
        extras = tomllib.load(file)["project"]["optional-dependencies"]
    assert set(EXTRAS.values()) <= set(extras)
    assert {line.partition(">")[0] for line in extras["judge"]} == {m for m, of in EXTRAS.items() if of == "judge"}
    assert f"pyrite-ir[{','.join(sorted({*EXTRAS.values(), 'hub', 'peft', 'track'}))}]" in extras["dev"]
