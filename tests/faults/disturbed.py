"""A command on a cluster whose processes and machines are killed at random moments."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from tests.nodes import SYSTEM, Nodes

PATIENCE = 240.0
"""Seconds in which a command on the tests' tiny data comes to an end, however it was disturbed."""

NOTICE = 20.0
"""Seconds before a node is taken away that is to be."""


@dataclass(frozen=True)
class Job:
    """A command that can be gone on with.

    Args:
        verb: of the command.
        overrides: beside `out`.
        victims: what is killed: titles of processes (`LockstepRunner`), or `node`, `driver`, `head`; `drain` is a node
            that is taken away on notice.
        results: what it leaves in its folder, to be compared with what an undisturbed one leaves.
        cpus: of the cluster's nodes, the head's first.
    """

    verb: str
    overrides: list[str]
    victims: tuple[str, ...]
    results: Callable[[Path], dict[str, Any]]
    cpus: tuple[float, ...] = (2, 2)

    def command(self, out: Path) -> list[str]:
        """To begin, or to go on."""
        if self.verb != "train" and (out / "config.yaml").exists():
            return [self.verb, "--resume", str(out)]
        return [self.verb, *self.overrides, f"out={out}"]


@dataclass
class Disturbed:
    """A job under a killer, whose moments and order of victims `rng` chooses."""

    job: Job
    folder: Path
    rng: np.random.Generator
    history: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.nodes = Nodes(*self.job.cpus)
        self.log = self.folder / "log"
        self.waiting: list[str] = []  # victims that are still to be killed in this round
        self.left: list[str] = []  # processes that outlived their cluster

    def close(self) -> None:
        """End the cluster."""
        self.left += self.nodes.close()

    def undisturbed(self, out: Path) -> float:
        """Run the job in peace; the seconds that its work takes."""
        driver = self.nodes.start(*self.job.command(out), log=self.log)
        self._until(lambda: self._working() or driver.poll() is not None)
        began = time.monotonic()
        assert self._ended(driver) == 0, self.said()
        return time.monotonic() - began

    def run(self, out: Path, span: float, kills: int) -> int:
        """Run the job through at most so many kills, each within `span` seconds, and return how many there were."""
        done, headless = 0, False
        driver = self.nodes.start(*self.job.command(out), log=self.log)
        while True:
            self._until(lambda driver=driver: self._working() or driver.poll() is not None)
            if not self.waiting:  # each as often as any other
                self.waiting = [str(each) for each in self.rng.permutation(self.job.victims)]
            victim = self.waiting.pop()
            moment = self.rng.uniform(0, 0.5 * span)  # again and again, until it is through
            with contextlib.suppress(subprocess.TimeoutExpired):
                driver.wait(moment)
            if driver.poll() is None and done < kills and self._kill(victim, driver):
                done, headless = done + 1, victim == "head"
                self.history.append(f"{victim} after {moment:.1f} s")
            else:
                self.waiting.insert(0, victim)
            if driver.poll() is None and victim not in ("driver", "head"):
                if done < kills:
                    continue
                self._ended(driver)
            code = self._ended(driver)
            if headless:
                self.close()
                self.nodes, headless = Nodes(*self.job.cpus), False
            if code == 0:
                return done
            assert victim in ("driver", "head"), f"ended with {code} after {self.history}\n{self.said()}"
            driver = self.nodes.start(*self.job.command(out), log=self.log)

    def leftovers(self) -> list[str]:
        """Actors and placement groups that are still there when the job has ended, and processes of ended clusters."""
        state = self.nodes.cluster.global_state

        def found() -> list[str]:
            actors = [f"actor {each['ActorClassName']}" for each in state.actor_table(None).values()
                      if each["State"] not in ("DEAD",)]  # fmt: skip
            groups = [f"placement group {key}" for key, each in state.placement_group_table().items()
                      if each["state"] != "REMOVED"]  # fmt: skip
            busy = [title for _, title in self._working()]
            return actors + groups + busy

        with contextlib.suppress(AssertionError):
            self._until(lambda: not found(), 20)
        return found() + self.left

    def said(self) -> str:
        """The end of what the command has printed."""
        return self.log.read_text(errors="replace")[-3000:]

    def _working(self, on: Any = None) -> list[tuple[psutil.Process, str]]:
        titles = self.nodes.processes(on).items()
        return [(process, title) for process, title in titles if not title.startswith(SYSTEM)]

    def _kill(self, victim: str, driver: subprocess.Popen[bytes]) -> bool:
        """Kill it without warning; False where there is none."""
        if victim == "driver":
            os.killpg(driver.pid, signal.SIGKILL)
        elif victim == "head":
            self.nodes.lose(self.nodes.cluster.head_node)
        elif victim in ("node", "drain"):
            lost = self.nodes.workers[int(self.rng.integers(len(self.nodes.workers)))]
            if victim == "drain":
                self.nodes.drain(lost, NOTICE)
                self.nodes.add(self.job.cpus[1])
                with contextlib.suppress(AssertionError):  # what is too long in a step is lost with the node
                    self._until(lambda: driver.poll() is not None or not self._working(lost), NOTICE)
            self.nodes.lose(lost)
            if victim == "node":
                self.nodes.add(self.job.cpus[1])
        else:
            there: list[psutil.Process] = []
            deadline = time.monotonic() + 3  # encoders come and go
            while not there and driver.poll() is None and time.monotonic() < deadline:
                there = [process for process, title in self._working() if victim == "trial" or victim in title]
            if not there:
                return False
            there[int(self.rng.integers(len(there)))].kill()
        return True

    def _ended(self, driver: subprocess.Popen[bytes]) -> int:
        try:
            return driver.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            os.killpg(driver.pid, signal.SIGKILL)
            raise AssertionError(f"it never ended after {self.history}\n{self.said()}") from None

    def _until(self, what: Callable[[], Any], patience: float = PATIENCE) -> None:
        deadline = time.monotonic() + patience
        while not what():
            assert time.monotonic() < deadline, f"it never came so far after {self.history}\n{self.said()}"
            time.sleep(0.1)
