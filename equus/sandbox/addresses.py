"""Which addresses a check may reach: the granted networks, and what is never reached whatever is granted. Pure.

Judged is the address itself, after names were resolved, so that a name that changes its mind (DNS rebinding) or a
redirect gains nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from attrs import field, frozen

Address = IPv4Address | IPv6Address

# Where clouds tell a machine its own credentials. Link-local covers 169.254.169.254; these are the others in use.
_METADATA = frozenset({ip_address("fd00:ec2::254"), ip_address("fd20:ce::254"), ip_address("100.100.100.200")})
# IPv6 forms that carry an IPv4 address which a gateway, or the kernel itself, takes out again.
_NAT64 = ip_network("64:ff9b::/96")
_IPV4_COMPATIBLE = ip_network("::/96")


@frozen
class Network:
    """A network and the ports in it; no ports means all of them."""

    cidr: IPv4Network | IPv6Network
    ports: tuple[tuple[int, int], ...] = field(default=())

    def covers(self, address: Address, port: int | None) -> bool:
        """port None: the protocol has none (ICMP)."""
        if address.version != self.cidr.version or address not in self.cidr:
            return False
        return port is None or not self.ports or any(low <= port <= high for low, high in self.ports)

    def document(self) -> dict[str, object]:
        return {"cidr": str(self.cidr), "ports": [list(pair) for pair in self.ports]}


LOOPBACK = (Network(ip_network("127.0.0.0/8")), Network(ip_network("::1/128")))


def parse_address(ip: str | Address) -> Address | None:
    """The address that packets would really go to, or None for what is no address."""
    try:
        address = ip_address(ip)
    except ValueError:
        return None
    if isinstance(address, IPv6Address):
        embedded = _embedded(address)
        return address if embedded is None else embedded
    return address


def _embedded(address: IPv6Address) -> IPv4Address | None:
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if address.teredo is not None:
        return address.teredo[1]
    if address in _NAT64 or (address in _IPV4_COMPATIBLE and int(address) > 1):
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return None


def refusal(ip: str | Address, port: int | None, networks: Iterable[Network]) -> str | None:
    """Why this address must not be reached, or None when one of the networks covers it."""
    address = parse_address(ip)
    if address is None:
        return f"{ip} is not an address"
    if isinstance(address, IPv6Address) and address.scope_id is not None:
        return f"{ip} names an interface, which is never reached"
    if address.is_link_local or address in _METADATA:
        return f"{ip} is link-local or a cloud's metadata service, which is never reached"
    if address.is_unspecified or address.is_multicast or address == IPv4Address("255.255.255.255"):
        return f"{ip} is not the address of one host, and never reached"
    if any(network.covers(address, port) for network in networks):
        return None
    return f"{ip} is in none of the granted networks" if port is None else f"{ip} port {port} is not granted"
