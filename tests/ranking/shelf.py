"""A backing for tests: a folder that all machines see, and a machine by the name of its home."""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest


@dataclass(frozen=True)
class Shelf:
    """Files of a folder. `told` lists what was fetched and published, by all machines."""

    place: str
    told: ClassVar[list[str]] = []

    @property
    def folder(self) -> Path:
        return Path(os.environ["SHELF_HOME"]) / "shelf"

    def fetch(self, name: str, file: Path) -> bool:
        source = Path(self.place, name)
        if not source.is_file():
            return False
        self.told.append(f"fetched {name}")
        file.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, file)
        return True

    def publish(self, file: Path, name: str) -> None:
        self.told.append(f"published {name}")
        Path(self.place, name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, Path(self.place, name))

    def withdraw(self, name: str) -> None:
        Path(self.place, name).unlink(missing_ok=True)

    def shown(self, name: str) -> str:
        return f"shelf:{name}"

    @classmethod
    def fetched(cls) -> list[str]:
        """What was fetched since this was asked."""
        names = [line.removeprefix("fetched ") for line in cls.told if line.startswith("fetched ")]
        cls.told.clear()
        return names


def on_machine(name: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on this process stands for the machine with this home."""
    monkeypatch.setenv("SHELF_HOME", str(name))
