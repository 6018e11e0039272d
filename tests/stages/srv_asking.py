"""Asks name servers for SRV records, all at once, on Twisted's reactor: `python srv_asking.py NAME=ADDRESS:PORT...`.

It prints JSON: for each place the records, or the sentence of the fault.
"""

from __future__ import annotations

import json
import sys

from twisted.internet import reactor
from twisted.internet.defer import Deferred, DeferredList

from helen.targets.sources import Source, SourceFault
from helen.targets.srv_lookup import lookup

found: dict[str, object] = {}


async def ask(place: str) -> None:
    """One name of one server."""
    name, _, server = place.partition("=")
    address, _, port = server.rpartition(":")
    try:
        found[place] = await lookup(reactor, Source(("a",), (), name, (address, int(port))))
    except SourceFault as error:
        found[place] = str(error)


def begin() -> None:
    asked = DeferredList([Deferred.fromCoroutine(ask(place)) for place in sys.argv[1:]], consumeErrors=True)
    asked.addCallback(lambda ended: reactor.stop())  # type: ignore[attr-defined]


reactor.callWhenRunning(begin)  # type: ignore[attr-defined]
reactor.run()  # type: ignore[attr-defined]
json.dump(found, sys.stdout)
