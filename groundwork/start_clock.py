"""Judges the wall clock of a start, by the last record of before, the time since the boot, and the clocks of agents.

A program that starts has seen no step of the clock: between its last record and now there may have been a long stop, or
the clock may be ahead. If the machine has not booted meanwhile the clock since the boot tells the two apart. If it has,
nothing does before peers have told their time; what expires waits for them, or for an hour. All of it is pure.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum
from pathlib import Path

from attrs import frozen

SURE_SECONDS = 60.0  # of a step between two starts on one boot; less is the drift of weeks that a time daemon put right
DOUBT_SECONDS = 3_600.0  # without records, from which it is asked if the clock is ahead: less destroys nothing
APART_SECONDS = 60.0  # by which an agent's clock differs from ours if one of them is wrong
LEAST_AGENTS = 3  # that must have told their time: one alone may be on our own machine, or wrong
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@frozen
class Boot:
    """Describes a boot of the machine: its id (empty where the kernel tells none), and its time in unix seconds."""

    id: str
    began: float


@frozen
class StartClock:
    """Holds the facts about the wall clock at a start.

    `stepped`: seconds by which it was set since the last record, negative for back; 0 if it was not, or nothing tells.
    `doubt`: seconds by which it may be ahead at the most.
    """

    stepped: float = 0.0
    doubt: float = 0.0


class Agents(Enum):
    """Names what the clocks of agents say of ours."""

    FEW = "too few, or no majority"
    AGREE = "most agree"
    BEHIND = "most are behind"


def boot_id(path: Path = BOOT_ID) -> str:
    """Return the kernel's id of this boot; empty where there is none."""
    try:
        return path.read_text("ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""


def judge(last: float, before: Boot | None, now: float, boot: Boot) -> StartClock:
    """Judge a start at `now`; `last`: the newest time that is stored, 0 if there is none; both unix seconds.

    `before`: the boot in which that was stored, None if a version that did not tell has stored it.
    """
    if before is not None and before.id and before.id == boot.id:
        stepped = boot.began - before.began
        return StartClock(stepped, max(0.0, stepped)) if abs(stepped) >= SURE_SECONDS else StartClock()
    if not last:
        return StartClock()
    is_other = before is not None and before.id and boot.id
    unexplained = (boot.began if is_other else now) - last  # since a boot the clock of the kernel has counted
    return StartClock(0.0, unexplained) if unexplained >= DOUBT_SECONDS else StartClock()


def judge_by_agents(ahead: Collection[float]) -> Agents:
    """Judge our clock by those of agents: seconds by which each is ahead of ours, for each that has told its time."""
    if len(ahead) < LEAST_AGENTS:
        return Agents.FEW
    behind = sum(each < -APART_SECONDS for each in ahead)
    if 2 * behind > len(ahead):
        return Agents.BEHIND
    return Agents.AGREE if 2 * behind < len(ahead) else Agents.FEW
