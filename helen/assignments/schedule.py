"""Makes one schedule per agent of the assignments: which checks, how often, with which arguments.

Pure. helen/assignments/assignments_text.py reads the file, helen/assignments/origins.py says where a value comes from.
Entries are read from top to bottom, and a later one with the same id replaces an earlier one on the agents of both.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase, translate
from functools import cached_property
from typing import Any

from attrs import evolve, field, frozen

from groundwork.check_notes import NO_NOTES, CheckNotes
from helen.assignments.state_rules import NO_SETTINGS, RuleSettings, rule_for
from helen.states.model import USUAL, Rule

DEFAULT_TIMEOUT = 10.0  # seconds, for a check without a timeout of its own
SHORTEST = 1.0  # seconds between two runs: below it a fork per run is no longer cheap
MAX_SCHEDULE = 1_048_576  # bytes
MAX_ENTRIES = 4_096  # of one schedule: an agent refuses all of a longer one
PATTERN = frozenset("*?[")


class AssignmentsError(Exception):
    """Says that the file can't be used; the text lists every fault, each with its place."""


@frozen
class CheckTable:
    """Holds what a check's own table declares. Seconds; without `every` it runs only when it is assigned."""

    name: str
    every: float | None = None
    timeout: float = DEFAULT_TIMEOUT
    summary: str = ""
    needs: tuple[str, ...] = ()
    args: dict[str, Any] = field(factory=dict)
    attempts: int | None = None
    notes: CheckNotes = NO_NOTES


@frozen
class Assignment:
    """Holds one `[[assign]]` of the file, or one `[[defaults]]`, which has values for arguments and assigns nothing.

    `place` is its number in the file, from 1.
    """

    check: str
    agents: tuple[str, ...] = ("*",)
    labels: dict[str, str] = field(factory=dict)
    id: str | None = None
    every: float | None = None
    timeout: float | None = None
    overlap: str = "skip"
    args: dict[str, Any] = field(factory=dict)
    rule_settings: RuleSettings = NO_SETTINGS
    notes: CheckNotes = NO_NOTES  # where one is missing, that of the check's table counts
    place: int = field(default=0, eq=False)
    targets: tuple[str, ...] = ()  # names or patterns of targets; such an entry is for no agent
    mesh: tuple[str, ...] = ()  # names, patterns or KEY=PATTERN of agents that check each other
    export: tuple[str, ...] = ()  # names or patterns of metrics that /metrics/checks has
    # Compiled once: fnmatch forgets its patterns beyond 256, and each agent is held against every entry.
    _names: re.Pattern[str] = field(init=False, repr=False, eq=False)
    _values: dict[str, re.Pattern[str]] = field(init=False, repr=False, eq=False)
    _targets: re.Pattern[str] = field(init=False, repr=False, eq=False)

    @_names.default
    def _compile_names(self) -> re.Pattern[str]:
        return re.compile("|".join(map(translate, self.agents)) or "(?!)")

    @_values.default
    def _compile_values(self) -> dict[str, re.Pattern[str]]:
        return {key: re.compile(translate(pattern)) for key, pattern in self.labels.items()}

    @_targets.default
    def _compile_targets(self) -> re.Pattern[str]:
        return re.compile("|".join(map(translate, self.targets)) or "(?!)")

    def covers(self, agent: str, labels: Mapping[str, str]) -> bool:
        """Return True if the entry is for an agent of this name, with these labels."""
        return not self.targets and not self.mesh and self._names.match(agent) is not None and self._fits(labels)

    def covers_target(self, target: str, labels: Mapping[str, str]) -> bool:
        """Return True if the entry is for a target of this name, with these labels."""
        return self._targets.match(target) is not None and self._fits(labels)

    def _fits(self, labels: Mapping[str, str]) -> bool:
        return all(key in labels and pattern.match(labels[key]) is not None for key, pattern in self._values.items())


@frozen
class Assignments:
    """Holds the contents of assignments.toml. `default_set`: agents that no entry covers run every check that has
    `every` in its table.
    """

    entries: tuple[Assignment, ...] = ()
    default_set: bool = True
    rule_defaults: RuleSettings = NO_SETTINGS  # the table [judge]
    defaults: tuple[Assignment, ...] = ()  # `[[defaults]]`: of each only check, agents, labels and args are given


@frozen
class ScheduleEntry:
    """Holds a check that an agent runs by the clock: at every t with (t - offset) % every == 0, unix seconds."""

    id: str
    check: str
    every: float
    offset: float
    timeout: float
    args: dict[str, Any]
    overlap: str = "skip"
    rule: Rule = USUAL  # evaluates the results here; it isn't sent to the agent
    notes: CheckNotes = NO_NOTES  # for people; not sent either
    export: tuple[str, ...] = ()  # nor this

    @cached_property
    def sent(self) -> bytes:
        """Return it as the JSON that is sent; made once, for a schedule of a thousand entries is made again often."""
        document = {"id": self.id, "check": self.check, "every": self.every, "offset": self.offset,
                    "timeout": self.timeout, "args": self.args, "overlap": self.overlap}  # fmt: skip
        return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()


def phase(agent: str, check_id: str, every: float) -> float:
    """Return an offset within the interval of `every` seconds: stable, so that a restart causes no burst of runs.

    Offsets are spread evenly over agents and checks.
    """
    digest = hashlib.sha256(f"{agent}\0{check_id}".encode()).digest()
    return round(int.from_bytes(digest[:8], "big") / 2**64 * every, 3)


