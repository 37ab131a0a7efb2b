from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = {"torch", "ray", "polars", "numpy", "hydra", "matplotlib", "scipy", "transformers"}


@pytest.mark.parametrize("verb", [[], ["train"], ["study"], ["report"], ["options"]])
def test_help_loads_nothing_heavy(verb: list[str]) -> None:
    code = (
        "import sys\nfrom cluster.cli import main\n"
        f"try: main({[*verb, '--help']!r})\nexcept SystemExit: pass\n"
        f"print('LOADED', sorted({HEAVY!r} & set(sys.modules)))"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "usage: pyrite" in shown
    assert "LOADED []" in shown


def test_options_shows_values_and_choices(capsys: pytest.CaptureFixture[str]) -> None:
    from cluster.cli import main

    with pytest.raises(SystemExit) as ended:
        main(["options", "ranker=match_pyramid"])
    assert ended.value.code in (None, 0)
    shown = capsys.readouterr().out
    assert "MatchPyramid" in shown
    assert "selector=dynamic" in shown
