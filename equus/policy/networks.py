"""Decide which addresses a check may reach: those in granted networks, less a few that are never reached. Pure.

The address itself is compared, after names were resolved, so that a name that resolves differently the next time (DNS
rebinding) or a redirect gains nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from attrs import field, frozen

from equus.policy.tunnels import carried

Address = IPv4Address | IPv6Address

# Where clouds tell a machine its own credentials. Link-local covers 169.254.169.254 (AWS, Azure, GCP, OpenStack, OCI,
# DigitalOcean, ...) and 169.254.170.2 (ECS); these are the others in use.
_METADATA = frozenset(
    map(
        ip_address,
        (
            "fd00:ec2::254",  # AWS
            "fd00:ec2::23",  # AWS, the agent of EKS that hands out roles
            "fd20:ce::254",  # GCP
            "168.63.129.16",  # Azure, the wire server
            "192.0.0.192",  # Oracle
            "fd00:c1::a9fe:a9fe",  # Oracle
            "100.100.100.200",  # Alibaba
            "100.96.0.96",  # Volcengine
            "fd00:42::42",  # Scaleway
            "fd00:a9fe:a9fe::1",  # Linode
        ),
    )
)
NEVER_REACHED = "is link-local or a cloud's metadata service, which is never reached"


@frozen
class Network:
    """Describes a network that a policy grants, with its ranges of ports; no ports means all of them."""

    cidr: IPv4Network | IPv6Network
    ports: tuple[tuple[int, int], ...] = field(default=())

    def covers(self, address: Address, port: int | None) -> bool:
        """Return True if the address and port lie in this network. `port` is None if the protocol has none (ICMP)."""
        if address.version != self.cidr.version or address not in self.cidr:
            return False
        return port is None or not self.ports or any(low <= port <= high for low, high in self.ports)

    def document(self) -> dict[str, object]:
        """Return the network for JSON: `cidr`, and `ports` as pairs of first and last."""
        return {"cidr": str(self.cidr), "ports": [list(pair) for pair in self.ports]}

    @property
    def is_loopback(self) -> bool:
        """Return True if no address of this network is outside of this machine."""
        return self.cidr.network_address.is_loopback and self.cidr.broadcast_address.is_loopback


LOOPBACK = (Network(ip_network("127.0.0.0/8")), Network(ip_network("::1/128")))


def parse_address(ip: str | Address) -> Address | None:
    """Return the address, or None if `ip` is none. `::ffff:10.0.0.1` is 10.0.0.1: the kernel speaks IPv4 for it."""
    try:
        address = ip_address(ip)
    except ValueError:
        return None
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


def refusal(ip: str | Address, port: int | None, networks: Iterable[Network]) -> str | None:
    """Return a sentence if this address must not be reached, or None if the networks cover it.

    If an address carries others for a tunnel, each of them must be covered, beside the address itself.
    """
    address = parse_address(ip)
    if address is None:
        return f"{ip} is not an address"
    if isinstance(address, IPv6Address) and address.scope_id is not None:
        return f"{ip} names an interface, which is never reached"
    inside = carried(address) if isinstance(address, IPv6Address) else None
    if inside is not None and (not inside.reached or any(inner.is_loopback for inner in inside.reached)):
        # This host's loopback is not that of the far end of a tunnel.
        return f"{ip} carries no address of another host, and is never reached"
    every = (address, *(inside.every if inside is not None else ()))
    if any(one.is_link_local or one in _METADATA for one in every):
        return f"{ip} {NEVER_REACHED}"
    if any(_names_no_host(one) for one in every):
        return f"{ip} is not the address of one host, and never reached"
    granted = tuple(networks)
    reached = (address, *(inside.reached if inside is not None else ()))
    if all(any(network.covers(one, port) for network in granted) for one in reached):
        return None
    return f"{ip} is in none of the granted networks" if port is None else f"{ip} port {port} is not granted"


def _names_no_host(address: Address) -> bool:
    return address.is_unspecified or address.is_multicast or address == IPv4Address("255.255.255.255")


def is_loopback_only(networks: Iterable[Network]) -> bool:
    """Return True if the networks hold no address outside of this machine."""
    return all(network.is_loopback for network in networks)
