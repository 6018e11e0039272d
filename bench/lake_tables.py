"""Prints what bench/lake_years.py has found, as tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lake_growth import Snapshot
from lake_limits import Limit

GB, MB, HOUR = 1e9, 1e6, 3600.0
ROWS: Sequence[tuple[str, Callable[[Snapshot], float]]] = (
    ("batches a day", lambda at: at.batches),
    *((f"files of {name}", lambda at, name=name: at.files[name]) for name in ("results", "m5", "h1", "d1")),
    *(
        (f"GB of {name}", lambda at, name=name: at.bytes[name] / GB)
        for name in ("results", "m5", "h1", "d1", "changes", "standing")
    ),
    ("GB of all", lambda at: sum(at.bytes.values()) / GB),
    ("MB of log, results", lambda at: at.log_bytes["results"] / MB),
    ("MB of log, m5", lambda at: at.log_bytes["m5"] / MB),
    *(
        (f"core-hours, {name}", lambda at, name=name: at.cpu[name] / HOUR)
        for name in ("taking in", "hours and days", "today's files", "whole days", "late rows")
    ),
    ("driver alone, s a batch", lambda at: at.alone),
    ("longest hold of a batch, s", lambda at: at.hold),
    ("GB of driver and JVM", lambda at: at.memory / GB),
    ("report on a day, CPU s", lambda at: at.day_report[0]),
    ("report on a day, GB", lambda at: at.day_report[1] / GB),
    ("month by days, CPU s", lambda at: at.month_report[0]),
    ("month by days, printed, s", lambda at: at.month_shown),
    ("month by days, GB of file", lambda at: at.month_file / GB),
    ("month by days, GB", lambda at: at.month_report[1] / GB),
)


def show_days(days: Sequence[Snapshot]) -> None:
    """Print one column for each of these days."""
    print(f"{'day':30}" + "".join(f"{at.day:>12,}" for at in days))
    for name, figure in ROWS:
        print(f"{name:30}" + "".join(f"{_short(figure(at)):>12}" for at in days))


def show_limits(limits: Sequence[Limit], first: tuple[int, Limit] | None) -> None:
    """Print what each limit comes to, the nearest first, and when the first is reached."""
    print(f"\n{'limit':34}{'need':>14}{'there is':>14}{'share':>8}")
    for each in limits:
        by, unit = (GB, "GB") if each.unit == "bytes" else (1.0, each.unit)
        print(f"{each.name:34}{_short(each.need / by):>14}{_short(each.room / by):>14}{each.share:8.2f}  {unit}")
    if first is None:
        print("\nno limit is reached")
    else:
        print(f"\nthe first limit, reached on day {first[0]}: {first[1].name}")


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
