"""Summarizes from the event log what a command lost and repeated."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from rich.console import Console

from cluster.output.event_log import EventLog
from cluster.output.storage import Storage
from cluster.output.terminal import counted

LOSSES = ("is lost", "is to be taken away")
"""Words of a run's messages that belong here."""
MAX_RUNS = 30
"""Runs that are listed one by one."""


def failure_summary(events: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return sentences for reports; none if nothing was lost."""
    resumed, lost, again, moved = 0, Counter[str](), Counter[str](), Counter[str]()
    lines: list[str] = []
    reasons: defaultdict[str, list[str]] = defaultdict(list)
    unit, finished = "epoch", False
    for event in events:
        kind, run = event["event"], str(event.get("run", ""))
        if kind in ("began", "resumed"):
            resumed += kind == "resumed" and not finished  # a finished command may be extended, or only reported again
            finished = False
        elif kind == "finished":
            finished = True
        elif kind == "run lost":
            lost[run] += 1
            reasons[run].append(f"at {event.get('unit', unit)} {event.get('reached', 0)} ({event.get('reason', '')})")
        elif kind == "run moved":
            moved[run] += 1
        elif kind == "run went on":
            unit = str(event.get("unit", unit))
            again[run] += int(event.get("repeats", 0))
        elif kind == "lost":
            lines.append(f"{event.get('says', '')}.")
        elif kind == "run says" and any(sign in str(event.get("line", "")) for sign in LOSSES):
            lines.append(f"{run}: {event['line']}.")
    head = []
    if resumed:
        head.append(f"It was interrupted and resumed {_times(resumed)}.")
    if lost:
        were = "was" if len(lost) == 1 else "were"
        times = _times(lost.total())
        head.append(f"{counted(len(lost), 'run')} {were} stopped by an error or a lost process, {times} in all.")
    if moved:
        moves = f"{counted(len(moved), 'run')} continued on another machine"
        head.append(f"{moves}, {_times(moved.total())} in all, before a machine was taken away; nothing was lost.")
    if again.total():
        head.append(f"{counted(again.total(), unit)} had to be repeated; nothing is counted twice.")
    runs = [run for run in dict.fromkeys([*lost, *moved, *again]) if lost[run] or moved[run] or again[run]]
    for run in runs[:MAX_RUNS]:
        repeated = f", {counted(again[run], unit)} again" if again[run] else ""
        went = [f"lost {'; '.join(reasons[run])}"] if lost[run] else []
        went += [f"moved {_times(moved[run])}"] if moved[run] else []
        what = ", ".join(went) or "interrupted"
        lines.append(f"{run}: {what}{repeated}.")
    if len(runs) > MAX_RUNS:
        lines.append(f"… and {counted(len(runs) - MAX_RUNS, 'more run')} (log.jsonl).")
    return head + lines


def print_failures(storage: Storage, console: Console) -> None:
    """Print how much a command lost and repeated, if anything; reports and the log have details."""
    for line in failure_summary(EventLog.read(storage))[:3]:
        console.print(line, style="dim", soft_wrap=True, markup=False)


def _times(number: int) -> str:
    return {1: "once", 2: "twice"}.get(number, f"{number:,} times")
