"""Bodies of tasks, and tasks, for the tests of executors."""

import os
import sys
import time
from pathlib import Path
from typing import Any

from pyrite.cluster.executors.processes import ProcessLost
from pyrite.cluster.executors.task import Context, Task
from pyrite.ranking.errors import BadInput

BODIES = "tests.cluster.executors.bodies"


class Counter:
    """Counts how often it was built, in a file that every process sees."""

    def __init__(self, folder: str, step: int = 1) -> None:
        self.step = step
        (Path(folder) / f"built-{os.getpid()}").touch(exist_ok=False)


def square(number: int) -> int:
    return number * number


def numbers(count: int) -> list[Task]:
    return [Task(str(n), f"{BODIES}:square", {"number": n}) for n in range(count)]


def add(counter: Counter, number: int, parts: Any = None) -> tuple[int, int]:
    return number + counter.step + (sum(parts.values()) if parts else 0), os.getpid()


def reports(number: int, context: Context) -> int:
    for step in range(1, number + 1):
        context.report({"epoch": step, "max_epochs": number, "validation": step / number})
    return number


def fails(folder: str, name: str, times: int, how: str = "raise") -> str:
    """Fail the first so many times: raise, refuse, lose a process of its own, or end this one."""
    path = Path(folder) / name
    tries = int(path.read_text()) if path.exists() else 0
    path.write_text(str(tries + 1))
    if tries < times:
        if how == "die":
            os._exit(7)
        if how == "lose":
            raise ProcessLost("status -9")
        raise BadInput("it is wrong", name) if how == "refuse" else ValueError(f"try {tries}")
    return f"{name} after {tries}"


def failing(folder: Path, name: str, times: int, how: str) -> Task:
    return Task(name, f"{BODIES}:fails", {"folder": str(folder), "name": name, "times": times, "how": how})


def waits(folder: str, seconds: float) -> None:
    """Leave a file at the start and one at the end."""
    (Path(folder) / f"started-{os.getpid()}").touch()
    time.sleep(seconds)
    (Path(folder) / f"ended-{os.getpid()}").touch()


def loses(folder: str) -> None:
    """Lose a process of its own once a file says so."""
    (Path(folder) / f"started-{time.monotonic_ns()}").touch()
    while not (Path(folder) / "lose").exists():
        time.sleep(0.02)
    raise ProcessLost("status -15")


def notebook(config: dict[str, Any], path: str) -> tuple[str, str]:
    """Return what a class of `__main__` has, and the content of a file."""
    name = config["policy"]["_target_"].removeprefix("__main__.")
    return getattr(sys.modules["__main__"], name).name, Path(path).read_text()
