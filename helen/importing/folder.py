"""Make the files of a folder for `helen apply` of what was found, and read each as Helen will. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from groundwork.counts import count
from groundwork.durations import write_duration
from helen.assignments import assignments_text
from helen.assignments.schedule import PATTERN, AssignmentsError
from helen.importing import capabilities
from helen.importing.found import MAX_SERVICES, Found, SourceError
from helen.importing.layout import Entry, Layout
from helen.importing.proposal import text as policy_text
from helen.importing.report import text as report_text
from helen.importing.toml_text import table_text
from helen.passive import declarations as passive_text
from helen.targets import declarations as targets_text
from helen.targets.target_fields import TargetsError

_HEAD = "# Made by `helen import`: import.txt names what is not here, and why.\n"


def files(found: Found, agent: str) -> dict[str, str]:
    """Return the text of each file by its name. Raises SourceError if Helen could not read one of them.

    `agent` is the agent beside the old core, which runs all that no other agent runs.
    """
    if len(found.services) > MAX_SERVICES:
        raise SourceError(
            f"{found.source} has {count(len(found.services), 'check')}; at most {MAX_SERVICES:,} are taken"
        )
    layout = Layout(found, agent)
    entries = layout.entries()
    made = {
        "assignments.toml": _HEAD + "".join(table_text("[[assign]]", entry) for entry in entries),
        "targets.toml": _HEAD + "".join(table_text("[[target]]", target) for target in _targets(layout)),
    }
    if found.reported:
        made["passive.toml"] = _HEAD + _passive(found)
    agents = sorted(layout.plugins.of_agent.keys() | layout.reached.keys())
    for name in agents:
        plugins = sorted(layout.plugins.of_agent.get(name, {}).items())
        grants = capabilities.text(layout.reached.get(name, ()))
        made[f"policy/{name}.toml"] = policy_text(found.source, plugins, grants)
    _check(made)
    return {**made, "import.txt": report_text(found, agent, agents)}


def _targets(layout: Layout) -> list[Entry]:
    used = {service.host for service in layout.found.services}
    return [
        {"name": host.name, "address": host.address, "via": list(host.via or (layout.agent,))}
        | ({"labels": host.labels} if host.labels else {})
        for host in layout.found.hosts.values()
        if host.name in used and layout.is_target(host.name)
    ]


def _passive(found: Found) -> str:
    parts = []
    for each in found.reported:
        id = "".join("-" if character in PATTERN else character for character in each.id)
        if each.every:
            span = write_duration(each.every)
            parts.append(table_text("[[ping]]", {"id": id.replace("/", "_"), "every": span, "grace": span}))
            continue
        table: Entry = {"host": each.host, "id": id}
        table |= {"stale": write_duration(max(1.0, each.stale))} if each.stale else {}
        table |= {"attempts": each.attempts} if each.attempts and each.attempts > 1 else {}
        parts.append(table_text("[[check]]", table))
    return "".join(parts)


def _check(made: Mapping[str, str]) -> None:
    """Read each file as Helen will. Raises SourceError with the first faults if it would not take one."""
    readers: dict[str, Any] = {
        "assignments.toml": assignments_text.read, "targets.toml": targets_text.read, "passive.toml": passive_text.read,
    }  # fmt: skip
    for name in made.keys() & readers.keys():
        try:
            readers[name](made[name])
        except (AssignmentsError, TargetsError, passive_text.PassiveError) as error:
            raise SourceError(f"Helen would not take the {name} that this makes: {str(error)[:500]}") from error
