"""Asks name servers for SRV records, all at once, on Twisted's reactor: `python srv_asking.py NAME=ADDRESS:PORT...`.

It prints JSON: for each place the records, or the sentence of the fault; under "open" the sockets that are left over.
"""

from __future__ import annotations

import json
import os
import sys
import time
from contextlib import suppress

from twisted.internet import reactor
from twisted.internet.defer import Deferred, DeferredList

from helen.targets.sources import Source, SourceFault
from helen.targets.srv_lookup import lookup

found: dict[str, object] = {}


async def ask(place: str) -> None:
    """Look one name up at one server, and keep what is found."""
    name, _, server = place.partition("=")
    address, _, port = server.rpartition(":")
    try:
        found[place] = await lookup(reactor, Source(("a",), (), name, (address, int(port))))
    except SourceFault as error:
        found[place] = str(error)


def sockets() -> int:
    """Return the number of open sockets of this process."""
    count = 0
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # the folder that is being listed
            count += os.readlink(f"/proc/self/fd/{name}").startswith("socket:")
    return count


def begin() -> None:
    before = sockets()
    asked = DeferredList([Deferred.fromCoroutine(ask(place)) for place in sys.argv[1:]], consumeErrors=True)
    asked.addCallback(lambda ended: finish(before, time.monotonic() + 10.0))


def finish(before: int, until: float) -> None:
    """Finish when sockets are closed, which is a turn after they are given up."""
    found["open"] = sockets() - before
    if found["open"] and time.monotonic() < until:
        reactor.callLater(0.05, finish, before, until)  # type: ignore[attr-defined]
    else:
        reactor.stop()  # type: ignore[attr-defined]


reactor.callWhenRunning(begin)  # type: ignore[attr-defined]
reactor.run()  # type: ignore[attr-defined]
json.dump(found, sys.stdout)
