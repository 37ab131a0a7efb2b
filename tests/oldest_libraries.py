"""Runs tests with the oldest supported libraries around sentence-transformers: `make nightly` does.

It makes an environment of its own, in a temporary folder, in front of the installed packages.
"""

import argparse
import os
import subprocess
import sys
import sysconfig
import tempfile
import venv
from collections.abc import Sequence
from pathlib import Path

OLDEST = ("sentence-transformers==5.3.0", "transformers==5.3.0", "tokenizers==0.22.2", "huggingface-hub==1.33.0")
"""What PyLate 1.6 pins, and what these versions need."""
PYLATE = ("pylate==1.6.0", "ujson==5.12.0")
"""PyLate, without what its indexes need."""
TESTS = ("tests/ranking/rankers/test_sentence_library.py", "tests/ranking/test_bi_encoder.py",
         "tests/ranking/test_cross_encoder.py", "tests/pyrite_torch")  # fmt: skip
ROOT = Path(__file__).resolve().parents[1]


def make_environment(folder: Path, packages: Sequence[str]) -> Path:
    """Make an environment with packages before those of this one, and return its Python."""
    venv.create(folder, with_pip=False, symlinks=True)
    python = folder / "bin" / "python"
    lib = f"python{sys.version_info.major}.{sys.version_info.minor}"
    own = folder / "lib" / lib / "site-packages"
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(own), *packages]
    subprocess.run(command, check=True)
    (own / "zz_installed.pth").write_text(f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n")
    return python


def main(arguments: Sequence[str] | None = None) -> None:
    """Make the environment, and run the tests in it."""
    known = argparse.ArgumentParser(description=__doc__)
    known.add_argument("--folder", help="a folder for the environment, which is kept; a temporary one by default")
    known.add_argument("tests", nargs="*", default=TESTS)
    chosen = known.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="pyrite-oldest-") as temporary:
        folder = Path(chosen.folder or temporary) / "environment"
        python = folder / "bin" / "python"
        if not python.exists():
            make_environment(folder, [*OLDEST, *PYLATE])
        environment = os.environ | {"PYTHONPATH": str(ROOT), "HYPOTHESIS_PROFILE": "nightly"}
        command = [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", *chosen.tests]
        raise SystemExit(subprocess.run(command, cwd=ROOT, env=environment).returncode)


if __name__ == "__main__":
    main()
