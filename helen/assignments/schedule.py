"""Reads STATE/assignments.toml and makes one schedule per agent of it: which checks, how often, with which arguments.

Pure: text and tables in, values out. docs/assignments.rst shows the file.

    default_set = true                        # agents that no entry names run every check that has `every`
    [[assign]]
    check = "disk"                            # a name, or a glob over the checks that have `every`
    agents = ["web-*", "db-1"]                # names with globs; left out: all
    labels = { role = "web*" }                # all of these must match; left out: any
    id = "disk-root"                          # the name of the series; left out: the check's name
    every = "1m"
    timeout = "10s"
    overlap = "skip"                          # or "queue", "kill"
    args = { path = "/" }
    runbook = "https://wiki.example.org/{check}"    # these three are for people, and win over those of the check
    owner = "storage"
    notes = "Ask before the disk is full."

and settings of the rule that evaluates its results (helen/assignments/state_rules.py): attempts, recover, retry, stale,
flap, depends; a table [judge] has their defaults. Entries are read from top to bottom, and a later one with the same
id replaces an earlier one on the agents of both.
"""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase, translate
from typing import Any

from attrs import evolve, field, frozen

from groundwork.check_notes import NO_NOTES, CheckNotes, read_all
from groundwork.check_notes import READERS as NOTES
from groundwork.durations import parse_duration
from helen.assignments.state_rules import NO_SETTINGS, OF_ENTRY, RuleSettings, read_defaults, read_settings, rule_for
from helen.states.model import USUAL, Rule

OVERLAPS = ("skip", "queue", "kill")
RESERVED = "equus:"  # ids that agents give to reports of their own, such as gaps
DEFAULT_TIMEOUT = 10.0  # seconds, for a check without a timeout of its own
SHORTEST = 1.0  # seconds between two runs: below it a fork per run is no longer cheap
MAX_ENTRIES = 10_000  # of the file
MAX_ARGS = 262_144  # bytes of JSON: the whole schedule of an agent must fit into one blob of 1 MiB
MAX_SCHEDULE = 1_048_576  # bytes
PATTERN = frozenset("*?[")
_ID = re.compile(r"[^\x00-\x20\x7f]{1,200}")
_KEYS = ("check", "agents", "labels", "id", "every", "timeout", "overlap", "args", *NOTES, *OF_ENTRY)


class AssignmentsError(Exception):
    """The file can't be used; the text lists every fault, each with its place."""


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
    """One `[[assign]]` of the file."""

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
    # Compiled once: fnmatch forgets its patterns beyond 256, and each agent is held against every entry.
    _names: re.Pattern[str] = field(init=False, repr=False, eq=False)
    _values: dict[str, re.Pattern[str]] = field(init=False, repr=False, eq=False)

    @_names.default
    def _compile_names(self) -> re.Pattern[str]:
        return re.compile("|".join(map(translate, self.agents)) or "(?!)")

    @_values.default
    def _compile_values(self) -> dict[str, re.Pattern[str]]:
        return {key: re.compile(translate(pattern)) for key, pattern in self.labels.items()}

    def covers(self, agent: str, labels: Mapping[str, str]) -> bool:
        """Return True if the entry is for an agent of this name, with these labels."""
        return self._names.match(agent) is not None and all(
            key in labels and pattern.match(labels[key]) is not None for key, pattern in self._values.items()
        )


@frozen
class Assignments:
    """The whole file. `default_set`: agents that no entry covers run every check that has `every` in its table."""

    entries: tuple[Assignment, ...] = ()
    default_set: bool = True
    rule_defaults: RuleSettings = NO_SETTINGS  # the table [judge]


@frozen
class ScheduleEntry:
    """A check that an agent runs by the clock: at every t with (t - offset) % every == 0, unix seconds."""

    id: str
    check: str
    every: float
    offset: float
    timeout: float
    args: dict[str, Any]
    overlap: str = "skip"
    rule: Rule = USUAL  # evaluates the results here; it isn't sent to the agent
    notes: CheckNotes = NO_NOTES  # for people; not sent either


def read(text: str) -> Assignments:
    """Read the text of the file. A great one takes a second: use a thread.

    Raises AssignmentsError with all faults at once.
    """
    try:
        document = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise AssignmentsError(f"no TOML: {error}") from error
    faults = [
        f"{key!r} is no setting: default_set and [[assign]], and [judge]"
        for key in document.keys() - {"default_set", "judge", "assign"}
    ]
    default_set, listed = document.get("default_set", True), document.get("assign", [])
    if not isinstance(default_set, bool):
        faults.append("default_set: write true or false")
    if not isinstance(listed, list) or len(listed) > MAX_ENTRIES:
        raise AssignmentsError(f"assign: write [[assign]] for each of at most {MAX_ENTRIES} entries")
    rule_defaults = read_defaults(document.get("judge", {}), faults)
    entries = [_read_entry(entry, f"[[assign]] number {at}", faults) for at, entry in enumerate(listed, 1)]
    if faults:
        raise AssignmentsError("\n".join(faults))
    return Assignments(tuple(entry for entry in entries if entry is not None), default_set, rule_defaults)


