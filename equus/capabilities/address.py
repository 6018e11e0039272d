"""From a host's name to addresses that the policy allows. Every network call comes through here, redirects included.

The policy judges the resolved address, and the connection goes to that very address: a name that resolves to
something else a moment later changes nothing.
"""

import ipaddress
import re
import socket
from typing import Any

from attrs import frozen

from equus.capabilities.bounded import within
from equus.capabilities.calls import CallFailed, Context, bad

# What resolv.conf's defaults allow for two servers.
RESOLVE_SECONDS = 10.0
# A name with more addresses is tried at the first of them only: each costs a connect timeout.
MOST_ADDRESSES = 8
_NAME = re.compile(r"(?!-)[A-Za-z0-9_-]{1,63}(?:\.[A-Za-z0-9_-]{1,63})*\.?")


@frozen
class Endpoint:
    """An address that the policy allows for a capability and a port."""

    address: str
    port: int

    @property
    def family(self) -> socket.AddressFamily:
        return socket.AF_INET6 if ":" in self.address else socket.AF_INET

    @property
    def text(self) -> str:
        return f"[{self.address}]:{self.port}" if ":" in self.address else f"{self.address}:{self.port}"


def host_argument(call: str, host: str) -> str:
    """A name or an address in ASCII; international names become their ASCII form."""
    bare = host.removeprefix("[").removesuffix("]")
    if literal(bare):
        return bare
    try:
        name = host if host.isascii() else host.encode("idna").decode("ascii")
    except UnicodeError:
        name = ""
    if len(name) > 253 or not _NAME.fullmatch(name):
        raise bad(f"{call}: host must be a name or an address")
    return name


def literal(text: str) -> str | None:
    """The canonical form of an address, or None. `127.1` and scoped ones (`fe80::1%eth0`) are no addresses here."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    if isinstance(address, ipaddress.IPv6Address):
        if address.scope_id:
            return None
        if address.ipv4_mapped:
            return str(address.ipv4_mapped)
    return str(address)


def look_up(host: str, context: Context) -> list[str]:
    """All addresses of a name by the system's rules (hosts file, DNS)."""

    def ask() -> list[str]:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        return list(dict.fromkeys(str(entry[4][0]).partition("%")[0] for entry in found))

    try:
        return within(context.seconds_left(RESOLVE_SECONDS), f"looking up {host}", ask)
    except socket.gaierror as fault:
        code = "not-found" if fault.errno in (socket.EAI_NONAME, getattr(socket, "EAI_NODATA", -5)) else "failed"
        raise CallFailed(code, f"{host}: {fault.strerror}") from None
    except (OSError, UnicodeError) as fault:
        raise CallFailed("failed", f"{host} cannot be looked up: {fault}") from None


def endpoints(capability: str, host: str, port: int | None, policy: Any, context: Context) -> list[Endpoint]:
    """The allowed endpoints of a host, in the resolver's order; CallFailed("denied") when the policy allows none."""
    known = literal(host)
    found = [known] if known else [literal(address) or address for address in look_up(host, context)]
    refusals = {address: policy.connect_refusal(capability, address, port) for address in found[:MOST_ADDRESSES]}
    allowed = [address for address, refusal in refusals.items() if refusal is None]
    if not allowed:
        why = next(iter(refusals.values()))
        raise CallFailed("denied", why if known else f"{host}: {why}")
    return [Endpoint(address, port or 0) for address in allowed]
