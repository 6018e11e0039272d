"""Write the policy that an agent needs to run the command lines of another system. Pure.

Each command line stands there whole, so Helen can change nothing of it; `{address}` alone is open, and takes names and
addresses of hosts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from attrs import define, field

from helen.importing.found import Command, Host
from helen.importing.names import Names
from helen.importing.toml_text import quoted

PLACE = "{address}"
_OF_SLOT = re.compile(r"[A-Za-z0-9][A-Za-z0-9.:_-]{0,252}")  # what a slot of the type host takes
_HEAD = """\
# A proposal, made by `helen import` of {source}. Read each line: it says what may run, or be reached.
# Put it into /etc/equus/policy.toml, owned by root and writable by nobody else; then send the agent a SIGHUP.
"""


@define
class Plugins:
    """Holds the plugins of all agents: each command line has one name, whichever agent runs it."""

    _names: Names = field(factory=Names)
    of_agent: dict[str, dict[str, tuple[tuple[str, ...], float]]] = field(factory=dict)

    def add(self, agent: str, command: Command, host: Host | None, timeout: float) -> tuple[str, bool]:
        """Return the name of a command line in the policy of an agent, and True if it has the slot `address`."""
        argv = command.argv
        if not takes_address(host):
            argv = tuple(word.replace(PLACE, "" if host is None else host.address) for word in argv)
        name = self._names.check(command.name, json.dumps([command.name, *argv]))
        before = self.of_agent.setdefault(agent, {}).get(name, (argv, 0.0))
        self.of_agent[agent][name] = argv, max(timeout, before[1])
        return name, any(PLACE in word for word in argv)


def takes_address(host: Host | None) -> bool:
    """Return True if a slot of the type host takes the address of a host."""
    return host is not None and _OF_SLOT.fullmatch(host.address) is not None


def text(source: str, plugins: Iterable[tuple[str, tuple[tuple[str, ...], float]]], grants: str) -> str:
    """Return the text of a policy.toml with these plugins, and tables `[caps.NAME]`, if any."""
    parts = [_HEAD.format(source=" ".join(source.split())), *filter(None, [grants])]
    for name, (argv, timeout) in plugins:
        lines = [f"[plugins.{quoted(name)}]", f"command = [{', '.join(map(quoted, argv))}]"]
        lines += [f'timeout = "{timeout:g}s"']
        lines += ['slots.address = { type = "host" }'] if any(PLACE in word for word in argv) else []
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)
