"""Limits how often an address may guess a token: after WRONG_TRIES in a minute it is shut out for the rest of it.

Pure: the clock is an argument. Only wrong tokens count, so that a fleet behind one address can join at once.
"""

from __future__ import annotations

import ipaddress
from collections import OrderedDict

WRONG_TRIES = 5
WINDOW = 60.0  # seconds
ADDRESSES = 10_000  # remembered, some 200 bytes each; the one that guessed longest ago goes first
IPV6_PREFIX = 64  # bits: one subscriber has a whole network of addresses, so a single one means nothing


class GuessLimit:
    """Keeps the times of wrong tokens by address."""

    def __init__(self) -> None:
        self._guesses: OrderedDict[str, list[float]] = OrderedDict()

    def is_shut_out(self, address: str, now: float) -> bool:
        """Return True if tokens from this address are not looked at now. `now`: unix seconds."""
        recent = [at for at in self._guesses.get(_block(address), ()) if now - WINDOW < at <= now]
        return len(recent) >= WRONG_TRIES

    def add(self, address: str, now: float) -> None:
        """Count a wrong token from this address at `now`, unix seconds."""
        block = _block(address)
        self._guesses[block] = [*self._guesses.get(block, ()), now][-WRONG_TRIES:]
        self._guesses.move_to_end(block)
        if len(self._guesses) > ADDRESSES:
            self._guesses.popitem(last=False)


def _block(address: str) -> str:
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:  # a Unix socket has none
        return address
    if isinstance(parsed, ipaddress.IPv4Address):
        return address
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((parsed.packed, IPV6_PREFIX), strict=False))
