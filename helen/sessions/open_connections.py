"""Knows every open connection of agents, and limits how many strangers one network may hold open.

A stranger is a connection that has not been admitted yet. An address from which agents have come has a place more for
each of them: a site behind one address comes back as a whole after a restart of Helen, and each of its agents is a
stranger again.
"""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache

from twisted.internet.defer import Deferred, succeed

from helen.sessions.connection import AgentConnection

MAX_OF_ADDRESS = 20  # connections of one address that have not said hello; --quota strangers=MOST
MAX_STRANGERS = 200  # connections of one /24 (or /64) that have not said hello: a rack behind one address fits
MOST_EXPECTED = 500  # places for agents that came from there before: as many handshakes as Helen has time for in 10 s


@lru_cache(4_096)  # a fleet that comes back comes from few networks, one address at a time
def network_of(host: str) -> str:
    """Return the network that is counted as one place: the /24 of an IPv4 address, the /64 of an IPv6 one."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    mapped = getattr(address, "ipv4_mapped", None) or address
    return str(ipaddress.ip_network((mapped, 24 if mapped.version == 4 else 64), strict=False))


class OpenConnections:
    """Keeps the set of open connections within its limits. `turned_away` counts the strangers that had to go for
    others.

    From one address `most` strangers may be open, from one network MAX_STRANGERS, and in both one more for each agent
    whose last connection came from there. The one that has waited longest goes, not the one that comes: first those
    that have said nothing.
    """

    def __init__(self, most: int = MAX_OF_ADDRESS) -> None:
        self.turned_away = 0
        self._most = most
        self._connections: set[AgentConnection] = set()
        self._strangers: dict[str, dict[AgentConnection, None]] = {}  # by network, those that came first in front
        self._waiting: list[Deferred[None]] = []
        self._homes: dict[str, str] = {}  # the address of each agent's last connection
        self._expected: Counter[str] = Counter()  # agents by that address, and by its network

    def __iter__(self) -> Iterator[AgentConnection]:
        return iter(list(self._connections))

    def __len__(self) -> int:
        return len(self._connections)

    def __contains__(self, connection: AgentConnection) -> bool:
        return connection in self._connections

    def make_room(self, host: str) -> bool:
        """Make room for a stranger from this address: if there are too many, one goes. False: none is there to go."""
        network = network_of(host)
        strangers = self._strangers.get(network, {})
        of_address = [each for each in strangers if each.address == host]
        if len(of_address) >= self._most + self._expects(host):
            return self._evict(of_address)
        if len(strangers) < MAX_STRANGERS + self._expects(network):
            return True
        addresses = Counter(each.address for each in strangers)
        fullest = max(addresses.values(), default=0)
        among = [each for each in strangers if addresses[each.address] == fullest]
        return self._evict(among)

    def _expects(self, place: str) -> int:
        return min(MOST_EXPECTED, self._expected[place])

    def came_from(self, name: str, address: str) -> None:
        """Note from where the agent of this name came last; an empty address: it is known no more."""
        before = self._homes.pop(name, "")
        for place in {before, network_of(before)} if before else ():
            self._expected[place] -= 1
            if not self._expected[place]:
                del self._expected[place]
        if address:
            self._homes[name] = address
            self._expected.update({address, network_of(address)})

    def _evict(self, among: list[AgentConnection]) -> bool:
        """End the oldest that has said nothing, else the oldest without a certificate of ours, else the oldest."""
        self.turned_away += 1
        if not among:
            return False
        oldest = min(among, key=lambda each: (each.has_spoken, each.identity is not None))  # of equals, the first
        self.admitted(oldest)
        oldest.drop("")  # a line for each would be the flood's next victim
        return True

    def add(self, connection: AgentConnection) -> None:
        """Take a new connection: a stranger."""
        self._connections.add(connection)
        self._strangers.setdefault(network_of(connection.address), {})[connection] = None

    def admitted(self, connection: AgentConnection) -> None:
        """Count a connection as a stranger no more."""
        network = network_of(connection.address)
        strangers = self._strangers.get(network, {})
        strangers.pop(connection, None)
        if not strangers:
            self._strangers.pop(network, None)

    def remove(self, connection: AgentConnection) -> None:
        """Forget a connection that has ended."""
        if connection not in self._connections:
            return
        self._connections.discard(connection)
        self.admitted(connection)
        if not self._connections:
            waiting, self._waiting = self._waiting, []
            for each in waiting:
                each.callback(None)

    def when_none(self) -> Deferred[None]:
        """Return a Deferred that fires when no connection is left; cancel it to wait no longer."""
        if not self._connections:
            return succeed(None)
        done: Deferred[None] = Deferred(self._waiting.remove)
        self._waiting.append(done)
        return done
