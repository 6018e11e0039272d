"""Find the IPv4 addresses that an IPv6 address carries for a tunnel or a translator. Pure.

A gateway, or the kernel itself, takes such an address out again and sends the packet there. So an address of one of
these forms leads to two places, and a policy must grant both.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_network

from attrs import frozen

_NAT64 = ip_network("64:ff9b::/96")
_NAT64_LOCAL = ip_network("64:ff9b:1::/48")  # RFC 8215: the network's operator chooses the length of the prefix
_COMPATIBLE = ip_network("::/96")
_TRANSLATED = ip_network("::ffff:0:0:0/96")  # RFC 2765
_THIS_NETWORK = ip_network("0.0.0.0/8")
_ISATAP = (0x00005EFE, 0x02005EFE)  # the upper half of an interface identifier, RFC 5214
# Bits to the right of an embedded address with a prefix of 48, 56 or 64 bits, after the octet that RFC 6052 keeps free.
_SPLIT = ((48, 16), (56, 8), (64, 0))


@frozen
class Carried:
    """Lists the IPv4 addresses inside an IPv6 address: `reached` has those that packets go to, `every` all of them."""

    reached: tuple[IPv4Address, ...]
    every: tuple[IPv4Address, ...]


def carried(address: IPv6Address) -> Carried | None:
    """Return the IPv4 addresses inside an address, or None if it has none of the known forms."""
    number = int(address)
    reached: list[IPv4Address] = []
    every: list[IPv4Address] = []
    is_tunnel = False
    if address.sixtofour is not None:
        reached.append(address.sixtofour)
    if address.teredo is not None:
        server, client = address.teredo
        reached.append(client)
        every.append(server)
    is_compatible = address in _COMPATIBLE and number > 1
    if address in _NAT64 or address in _TRANSLATED or is_compatible or (number >> 32) & 0xFFFFFFFF in _ISATAP:
        reached.append(_last(number))
    if address in _NAT64_LOCAL:
        is_tunnel = True
        reached += _of_local_use(number)
    if not reached and not is_tunnel:
        return None
    return Carried(tuple(reached), (*reached, *every))


def _last(number: int) -> IPv4Address:
    return IPv4Address(number & 0xFFFFFFFF)


def _of_local_use(number: int) -> list[IPv4Address]:
    """Return what each length of prefix would take out: which of them is in use can't be told from the address.

    Addresses in 0.0.0.0/8 are left out, because no host has such an address.
    """
    found = {_last(number), *(_split(number, length, low) for length, low in _SPLIT)}
    return sorted(one for one in found if one not in _THIS_NETWORK)


def _split(number: int, length: int, high: int) -> IPv4Address:
    """Return the address after a prefix of `length` bits: `high` bits of it, a free octet, and the others."""
    above = (number >> (64)) & ((1 << high) - 1)
    low = 32 - high
    below = (number >> (64 - 8 - low)) & ((1 << low) - 1)
    return IPv4Address((above << low) | below)
