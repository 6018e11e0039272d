"""Asks name servers for SRV records by Twisted's resolver: bounded in time and in size, without a blocking call."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import CancelledError, Deferred, TimeoutError, maybeDeferred
from twisted.internet.error import BindError, ConnectError
from twisted.internet.threads import deferToThread
from twisted.names import client, dns
from twisted.names.error import DNSNameError, DomainError, ResolverError

from helen.targets.sources import Source, SourceFault

RESOLV_CONF = "/etc/resolv.conf"
TRIES = (2, 4)  # seconds that a server has at the first and the second time
BY_TCP = 6  # seconds that it has for the answer by TCP
LONGEST = 20.0  # seconds for all of it
MOST_BYTES = 65_536  # of resolv.conf
MOST_SERVERS = 3


def servers_of(text: str) -> list[tuple[str, int]]:
    """Return the name servers of a resolv.conf, the first three as everywhere; without any it is this machine's."""
    words = [line.split() for line in text.splitlines()]
    found = [(each[1].partition("%")[0], dns.PORT) for each in words if len(each) > 1 and each[0] == "nameserver"]
    return found[:MOST_SERVERS] or [("127.0.0.1", dns.PORT)]


class _Factory(client.DNSClientFactory):
    """Makes connections to name servers, and has them all."""

    def __init__(self, controller: client.Resolver, timeout: Any) -> None:
        super().__init__(controller, timeout)  # type: ignore[no-untyped-call]
        self.noisy = False
        self.connectors: list[Any] = []

    def startedConnecting(self, connector: Any) -> None:
        """Take note of a connection that is being made."""
        self.connectors.append(connector)


class _Resolver(client.Resolver):
    """Asks once more by TCP where an answer is cut off, and only once; `close` ends the connections of that."""

    factory: Any

    def __init__(self, servers: list[tuple[str, int]], reactor: Any) -> None:
        super().__init__(servers=servers, timeout=TRIES, reactor=reactor)  # type: ignore[no-untyped-call]
        self.factory = _Factory(self, TRIES)

    def filterAnswers(self, message: dns.Message) -> Any:
        """Return the records of an answer by UDP; or a Deferred of those by TCP."""
        if message.trunc:
            return self.queryTCP(message.queries, BY_TCP).addCallback(self._by_tcp)  # type: ignore[no-untyped-call]
        return super().filterAnswers(message)  # type: ignore[no-untyped-call]

    def _by_tcp(self, message: dns.Message) -> Any:
        if message.trunc:
            raise ResolverError("it is cut off, by TCP, too")
        return super().filterAnswers(message)  # type: ignore[no-untyped-call]

    def close(self) -> None:
        """End all connections, also one that is being made; what is still asked is given up."""
        self.pending.clear()
        for connector in self.factory.connectors:
            if connector.state == "connecting":
                connector.stopConnecting()
        for protocol in list(self.connections):
            protocol.transport.abortConnection()


async def lookup(reactor: Any, source: Source) -> list[tuple[str, int]]:
    """Return host and port of each SRV record of a source. Raises SourceFault: no answer, a bad one, or no records."""
    servers = [source.server] if source.server is not None else servers_of(await deferToThread(_resolv_conf))
    resolver = _Resolver(servers, reactor)
    # Time ends a Deferred of this module's own: the resolver's may wait for others, which need not end when cancelled.
    asked: Deferred[Any] = Deferred()
    maybeDeferred(resolver.lookupService, source.srv, TRIES).chainDeferred(asked)
    asked.addTimeout(LONGEST, reactor)
    try:
        answers, _, _ = await asked
    except DNSNameError as error:
        raise SourceFault("there is no such name") from error
    except (TimeoutError, CancelledError) as error:
        shown = " and ".join(f"{host} port {port}" for host, port in servers)
        raise SourceFault(f"no answer by {shown}") from error
    except (DomainError, ResolverError, ConnectError, BindError, OSError) as error:
        raise SourceFault(f"no answer that can be used: {_said(error)}") from error
    except Exception as error:  # what a server sends is decoded in there: any error of that is the server's
        raise SourceFault(f"the answer can't be read: {_said(error)}") from error
    finally:
        resolver.close()
    return [
        (each.payload.target.name.decode("ascii", "replace"), each.payload.port)
        for each in answers if each.type == dns.SRV and isinstance(each.payload, dns.Record_SRV)
    ]  # fmt: skip


def _resolv_conf() -> str:
    try:
        with open(RESOLV_CONF, encoding="utf-8", errors="replace") as file:
            return file.read(MOST_BYTES)
    except OSError:
        return ""


def _said(error: BaseException) -> str:
    return f"{type(error).__name__} {error}"[:200].strip()
