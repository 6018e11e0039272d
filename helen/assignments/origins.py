"""Says where each value of a scheduled check comes from: an entry, `[[defaults]]`, or the check's own table. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from attrs import evolve, frozen

from equus_protocol.one_off import fits
from helen.assignments.mesh_schedule import base_of, meshes_of
from helen.assignments.schedule import (
    Assignment,
    Assignments,
    CheckTable,
    by_id,
    covering_entries,
    defaults_for,
    schedule_of_entries,
)

OWN, USUAL = "the check's own", "usual"


@frozen
class Value:
    """Holds one setting or argument of a scheduled check. `why` names the place that it comes from.

    `over` has the places with other values that count less, the nearest first.
    """

    name: str
    value: Any
    why: str
    over: tuple[str, ...] = ()


@frozen
class Explained:
    """Holds a check as an agent is to run it: its name, the entry that says so, its settings, and its arguments."""

    check: str
    entry: str
    settings: tuple[Value, ...]
    args: tuple[Value, ...]


def explain(
    assignments: Assignments, tables: Mapping[str, CheckTable], agent: str, labels: Mapping[str, str], check_id: str,
    is_target: bool = False,
) -> Explained | None:  # fmt: skip
    """Return where the values of a check come from; None if the agent, or target, is not to have one with this id."""
    covering = covering_entries(assignments, agent, labels)
    if is_target:
        covering = [entry for entry in assignments.entries if entry.covers_target(agent, labels)]
    entry = by_id(covering, tables).get(check_id)
    if entry is None:
        covering = _of_mesh(assignments, agent, labels, check_id)
        entry = by_id(covering, tables).get(check_id)
    if entry is None:
        return None
    made = next(
        each for each in schedule_of_entries(assignments, covering, tables, agent, labels) if each.id == check_id
    )
    table = tables.get(entry.check)
    place = _place_of(entry) if entry.place else "the default set"
    settings = (
        Value("every", made.every, _why(entry.every, None if table is None else table.every, place)),
        Value("timeout", made.timeout, _why(entry.timeout, None if table is None else table.timeout, place)),
    )
    return Explained(entry.check, place, settings, tuple(_args(assignments, entry, table, agent, labels, place)))


def _of_mesh(assignments: Assignments, agent: str, labels: Mapping[str, str], check_id: str) -> list[Assignment]:
    """Return the entry of a mesh as the check of this id, if the agent is one of the mesh."""
    base, _, peer = check_id.rpartition("@")
    return [
        evolve(entry, id=check_id) for entry in meshes_of(assignments)
        if peer and base_of(entry) == base and any(fits(pattern, agent, labels) for pattern in entry.mesh)
    ]  # fmt: skip


def _why(said: float | None, own: float | None, place: str) -> str:
    if said is not None:
        return place
    return USUAL if own is None else OWN


def _args(
    assignments: Assignments, entry: Assignment, table: CheckTable | None, agent: str, labels: Mapping[str, str],
    place: str,
) -> Iterator[Value]:  # fmt: skip
    """Yield each argument by name: those that are given, then those that the check has a value for itself."""
    said: dict[str, list[tuple[str, Any]]] = {}
    for each in assignments.defaults:
        if each.covers(agent, labels):
            for name, value in defaults_for(each, entry.check, table).items():
                said.setdefault(name, []).insert(0, (_place_of_defaults(each), value))
    for name, value in entry.args.items():
        said.setdefault(name, []).insert(0, (place, value))
    for name, found in sorted(said.items()):
        (why, value), *rest = found
        yield Value(name, value, why, tuple(each for each, _ in rest))
    for name, rule in sorted((table.args if table is not None else {}).items()):
        if name not in said and isinstance(rule, Mapping) and rule.get("default") is not None:
            yield Value(name, rule["default"], OWN)


def _place_of(entry: Assignment) -> str:
    return f"[[assign]] number {entry.place}"


def _place_of_defaults(given: Assignment) -> str:
    scope = [
        *(() if given.agents == ("*",) else given.agents),
        *(f"{key}={value}" for key, value in given.labels.items()),
    ]
    return f"[[defaults]] number {given.place}" + (f" ({', '.join(scope)})" if scope else "")
