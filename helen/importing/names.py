"""Make names that Helen takes of names that other systems have. Pure.

Hosts there may be called "Web 1 (old)", services "Disk /var". Two names that would become one get a number.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from attrs import define, field

MAX_HOST = 63
MAX_ID = 120  # bytes: an id of a target has a limit of its own, and the host's name stands beside it
MAX_LABEL = 60
_NOT_OF_HOSTS = re.compile(r"[^a-z0-9._-]+")
_NOT_OF_IDS = re.compile(r"[^A-Za-z0-9_.:@+-]+")


@define
class Names:
    """Names that were given within one place (all hosts, or the services of a host), by the names they are for."""

    given: dict[str, str] = field(factory=dict)
    _taken: set[str] = field(factory=set)

    def host(self, name: str) -> str:
        """Return the name of a host as Helen takes it, and always the same for the same name."""
        return self._unique(name, host_name(name), MAX_HOST)

    def check(self, name: str, key: str | None = None) -> str:
        """Return the id of a check as Helen takes it, and always the same for the same name, or the same `key`."""
        return self._unique(name if key is None else key, check_id(name), MAX_ID)

    def _unique(self, name: str, wanted: str, most: int) -> str:
        if name in self.given:
            return self.given[name]
        found, number = wanted, 1
        while found in self._taken:
            number += 1
            found = f"{wanted[: most - 8]}-{number}"
        self._taken.add(found)
        self.given[name] = found
        return found


def host_name(name: str) -> str:
    """Return a name of an agent or target: a-z, 0-9, `.`, `_` and `-`, at most 63 of them."""
    text = _NOT_OF_HOSTS.sub("-", name.lower())
    return re.sub(r"\.{2,}", ".", text).strip("-._")[:MAX_HOST].strip("-._") or "host"


def check_id(name: str) -> str:
    """Return an id of a check without spaces, slashes and wildcards."""
    text = re.sub(r"/", "_", name.strip())
    text = _NOT_OF_IDS.sub("-", text).strip("-")[:MAX_ID]
    return text.strip(":") or "check"


def label_name(text: str) -> str:
    """Return a key of a label: a-z, 0-9, `_` and `-`."""
    return re.sub(r"[^a-z0-9_-]+", "-", text.lower()).strip("-_")[:MAX_LABEL].strip("-_")


def label_value(text: str) -> str:
    """Return a value of a label: one word."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-")[:MAX_LABEL].strip("-._")


def groups_as_labels(groups: list[str]) -> Mapping[str, str]:
    """Return a label `group-NAME = "yes"` for each group of a host."""
    return {f"group-{key}": "yes" for key in map(label_name, groups[:20]) if key}
