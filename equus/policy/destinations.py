"""Read and compare the places that a secret may travel to: `to = ["10.0.0.5:6379"]` of secrets.toml. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_network

from attrs import frozen

from equus.policy.host_names import canonical, read_pattern
from equus.policy.networks import parse_address
from equus.policy.tunnels import carried

_FORMS = '"10.0.0.5:6379", "[fd00::5]:6379", "10.0.0.0/24:6379", "db.example.org:5432" or "/run/redis.sock"'


@frozen
class Destination:
    """Describes one place: a network or a host's name with its port, or the path of a socket of this host."""

    port: int | None = None
    network: IPv4Network | IPv6Network | None = None
    name: str | None = None
    path: str | None = None

    def covers(self, host: str, address: str, port: int | None) -> bool:
        """Return True if a connection to `address`, asked for as `host`, ends here. `port`: None for a ping."""
        if self.path is not None or port not in (None, self.port):
            return False
        if self.network is None:
            return canonical(host) == self.name
        place = parse_address(address)
        if place is None or place.version != self.network.version or place not in self.network:
            return False
        # A packet to the address of a tunnel leaves it at another one, which is none of a network with many addresses.
        return self.network.num_addresses == 1 or not isinstance(place, IPv6Address) or carried(place) is None


def read_destination(text: object) -> Destination:
    """Return the place that a text names. Raises ValueError if it names none; its text continues a sentence."""
    if not isinstance(text, str) or "\0" in text:
        raise ValueError(f"has {text!r}; a destination is {_FORMS}")
    if text.startswith("/"):
        return Destination(path=text)
    host, _, port = text.rpartition(":")
    if not host or not (port.isascii() and port.isdigit()) or not 1 <= int(port) <= 65_535:
        raise ValueError(f"has {text!r}, which ends in no port; a destination is {_FORMS}")
    bracketed = host.startswith("[") and host.endswith("]")
    try:
        network = ip_network(host[1:-1] if bracketed else host)
    except ValueError:
        network = None
    if network is not None and bracketed == (network.version == 6):
        return Destination(int(port), network)
    if network is not None or "*" in host:
        raise ValueError(f"has {text!r}; a destination is {_FORMS}")
    return Destination(int(port), name=read_pattern(host))


# The destinations of each secret that a run holds and that has some; a connection must be in every one of the lists.
Bound = tuple[tuple[Destination, ...], ...]


def may_travel(bound: Bound, host: str, address: str, port: int | None) -> bool:
    """Return True if a run that holds these secrets may connect to the address, asked for as `host`."""
    return all(any(one.covers(host, address, port) for one in each) for each in bound)


def may_be_asked(bound: Bound, host: str) -> bool:
    """Return True if a run that holds these secrets may ask a name server for a host: each of them names it."""
    return all(any(one.name == canonical(host) for one in each) for each in bound)


def may_travel_to_path(bound: Bound, path: str) -> bool:
    """Return True if a run that holds these secrets may connect to a socket of this host."""
    return all(any(one.path == path for one in each) for each in bound)


def read_all(bound: Iterable[Iterable[str]]) -> Bound:
    """Return the lists of texts as destinations. Raises ValueError if one is none."""
    return tuple(tuple(map(read_destination, each)) for each in bound)
