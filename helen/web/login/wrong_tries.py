"""Counts wrong keys and tokens by address, so that a client that guesses is slowed down and told in the log.

A right key is taken all the same: 256 bits are not guessed, and other clients may come from the same address.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from ipaddress import IPv6Address, ip_address

from attrs import define
from twisted.logger import Logger

from helen.web.problems import Problem

FREE_TRIES = 10  # keys of the login, of one address, before it has to wait
TRY_SECONDS = 6.0  # after which one more is free
FREE_TOKENS = 30  # the same for tokens and keys of all else: a site behind one address has many programs
TOKEN_SECONDS = 2.0
MOST_ADDRESSES = 4_096  # that are remembered: those that tried last


@define
class _Tried:
    until: float  # when all that was tried is forgotten; monotonic seconds
    is_told: bool = False


class WrongTries:
    """Remembers addresses that have shown what opens nothing: `free` times, and once more after each `seconds`.

    `now` is in monotonic seconds.
    """

    log = Logger()

    def __init__(self, free: int = FREE_TRIES, seconds: float = TRY_SECONDS) -> None:
        self._free, self._seconds = free, seconds
        self._tried: OrderedDict[str, _Tried] = OrderedDict()

    def __len__(self) -> int:
        return len(self._tried)

    def count(self, address: str, now: float) -> None:
        """Count a wrong try. Raises Problem 429 if the address has had too many, with the seconds to wait."""
        origin = origin_of(address)
        held = self._tried.pop(origin, None)
        tried = held if held is not None and held.until > now else _Tried(now)
        self._tried[origin] = tried
        if len(self._tried) > MOST_ADDRESSES:
            self._tried.popitem(last=False)
        waits = tried.until + self._seconds - now - self._free * self._seconds
        if waits <= 0:
            tried.until += self._seconds  # a refused try adds nothing
            return
        if not tried.is_told:
            tried.is_told = True
            self.log.warn("{address} shows one wrong key after another", address=origin)
        said = f"too many wrong keys from {origin}: wait, or take a key that is good"
        raise Problem(429, "too many tries", said, {"retry-after": str(math.ceil(waits))})


def origin_of(address: str) -> str:
    """Return an IPv6 address as its /64, which one client has as a whole; others as they are."""
    try:
        read = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if not isinstance(read, IPv6Address):
        return address
    if read.ipv4_mapped is not None:
        return str(read.ipv4_mapped)
    return f"{IPv6Address(int(read) >> 64 << 64)}/64"