def _read_entry(entry: Any, place: str, faults: list[str]) -> Assignment | None:
    if not isinstance(entry, dict):
        faults.append(f"{place}: a table is expected")
        return None
    for key in entry.keys() - set(_KEYS):
        faults.append(f"{place}: {key!r} is no setting: {', '.join(_KEYS)}")
    before = len(faults)
    assignment = Assignment(
        check=_string(entry, "check", place, faults) or "",
        agents=_patterns(entry, place, faults),
        labels=_labels(entry, place, faults),
        id=_string(entry, "id", place, faults) if "id" in entry else None,
        every=_duration(entry, "every", place, faults, SHORTEST),
        timeout=_duration(entry, "timeout", place, faults, 0.1),
        overlap=entry.get("overlap", "skip"),
        args=entry.get("args", {}),
        rule_settings=read_settings(entry, OF_ENTRY, place, faults),
        notes=read_all(entry, lambda name, sentence: faults.append(f"{place}: {name} {sentence}")),
    )
    if assignment.overlap not in OVERLAPS:
        faults.append(f"{place}: overlap is {assignment.overlap!r}: write {', '.join(OVERLAPS)}")
    if assignment.id is not None and assignment.id.startswith(RESERVED):
        faults.append(f"{place}: an id that begins with {RESERVED} is the agent's own")
    if assignment.id is not None and set(assignment.check) & PATTERN:
        faults.append(f"{place}: an id for a pattern of checks would give all of them one name")
    _check_args(assignment.args, place, faults)
    return assignment if len(faults) == before else None


def _check_args(args: Any, place: str, faults: list[str]) -> None:
    if not isinstance(args, dict):
        faults.append(f"{place}: args is no table")
        return
    try:
        size = len(json.dumps(args, allow_nan=False))
    except (TypeError, ValueError, RecursionError):
        faults.append(f"{place}: args holds what JSON has no word for (a date, nan or inf)")
        return
    if size > MAX_ARGS:
        faults.append(f"{place}: args of {size} bytes; {MAX_ARGS} is the most")


def _string(entry: dict[str, Any], key: str, place: str, faults: list[str]) -> str | None:
    value = entry.get(key)
    if isinstance(value, str) and _ID.fullmatch(value):
        return value
    faults.append(f"{place}: {key} is {value!r}: write a text of 1 to 200 characters without spaces")
    return None


def _patterns(entry: dict[str, Any], place: str, faults: list[str]) -> tuple[str, ...]:
    value = entry.get("agents", ["*"])
    value = [value] if isinstance(value, str) else value
    if isinstance(value, list) and value and all(isinstance(pattern, str) for pattern in value):
        return tuple(value)
    faults.append(f"{place}: agents is {value!r}: write a name or pattern, or a list of them")
    return ()


def _labels(entry: dict[str, Any], place: str, faults: list[str]) -> dict[str, str]:
    value = entry.get("labels", {})
    if isinstance(value, dict) and all(isinstance(pattern, str) for pattern in value.values()):
        return value
    faults.append(f'{place}: labels is {value!r}: write {{ role = "web*" }}')
    return {}


def _duration(entry: dict[str, Any], key: str, place: str, faults: list[str], least: float) -> float | None:
    if key not in entry:
        return None
    try:
        value = parse_duration(entry[key])
    except ValueError as error:
        faults.append(f"{place}: {key}: {error}")
        return None
    if value < least:
        faults.append(f"{place}: {key} is {value:g} s; {least:g} s is the least")
    return value


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
    entries: dict[str, Assignment] = {}
    covering = [entry for entry in assignments.entries if entry.covers(agent, labels)]
    if not covering and assignments.default_set:
        covering = [Assignment("*")]
    for entry in covering:
        for named in _expand(entry, tables.values()):
            entries[named.id or named.check] = named
    defaults = assignments.rule_defaults
    return tuple(_entry(agent, check_id, entries[check_id], tables, defaults) for check_id in sorted(entries))


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
    agent: str, check_id: str, entry: Assignment, tables: Mapping[str, CheckTable], defaults: RuleSettings
) -> ScheduleEntry:
    table = tables.get(entry.check, CheckTable(entry.check))
    every = max(SHORTEST, entry.every or table.every or 60.0)
    timeout = entry.timeout or table.timeout
    offset = phase(agent, check_id, every)
    rule = rule_for(agent, entry.rule_settings, defaults, every, timeout, table.attempts)
    notes = entry.notes.over(table.notes).of(agent, check_id)
    return ScheduleEntry(check_id, entry.check, every, offset, timeout, entry.args, entry.overlap, rule, notes)


def to_json(entries: Iterable[ScheduleEntry]) -> bytes:
    """Return the blob of a `schedule` message. Raises AssignmentsError if it would be more than one blob holds."""
    listed = [
        {"id": e.id, "check": e.check, "every": e.every, "offset": e.offset, "timeout": e.timeout, "args": e.args,
         "overlap": e.overlap}
        for e in entries
    ]  # fmt: skip
    blob = json.dumps(listed, separators=(",", ":"), ensure_ascii=False).encode()
    if len(blob) > MAX_SCHEDULE:
        raise AssignmentsError(f"the schedule of one agent takes {len(blob)} bytes; {MAX_SCHEDULE} is the most")
    return blob


def unknown_checks(assignments: Assignments, tables: Mapping[str, CheckTable]) -> list[str]:
    """Return the names of checks that the file uses and the library doesn't have (patterns left out)."""
    named = {entry.check for entry in assignments.entries if not set(entry.check) & PATTERN}
    return sorted(named - tables.keys())
