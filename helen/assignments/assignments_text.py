"""Reads STATE/assignments.toml, the text that says what runs where. docs/assignments.rst shows the file.

    default_set = true                        # agents that no entry names run every check that has `every`
    [[defaults]]
    check = "disk*"                           # a name or pattern; left out: all checks
    labels = { role = "web*" }                # and `agents`, as below
    args = { warn = "80" }                    # values for what entries say nothing of, merged in order
    [[assign]]
    check = "disk"                            # a name, or a glob over the checks that have `every`
    agents = ["web-*", "db-1"]                # names with globs; left out: all
    targets = ["switch-*"]                    # in place of agents: targets of targets.toml
    mesh = ["role=edge"]                      # in place of agents: each of these checks each other one
    labels = { role = "web*" }                # all of these must match; left out: any
    id = "disk-root"                          # the name of the series; left out: the check's name
    every = "1m"
    timeout = "10s"
    overlap = "skip"                          # or "queue", "kill"
    args = { path = "/" }
    runbook = "https://wiki.example.org/{check}"    # these three are for people, and win over those of the check
    owner = "storage"
    notes = "Ask before the disk is full."
    export = ["used"]                         # metrics on /metrics/checks: names or patterns

and settings of the rule that evaluates its results (helen/assignments/state_rules.py): attempts, recover, retry, stale,
flap, depends; a table [judge] has their defaults. Pure: text in, values out.
"""

from __future__ import annotations

import json
import re
import tomllib
from typing import Any

from groundwork.check_notes import READERS as NOTES
from groundwork.check_notes import read_all
from groundwork.durations import parse_duration
from groundwork.globs import LONGEST
from groundwork.target_ids import MOST_ID
from helen.assignments.schedule import PATTERN, SHORTEST, Assignment, Assignments, AssignmentsError
from helen.assignments.state_rules import OF_ENTRY, read_defaults, read_settings

OVERLAPS = ("skip", "queue", "kill")
RESERVED = "equus:"  # ids that agents give to reports of their own, such as gaps
MAX_ENTRIES = 10_000  # of the file
MAX_MESH = 20  # patterns of one mesh
MAX_DEFAULTS = 1_000  # of the file: each is held against each check of each agent
MAX_EXPORTS = 50  # of an entry: each is held against each metric of a scrape
MAX_ARGS = 262_144  # bytes of JSON: the whole schedule of an agent must fit into one blob of 1 MiB
_ID = re.compile(r"[^\x00-\x20\x7f]{1,200}")
_KEYS = ("check", "agents", "targets", "mesh", "labels", "id", "every", "timeout", "overlap", "args", "export", *NOTES,
         *OF_ENTRY)  # fmt: skip
_OF_DEFAULTS = ("check", "agents", "labels", "args")


def read(text: str) -> Assignments:
    """Read the text of the file. A great one takes a second: use a thread.

    Raises AssignmentsError with all faults at once.
    """
    try:
        document = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise AssignmentsError(f"no TOML: {error}") from error
    faults = [
        f"{key!r} is no setting: default_set, [[assign]], [[defaults]] and [judge]"
        for key in document.keys() - {"default_set", "judge", "assign", "defaults"}
    ]
    default_set, listed = document.get("default_set", True), document.get("assign", [])
    if not isinstance(default_set, bool):
        faults.append("default_set: write true or false")
    if not isinstance(listed, list) or len(listed) > MAX_ENTRIES:
        raise AssignmentsError(f"assign: write [[assign]] for each of at most {MAX_ENTRIES} entries")
    given = document.get("defaults", [])
    if not isinstance(given, list) or len(given) > MAX_DEFAULTS:
        raise AssignmentsError(f"defaults: write [[defaults]] for each of at most {MAX_DEFAULTS}")
    rule_defaults = read_defaults(document.get("judge", {}), faults)
    defaults = [_read_values(entry, at, faults) for at, entry in enumerate(given, 1)]
    entries = [_read_entry(entry, at, faults) for at, entry in enumerate(listed, 1)]
    if faults:
        raise AssignmentsError("\n".join(faults))
    return Assignments(tuple(filter(None, entries)), default_set, rule_defaults, tuple(filter(None, defaults)))


def _is_table(entry: Any, keys: tuple[str, ...], place: str, faults: list[str]) -> bool:
    """Return True for a table, with a fault for each key that is no setting; another value is a fault itself."""
    if not isinstance(entry, dict):
        faults.append(f"{place}: a table is expected")
        return False
    faults += [f"{place}: {key!r} is no setting: {', '.join(keys)}" for key in entry.keys() - set(keys)]
    return True


