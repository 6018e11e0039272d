"""Knows the connections of a site, and makes room where there are too many: the oldest stranger goes.

A stranger is a client that has not been let in yet: it sends nothing, or shows nothing that opens anything. So silent
sockets of one address take no place from others, however often they are opened again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from ipaddress import ip_address, ip_network
from typing import Any

from attrs import define

MAX_CLIENTS = 256  # connections of one site: each may have a request of MAX_BODY in memory
STRANGERS_OF_ADDRESS = 20
STRANGERS_OF_NETWORK = 100  # of one /24, or /64 of IPv6
HEAD_SECONDS = 10.0  # that a client may take for the head of a request
KEPT_OF_ADDRESS = 16 * 1024 * 1024  # bytes of bodies of strangers of one address that are in memory at once
KEPT = 64 * 1024 * 1024  # the same of all strangers


def nothing() -> None:
    """Cut nothing: the connection is not made yet, or has gone by itself."""


@define(eq=False)
class Client:
    """Describes one connection. `cut()` closes it at once."""

    address: str
    cut: Callable[[], None] = nothing
    is_let_in: bool = False  # the gate has let a request of it in
    busy: int = 0  # requests that are being answered
    kept: int = 0  # bytes of the body of its request, while it is a stranger
    has_room: Callable[[Client, int], bool] = lambda client, size: True
    _stop_waiting: Callable[[], None] | None = None

    def wait_for_head(self, call_later: Callable[..., Any]) -> None:
        """Give the client HEAD_SECONDS for the head of a request; a deadline that runs already stays.

        So a client that sends it letter by letter is cut as well.
        """
        if self._stop_waiting is None:
            self._stop_waiting = call_later(HEAD_SECONDS, self._too_late).cancel

    def keep(self, size: int) -> bool:
        """Count so many more bytes of a body; False if strangers have too many in memory already."""
        if self.is_let_in:
            return True
        if not self.has_room(self, size):
            return False
        self.kept += size
        return True

    def drop_body(self) -> None:
        """Count the body of a request no more: it has been answered."""
        self.kept = 0

    def head_is_here(self) -> None:
        """Note that the head of a request has come in time, or that none will."""
        stop, self._stop_waiting = self._stop_waiting, None
        if stop is not None:
            stop()

    def _too_late(self) -> None:
        self._stop_waiting = None
        self.cut()


class Clients:
    """Holds the connections of one site, the oldest first."""

    def __init__(self) -> None:
        self._clients: dict[Client, None] = {}

    def __len__(self) -> int:
        return len(self._clients)

    def add(self, client: Client) -> bool:
        """Take a new connection, and cut one in its place if need be; False if there is no room at all.

        First come the limits of its address and its network: so an address makes room for itself before it costs
        others a place.
        """
        network = network_of(client.address)
        of_address = [each for each in self._strangers() if each.address == client.address]
        of_network = [each for each in self._strangers() if network_of(each.address) == network]
        if client.address and len(of_address) >= STRANGERS_OF_ADDRESS:
            self._cut(of_address[0])
        elif client.address and len(of_network) >= STRANGERS_OF_NETWORK:
            self._cut(of_network[0])
        elif len(self._clients) >= MAX_CLIENTS:
            idle = next(self._strangers(), None) or next((each for each in self._clients if not each.busy), None)
            if idle is None:
                return False
            self._cut(idle)
        self._clients[client] = None
        client.has_room = self._has_room
        return True

    def remove(self, client: Client) -> None:
        """Forget a connection that has ended."""
        client.head_is_here()
        self._clients.pop(client, None)

    def _has_room(self, client: Client, size: int) -> bool:
        """Return True if a stranger may have so many more bytes in memory, by its address and by all strangers'."""
        kept = [each for each in self._clients if each.kept and not each.is_let_in]
        of_address = sum(each.kept for each in kept if each.address == client.address)
        return of_address + size <= KEPT_OF_ADDRESS and sum(each.kept for each in kept) + size <= KEPT

    def _strangers(self) -> Iterator[Client]:
        return (each for each in self._clients if not each.is_let_in)

    def _cut(self, client: Client) -> None:
        self.remove(client)
        client.cut()


@lru_cache(1_024)
def network_of(address: str) -> str:
    """Return the /24 of an IPv4 address, the /64 of an IPv6 one; another text as it is."""
    try:
        read = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    mapped = getattr(read, "ipv4_mapped", None) or read
    return str(ip_network((mapped, 24 if mapped.version == 4 else 64), strict=False))
