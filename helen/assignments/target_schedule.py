"""Makes the schedule of a target: the entries that name it, with its address in their arguments. Pure.

`{address}`, `{port}`, `{name}` and `{target}` in texts of arguments are the target's. An argument `host`, `address` or
`port` that nothing gives is the target's, if the check takes such a one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from attrs import evolve

from groundwork.target_ids import wire_id
from helen.assignments.schedule import Assignments, CheckTable, ScheduleEntry, schedule_of_entries
from helen.states.model import LINK, Rule

ADDRESSES = ("host", "address")  # arguments that are a target's address unless something else is said
PORT = "port"  # the argument that is its port
MAX_DEPTH = 8  # of tables and lists within an argument
_WORDS = re.compile(r"\{(?:address|name|port|target)\}")


class Place(Protocol):
    """Describes the fields of helen.targets.target_fields.Target that arguments are made of."""

    @property
    def name(self) -> str: ...

    @property
    def labels(self) -> Mapping[str, str]: ...

    @property
    def address(self) -> str: ...

    @property
    def port(self) -> int | None: ...

    @property
    def given(self) -> str: ...


def schedule_of_target(
    assignments: Assignments, tables: Mapping[str, CheckTable], target: Place
) -> tuple[ScheduleEntry, ...]:
    """Return everything that is to be looked at of a target, in the order of the ids, as its own."""
    covering = [entry for entry in assignments.entries if entry.covers_target(target.name, target.labels)]
    made = schedule_of_entries(assignments, covering, tables, target.name, target.labels)
    return tuple(with_place(each, tables.get(each.check), target) for each in made)


def with_place(
    entry: ScheduleEntry, table: CheckTable | None, place: Place, parents: tuple[str, ...] = ()
) -> ScheduleEntry:
    """Return an entry with name, address and port of what it looks at in its arguments; `table`: that of the check.

    It depends on these further `parents`, each AGENT/CHECK.
    """
    words = {
        "{address}": place.address, "{name}": place.name, "{port}": "" if place.port is None else str(place.port),
        "{target}": place.given or place.address,
    }  # fmt: skip
    rule = evolve(entry.rule, depends=(*entry.rule.depends, *parents)) if parents else entry.rule
    return evolve(entry, args=_filled(entry, table, place, words), rule=rule)


def of_runner(target: str, entry: ScheduleEntry) -> ScheduleEntry:
    """Return an entry of a target as the agent runs it that has its lease."""
    return evolve(entry, id=wire_id(target, entry.id))


def rule_of(entry: ScheduleEntry, runners: Sequence[str], needed: int = 0) -> Rule:
    """Return the rule by which results of a target's check are judged.

    It has no link of its own: silence counts as long as Helen listens. `needed`: how many of the agents that look at it
    have to agree; 0: there is one. While one is away without which nothing can be said, its alerts are held back.
    """
    links = tuple(f"{agent}/{LINK}" for agent in runners) if len(runners) <= max(1, needed) else ()
    depends = (*entry.rule.depends, *links)
    return evolve(entry.rule, passive=True, depends=depends, quorum=needed, runners=tuple(runners) if needed else ())


def _filled(entry: ScheduleEntry, table: CheckTable | None, target: Place, words: Mapping[str, str]) -> dict[str, Any]:
    args = {key: _replaced(value, words, 0) for key, value in entry.args.items()}
    known: dict[str, Any] = dict.fromkeys(ADDRESSES, target.address)
    if target.port is not None:
        known[PORT] = target.port
    takes = () if table is None else table.args
    return {**{key: value for key, value in known.items() if key in takes}, **args}


def _replaced(value: Any, words: Mapping[str, str], depth: int) -> Any:
    if isinstance(value, str):
        return _WORDS.sub(lambda found: words[found[0]], value)
    if depth < MAX_DEPTH and isinstance(value, list):
        return [_replaced(each, words, depth + 1) for each in value]
    if depth < MAX_DEPTH and isinstance(value, dict):
        return {key: _replaced(each, words, depth + 1) for key, each in value.items()}
    return value