def schedule(
    assignments: Assignments, tables: Mapping[str, CheckTable], agent: str, labels: Mapping[str, str]
) -> tuple[ScheduleEntry, ...]:
    """Return everything that this agent shall run, in the order of the ids."""
    covering = covering_entries(assignments, agent, labels)
    return schedule_of_entries(assignments, covering, tables, agent, labels)


def covering_entries(assignments: Assignments, agent: str, labels: Mapping[str, str]) -> list[Assignment]:
    """Return the entries that are for an agent, in the order of the file; else one that stands for the default set."""
    covering = [entry for entry in assignments.entries if entry.covers(agent, labels)]
    return covering or ([Assignment("*")] if assignments.default_set else [])


def schedule_of_entries(
    assignments: Assignments, covering: Iterable[Assignment], tables: Mapping[str, CheckTable], name: str,
    labels: Mapping[str, str],
) -> tuple[ScheduleEntry, ...]:  # fmt: skip
    """Return the checks of these entries, in the order of the ids, with the values that cover an agent or target."""
    return schedule_by_id(assignments, by_id(covering, tables), tables, name, labels)


def schedule_by_id(
    assignments: Assignments, entries: Mapping[str, Assignment], tables: Mapping[str, CheckTable], name: str,
    labels: Mapping[str, str],
) -> tuple[ScheduleEntry, ...]:  # fmt: skip
    """Return the checks with these ids, in their order, each by an entry without a pattern."""
    given = [each for each in assignments.defaults if each.covers(name, labels)]
    rules = assignments.rule_defaults
    return tuple(_entry(name, check_id, entries[check_id], tables, rules, given) for check_id in sorted(entries))


def by_id(covering: Iterable[Assignment], tables: Mapping[str, CheckTable]) -> dict[str, Assignment]:
    """Return the entry of each id; patterns of checks are expanded, and a later entry replaces an earlier one."""
    return {named.id or named.check: named for entry in covering for named in _expand(entry, tables.values())}


def _expand(entry: Assignment, tables: Iterable[CheckTable]) -> list[Assignment]:
    """Expand an entry with a pattern into one entry for each check that fits and has `every`."""
    if not set(entry.check) & PATTERN:
        return [entry]
    return [
        evolve(entry, check=table.name)
        for table in tables
        if table.every is not None and fnmatchcase(table.name, entry.check)
    ]


def _entry(
    agent: str, check_id: str, entry: Assignment, tables: Mapping[str, CheckTable], rules: RuleSettings,
    given: Iterable[Assignment],
) -> ScheduleEntry:  # fmt: skip
    table = tables.get(entry.check, CheckTable(entry.check))
    every = max(SHORTEST, entry.every or table.every or 60.0)
    timeout = entry.timeout or table.timeout
    offset = phase(agent, check_id, every)
    rule = rule_for(agent, entry.rule_settings, rules, every, timeout, table.attempts)
    notes = entry.notes.over(table.notes).of(agent, check_id)
    args = merged_args(entry, given, tables.get(entry.check))
    return ScheduleEntry(
        check_id, entry.check, every, offset, timeout, args, entry.overlap, rule, notes, entry.export
    )  # fmt: skip


def merged_args(entry: Assignment, given: Iterable[Assignment], table: CheckTable | None) -> dict[str, Any]:
    """Return the arguments of an entry: those of the `[[defaults]]` for its check, in order, then its own.

    `given`: the defaults that cover the agent. `table`: that of the check, None for one that is not published.
    """
    args: dict[str, Any] = {}
    for each in given:
        args |= defaults_for(each, entry.check, table)
    return args | entry.args if args else entry.args


def defaults_for(given: Assignment, check: str, table: CheckTable | None) -> dict[str, Any]:
    """Return the arguments that one `[[defaults]]` has for a check; for a pattern of checks those that it takes."""
    if given.check == check:
        return given.args
    if not fnmatchcase(check, given.check):
        return {}
    return {name: value for name, value in given.args.items() if table is not None and name in table.args}


def to_json(entries: Iterable[ScheduleEntry]) -> bytes:
    """Return the blob of a `schedule` message. Raises AssignmentsError if it would be more than one blob holds."""
    return with_further(entries, ())[0]


def with_further(own: Iterable[ScheduleEntry], further: Sequence[ScheduleEntry]) -> tuple[bytes, tuple[str, ...]]:
    """Return the blob of a `schedule` message with as many further entries as fit behind an agent's own ones.

    Behind it are the ids of those that were left out: an agent refuses the whole of a schedule that is too long, its
    own checks, too. Raises AssignmentsError if its own ones alone are more than one blob holds.
    """
    pieces = [entry.sent for entry in own]
    size = 1 + sum(len(piece) + 1 for piece in pieces) + (not pieces)
    if size > MAX_SCHEDULE:
        raise AssignmentsError(f"the schedule of one agent takes {size} bytes; {MAX_SCHEDULE} is the most")
    for at, entry in enumerate(further):
        piece = entry.sent
        size += len(piece) + bool(pieces)
        if size > MAX_SCHEDULE or len(pieces) >= MAX_ENTRIES:
            return _joined(pieces), tuple(each.id for each in further[at:])
        pieces.append(piece)
    return _joined(pieces), ()


def _joined(pieces: Iterable[bytes]) -> bytes:
    return b"[%b]" % b",".join(pieces)


def unknown_checks(assignments: Assignments, tables: Mapping[str, CheckTable]) -> list[str]:
    """Return the names of checks that the file uses and the library doesn't have (patterns left out)."""
    named = {entry.check for entry in assignments.entries if not set(entry.check) & PATTERN}
    return sorted(named - tables.keys())
