"""Resolve a host's name to the addresses that the policy allows. Every network call does, redirects included.

The policy decides on the resolved address, and the connection goes to that very address: a name that resolves to
another one a moment later changes nothing.
"""

import ipaddress
import re
import socket
from typing import Any

from attrs import frozen

from equus.capabilities.calls import CallFailed, Context, bad
from equus.capabilities.time_limit import Pool, within
from equus.policy.destinations import may_be_asked, may_travel
from equus.policy.host_names import canonical

# Seconds of a look-up: each of two servers is asked twice in that time (RES_OPTIONS in equus/sandbox/processes.py).
RESOLVE_SECONDS = 5.0
LOOK_UPS = Pool("look-ups")
NOT_A_DESTINATION = "is none of the destinations of a secret that this run holds, and never reached by it: see `to`"
# Of a name with more addresses only the first are tried: each may cost a connect timeout.
MOST_ADDRESSES = 8
_NAME = re.compile(r"(?!-)[A-Za-z0-9_-]{1,63}(?:\.[A-Za-z0-9_-]{1,63})*\.?")


@frozen
class Endpoint:
    """Holds an address and a port that the policy allows for a capability."""

    address: str
    port: int

    @property
    def family(self) -> socket.AddressFamily:
        return socket.AF_INET6 if ":" in self.address else socket.AF_INET

    @property
    def text(self) -> str:
        return f"[{self.address}]:{self.port}" if ":" in self.address else f"{self.address}:{self.port}"


def host_argument(call: str, host: str) -> str:
    """Return a name or an address in ASCII; international names as IDNA. Raises CallFailed if it is neither."""
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
    """Return the canonical form of an address, or None. `127.1` and scoped ones (`fe80::1%eth0`) are refused."""
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


def look_up(capability: str, host: str, policy: Any, context: Context, seconds: float = RESOLVE_SECONDS) -> list[str]:
    """Return all addresses of a name by the system's rules (hosts file, DNS). Raises CallFailed if there are none.

    A name that the policy can't grant is looked for in the host's own file only, and no name server hears of it.
    """
    if context.is_secret(host):
        raise CallFailed("denied", "a secret is never looked up as the name of a host")
    refusal = policy.look_up_refusal(capability, host) or _refusal_of_bound(capability, host, policy, context)
    if refusal is not None:
        known = _known_here(canonical(host), context)
        if not known:
            raise CallFailed("denied", refusal)
        return known

    def addresses() -> list[str]:
        """Ask the system's resolver, which may take minutes."""
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        return list(dict.fromkeys(str(entry[4][0]).partition("%")[0] for entry in found))

    try:
        left = context.seconds_left(min(seconds, RESOLVE_SECONDS))
        return within(LOOK_UPS, left, f"looking up {host}", context.entry, addresses)
    except socket.gaierror as fault:
        code = "not-found" if fault.errno in (socket.EAI_NONAME, getattr(socket, "EAI_NODATA", -5)) else "failed"
        raise CallFailed(code, f"{host}: {fault.strerror}") from None
    except (OSError, UnicodeError) as fault:
        raise CallFailed("failed", f"{host} cannot be looked up: {fault}") from None


def _refusal_of_bound(capability: str, host: str, policy: Any, context: Context) -> str | None:
    """Return a sentence if the question for this name could tell a secret to a name server, else None.

    The code of a check may make names of what it holds. The names that an operator has written down tell nothing.
    """
    if may_be_asked(context.bound, host) or policy.names_host(capability, host):
        return None
    where = f"to the secret's `to` (with the port), or to `names` of [caps.{capability}]"
    return f"{host} is not looked up by a run that holds a secret with destinations: add it {where}"


def _known_here(name: str, context: Context) -> list[str]:
    """Return the addresses that the host's own file has for a name; localhost always has some (RFC 6761)."""
    try:
        lines = context.read("/etc/hosts").splitlines()
    except CallFailed:
        lines = []
    entries = [line.partition("#")[0].split() for line in lines]
    found = [literal(entry[0]) for entry in entries if entry and name in map(canonical, entry[1:])]
    if not any(found) and (name == "localhost" or name.endswith(".localhost")):
        return ["127.0.0.1", "::1"]
    return [address for address in found if address]


def endpoints(
    capability: str, host: str, port: int | None, policy: Any, context: Context, seconds: float = RESOLVE_SECONDS
) -> list[Endpoint]:
    """Return the allowed endpoints of a host, in the resolver's order. Raises CallFailed("denied") if none is.

    A look-up takes at most `seconds` seconds and RESOLVE_SECONDS. A refusal has no address that the caller didn't name.
    """
    known = literal(host)
    found = [known] if known else look_up(capability, host, policy, context, seconds)
    candidates = [literal(address) or address for address in found][:MOST_ADDRESSES]
    refusals = {address: policy.connect_refusal(capability, address, port) for address in candidates}
    allowed = [address for address, refusal in refusals.items() if refusal is None]
    if not allowed:
        why = [refusal for refusal in refusals.values() if refusal is not None]
        raise CallFailed("denied", why[0] if known else policy.named_refusal(capability, host, port, why))
    bound = [address for address in allowed if may_travel(context.bound, host, address, port)]
    if not bound:
        where = host if port is None else f"{host} port {port}"
        raise CallFailed("denied", f"{where} {NOT_A_DESTINATION}")
    return [Endpoint(address, port or 0) for address in bound]
