"""Compares what a simulated lake needs with what there is, and names what ends first. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen
from lake_growth import Snapshot
from lake_settings import Policy


@frozen
class Room:
    """Says what there is: cores, memory for the driver, disk, and how long a person waits for a report."""

    cores: int = 8
    memory: float = 8e9
    disk: float = 4e12
    report_seconds: float = 600.0


@frozen
class Limit:
    """Compares a need with the room that there is for it. `share` above 1 is more than there is."""

    name: str
    need: float
    room: float
    unit: str

    @property
    def share(self) -> float:
        return self.need / self.room


def limits_of(at: Snapshot, policy: Policy, room: Room) -> list[Limit]:
    """Return all limits on one day, the nearest first."""
    found = [
        Limit("CPU of a day", sum(at.cpu.values()) / 3600, room.cores * 24.0, "core-hours"),
        Limit("the driver alone, a batch", at.alone, policy.trigger, "s"),
        Limit("a batch held back by upkeep", at.hold, policy.trigger, "s"),
        Limit("disk", sum(at.bytes.values()) + sum(at.log_bytes.values()), room.disk, "bytes"),
        Limit("memory of the driver", at.memory, room.memory, "bytes"),
        Limit("memory, a report on a day", at.day_report[1], room.memory, "bytes"),
        Limit("memory, a month by days", at.month_report[1], room.memory, "bytes"),
        Limit("time of a report on a day", at.day_report[0] / room.cores, room.report_seconds, "s"),
        Limit("time of a month by days", at.month_report[0] / room.cores + at.month_shown, room.report_seconds, "s"),
    ]
    return sorted(found, key=lambda limit: -limit.share)


def first_limit(days: Sequence[Snapshot], policy: Policy, room: Room) -> tuple[int, Limit] | None:
    """Return the first day on which something needs more than there is, and the worst of what does; None: none."""
    for at in days:
        nearest = limits_of(at, policy, room)[0]
        if nearest.share > 1:
            return at.day, nearest
    return None
