"""Summarises from the event log what a command lost on its way and had to do again."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console

TOLD = ("is lost", "is to be taken away")
"""Words in the lines of a run that belong here."""
SHOWN = 30
"""Runs that are told of one by one."""


def failure_summary(events: Iterable[Mapping[str, Any]]) -> list[str]:
    """Sentences for people; none where everything went straight.

    Args:
        events: of `EventLog.read`.
    """
    resumed, lost, again, moved = 0, Counter[str](), Counter[str](), Counter[str]()
    told: list[str] = []
    reasons: defaultdict[str, list[str]] = defaultdict(list)
    unit = "epoch"
    for event in events:
        kind, run = event["event"], str(event.get("run", ""))
        if kind == "resumed":
            resumed += 1
        elif kind == "run lost":
            lost[run] += 1
            reasons[run].append(f"at {event.get('unit', unit)} {event.get('reached', 0)} ({event.get('reason', '')})")
        elif kind == "run moved":
            moved[run] += 1
        elif kind == "run went on":
            unit = str(event.get("unit", unit))
            again[run] += int(event.get("repeats", 0))
        elif kind == "lost":
            told.append(f"{event.get('says', '')}.")
        elif kind == "run says" and any(sign in str(event.get("line", "")) for sign in TOLD):
            told.append(f"{run}: {event['line']}.")
    head = []
    if resumed:
        head.append(f"It was interrupted and gone on with {_times(resumed)}.")
    if lost:
        head.append(f"{_count(len(lost), 'run')} lost a process or a machine, {_times(lost.total())} in all.")
    if moved:
        moves = f"{_count(len(moved), 'run')} went on elsewhere"
        head.append(
            f"{moves}, {_times(moved.total())} in all, before a machine was taken away; nothing was lost by that."
        )
    if again.total():
        head.append(f"{_count(again.total(), unit)} had to be run again; nothing of that is counted twice.")
    runs = [run for run in dict.fromkeys([*lost, *moved, *again]) if lost[run] or moved[run] or again[run]]
    for run in runs[:SHOWN]:
        repeated = f", {_count(again[run], unit)} again" if again[run] else ""
        went = [f"lost {'; '.join(reasons[run])}"] if lost[run] else []
        went += [f"moved {_times(moved[run])}"] if moved[run] else []
        said = ", ".join(went) or "interrupted"
        told.append(f"{run}: {said}{repeated}.")
    if len(runs) > SHOWN:
        told.append(f"… and {len(runs) - SHOWN} more runs (log.jsonl).")
    return head + told


def show(lost: Sequence[str], console: Console) -> None:
    """Say on the screen how much was lost and repeated, where anything was; reports and the log say more."""
    for line in lost[:3]:
        console.print(line, style="dim", soft_wrap=True, markup=False)


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'s' * (number != 1)}"


def _times(number: int) -> str:
    return {1: "once", 2: "twice"}.get(number, f"{number:,} times")
