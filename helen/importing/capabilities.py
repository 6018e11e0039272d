"""Write what a policy must grant so that shipped checks reach what another system watched. Pure.

An address is granted alone. A name may lead to any address, so it is granted by `names`, with all networks beside it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from attrs import define, field, frozen

from helen.importing.toml_text import value_text

MAX_NAMES = 1_000  # entries of one list of a policy
SOCKET = "/run/docker.sock"
_OF_CHECK = {"http": "http", "ping": "icmp", "dns": "dns", "docker": "unix"}
_PORTS = {"postgresql": 5432, "mysql": 3306, "redis": 6379, "dns": 53}
_OF_SCHEME = {"http": 80, "https": 443}
_ALL = ("0.0.0.0/0", "::/0")


@frozen
class Reached:
    """Holds a run of a shipped check: its arguments, and the address that it looks at ("" for none)."""

    check: str
    args: Mapping[str, Any]
    address: str


@define
class _Grant:
    """Says what one capability may reach: ports by address, and ports of names; a protocol without ports has 0."""

    addresses: defaultdict[str, set[int]] = field(factory=lambda: defaultdict(set))
    names: defaultdict[str, set[int]] = field(factory=lambda: defaultdict(set))

    def add(self, address: str, port: int) -> None:
        """Take one more place."""
        try:
            literal = ip_address(address)
        except ValueError:
            self.names[address.lower()].add(port)
            return
        self.addresses[f"{literal}/{literal.max_prefixlen}"].add(port)

    def lines(self) -> list[str]:
        """Return the settings of this capability."""
        places = dict(sorted(self.addresses.items()))
        for cidr in _ALL if self.names else ():
            places[cidr] = set().union(*self.names.values())
        listed = [{"cidr": cidr} | ({"ports": sorted(ports)} if ports - {0} else {}) for cidr, ports in places.items()]
        names = [f"names = {value_text(sorted(self.names)[:MAX_NAMES])}"] if self.names else []
        return [f"networks = {value_text(listed[:MAX_NAMES])}", *names]


def text(reached: Iterable[Reached]) -> str:
    """Return the tables `[caps.NAME]` for these runs, "" for none."""
    grants: dict[str, _Grant] = {}
    has_docker = False
    for each in reached:
        capability = _OF_CHECK.get(each.check, "tcp")
        if capability == "unix":
            has_docker = True
        elif place := _place(each):
            grants.setdefault(capability, _Grant()).add(*place)
    parts = ["\n".join([f"[caps.{name}]", *grant.lines()]) for name, grant in sorted(grants.items())]
    parts += [f"[caps.unix]\npaths = {value_text([SOCKET])}"] if has_docker else []
    return "\n\n".join(parts) + "\n" if parts else ""


def _place(each: Reached) -> tuple[str, int] | None:
    """Return the address and port that a run connects to, None if they are not known."""
    if each.check == "http":
        url = urlsplit(str(each.args.get("url", "")))
        return (url.hostname, url.port or _OF_SCHEME.get(url.scheme, 443)) if url.hostname else None
    if each.check == "dns":  # without a server the host's own are asked; any address may be theirs
        return (str(each.args.get("server") or each.args.get("name")), 53)
    port = 0 if each.check == "ping" else int(each.args.get("port") or _PORTS.get(each.check, 0))
    return (each.address, port) if each.address else None