def _read_values(entry: Any, at: int, faults: list[str]) -> Assignment | None:
    """Read one `[[defaults]]`, which has no settings but a scope and arguments."""
    place, before = f"[[defaults]] number {at}", len(faults)
    if not _is_table(entry, _OF_DEFAULTS, place, faults):
        return None
    values = Assignment(
        check=(_string(entry, "check", place, faults) or "") if "check" in entry else "*",
        agents=_patterns(entry, "agents", place, faults),
        labels=_labels(entry, place, faults),
        args=entry.get("args", {}),
        place=at,
    )
    _check_args(values.args, place, faults)
    if not values.args:
        faults.append(f"{place}: args is missing, so it would say nothing")
    return values if len(faults) == before else None


def _read_entry(entry: Any, at: int, faults: list[str]) -> Assignment | None:
    place, before = f"[[assign]] number {at}", len(faults)
    if not _is_table(entry, _KEYS, place, faults):
        return None
    assignment = Assignment(
        check=_string(entry, "check", place, faults) or "",
        agents=_patterns(entry, "agents", place, faults),
        targets=_patterns(entry, "targets", place, faults) if "targets" in entry else (),
        mesh=_patterns(entry, "mesh", place, faults) if "mesh" in entry else (),
        labels=_labels(entry, place, faults),
        id=_string(entry, "id", place, faults) if "id" in entry else None,
        every=_duration(entry, "every", place, faults, SHORTEST),
        timeout=_duration(entry, "timeout", place, faults, 0.1),
        overlap=entry.get("overlap", "skip"),
        args=entry.get("args", {}),
        rule_settings=read_settings(entry, OF_ENTRY, place, faults),
        export=_exports(entry, place, faults),
        notes=read_all(entry, lambda name, sentence: faults.append(f"{place}: {name} {sentence}")),
        place=at,
    )
    if assignment.overlap not in OVERLAPS:
        faults.append(f"{place}: overlap is {assignment.overlap!r}: write {', '.join(OVERLAPS)}")
    if assignment.id is not None and assignment.id.startswith(RESERVED):
        faults.append(f"{place}: an id that begins with {RESERVED} is the agent's own")
    if assignment.id is not None and set(assignment.check) & PATTERN:
        faults.append(f"{place}: an id for a pattern of checks would give all of them one name")
    if assignment.targets:
        _check_of_targets(entry, assignment, place, faults)
    if assignment.mesh:
        _check_of_mesh(entry, assignment, place, faults)
    _check_args(assignment.args, place, faults)
    return assignment if len(faults) == before else None


def _check_of_targets(entry: dict[str, Any], assignment: Assignment, place: str, faults: list[str]) -> None:
    if "agents" in entry:
        faults.append(f"{place}: agents and targets: the agents that look at a target stand in targets.toml (`via`)")
    if len((assignment.id or assignment.check).encode()) > MOST_ID:
        faults.append(f"{place}: an id on targets has at most {MOST_ID} bytes")


def _check_of_mesh(entry: dict[str, Any], assignment: Assignment, place: str, faults: list[str]) -> None:
    for key in ("agents", "targets", "labels"):
        if key in entry:
            faults.append(f'{place}: {key} and mesh: a mesh names its agents itself, by name or as "role=edge"')
    if set(assignment.check) & PATTERN:
        faults.append(f"{place}: check is a pattern: a mesh is of one check")
    if len(assignment.mesh) > MAX_MESH:
        faults.append(f"{place}: mesh has {len(assignment.mesh)} patterns; {MAX_MESH} are the most")
    if len((assignment.id or assignment.check).encode()) > MOST_ID:
        faults.append(f"{place}: an id of a mesh has at most {MOST_ID} bytes")


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


def _patterns(entry: dict[str, Any], key: str, place: str, faults: list[str]) -> tuple[str, ...]:
    value = entry.get(key, ["*"])
    value = [value] if isinstance(value, str) else value
    if isinstance(value, list) and value and all(isinstance(pattern, str) for pattern in value):
        return tuple(value)
    faults.append(f"{place}: {key} is {value!r}: write a name or pattern, or a list of them")
    return ()


def _exports(entry: dict[str, Any], place: str, faults: list[str]) -> tuple[str, ...]:
    value = entry.get("export", [])
    is_list = isinstance(value, list) and len(value) <= MAX_EXPORTS
    if is_list and all(isinstance(each, str) and 0 < len(each) <= LONGEST for each in value):
        return tuple(value)
    faults.append(f"{place}: export is a list of at most {MAX_EXPORTS} names or patterns of metrics")
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
