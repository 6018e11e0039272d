"""Writes accepted proposals as entries of assignments.toml, behind those that are there. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import tomlkit
from attrs import field, frozen

from helen.discovery.proposals import Proposal

HEAD = "# Found by `helen discover`."
_PATTERN = frozenset("*?[")


@frozen
class Proposed:
    """Holds an agent and the entries that are proposed for it. `has_default_set`: no entry covers it, so that one more
    would end that.
    """

    agent: str
    proposals: Sequence[Proposal] = ()
    has_default_set: bool = field(default=False, kw_only=True)


def with_entries(text: str, wanted: Iterable[Proposed]) -> str:
    """Return the file's text with an entry for each proposal; agents with the same one share it.

    Agents that run the default set get an entry for that set first, since an agent with entries has nothing else.
    """
    chosen = [each for each in wanted if each.proposals]
    if not chosen:
        return text
    shared: dict[tuple[str, str, str], tuple[Proposal, list[str]]] = {}
    for each in chosen:
        for proposal in each.proposals:
            shared.setdefault(proposal.key, (proposal, []))[1].append(each.agent)
    parts = [text.rstrip("\n"), HEAD] if text.strip() else [HEAD]
    covered = sorted(each.agent for each in chosen if each.has_default_set)
    if covered:
        parts.append(
            _entry("the default set, which these agents would lose by the entries below", {"check": "*"}, covered)
        )
    parts += [
        _entry(proposal.what, {"check": proposal.check, "id": proposal.id}, sorted(agents), proposal.args)
        for _, (proposal, agents) in sorted(shared.items())
    ]
    return "\n\n".join(parts) + "\n"


def can_be_named(agent: str) -> bool:
    """Return True if the name stands for this agent alone: entries take `*`, `?` and `[` for patterns."""
    return _PATTERN.isdisjoint(agent)


def _entry(what: str, fields: Mapping[str, str], agents: list[str], args: Mapping[str, Any] | None = None) -> str:
    """Return one [[assign]] with a comment. Values are written by tomlkit, so that none of them ends its text."""
    table = tomlkit.table()
    for key, value in fields.items():
        table.add(key, value)
    table.add("agents", agents)
    if args:
        inline = tomlkit.inline_table()
        inline.update(args)
        table.add("args", inline)
    listed = tomlkit.aot()
    listed.append(table)
    document = tomlkit.document()
    document.add("assign", listed)
    return f"# {what}\n{tomlkit.dumps(document).strip()}"
