"""Listen for `zabbix_sender`, and report its values to Helen while it waits for the answer.

The sender is told which values Helen has not taken: it is the one who sends again. So nothing waits here, and nothing
is lost with this process. Each connection has a thread of its own, of which there are few, and a time in which to say
all.
"""

from __future__ import annotations

import ipaddress
import selectors
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from attrs import define, field, frozen

from groundwork.safe_text import safe_line
from helen.cli.base.client import Client
from helen.cli.base.failures import Failed, Missing, Unusable
from helen.cli.base.listening import AWAY, RESULTS, Counts, Places, close_all
from helen.cli.zabbix.item_file import ItemFile, Source, result_of
from helen.cli.zabbix.packets import HEADER, BadPacket, Value, answer, length_of, refusal, values_of
from helen.passive.rate_limit import RateLimit

MOST_CONNECTIONS = 20  # at one time, a quarter of them of one address; each may have a packet in memory
HEAR_SECONDS = 30.0  # in which a sender says all that it has
PART_SECONDS = 5.0  # for which a refused one may go on to send what nobody reads
POST_SECONDS = 10.0  # that Helen has for one result
ALL_SECONDS = 40.0  # for a whole connection: zabbix_sender waits for a minute
TOLD_SECONDS = 60.0


@frozen
class _Taken:
    """Counts what became of the values of a packet; with `away`, Helen could not be asked for all of them."""

    processed: int
    failed: int
    away: str = ""


@define
class Listener:
    """Receives for one file. `steady`: monotonic seconds."""

    config: ItemFile
    client: Client
    counts: Counts
    steady: Callable[[], float]
    ended: threading.Event = field(factory=threading.Event)
    _limit: RateLimit = field(init=False)
    _selector: selectors.BaseSelector = field(factory=selectors.DefaultSelector)
    _serving: list[threading.Thread] = field(factory=list)
    _places: Places = field(factory=lambda: Places(MOST_CONNECTIONS))

    def __attrs_post_init__(self) -> None:
        self.take(self.config)

    def take(self, config: ItemFile) -> None:
        """Go on with another file; the sockets stay those of the first."""
        self.config = config
        self._limit = RateLimit(config.a_minute, config.at_once)

    def bind(self) -> list[tuple[str, int]]:
        """Open all sockets, and return their addresses. Raises OSError."""
        found = []
        for host, port in self.config.listen:
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            opened = socket.create_server((host, port), family=family)
            self._selector.register(opened, selectors.EVENT_READ)
            opened.setblocking(False)
            found.append(opened.getsockname()[:2])
        return found

    def close(self) -> None:
        """Close all sockets."""
        close_all(self._selector)

    def run(self) -> None:
        """Accept until `ended` is set; then let those end that are connected, for as long as Helen has for a result."""
        told = self.steady()
        while not self.ended.is_set():
            for key, _ in self._selector.select(0.5):
                with suppress(OSError):  # a sender that is gone already; or no descriptor is free, until one ends
                    self._accept(*key.fileobj.accept())  # type: ignore[union-attr]
            self._serving = [each for each in self._serving if each.is_alive()]
            if self.steady() - told >= TOLD_SECONDS:
                told = self.steady()
                self.counts.flush()
        for each in self._serving:
            each.join(POST_SECONDS)
        self.counts.flush()

    def _accept(self, connection: socket.socket, peer: Any) -> None:
        sources = self.config.sources_of(ipaddress.ip_address(peer[0].partition("%")[0]))
        refused, why = "", ""
        if not sources:
            refused = "of strangers"
        elif self._limit.take(peer[0], self.steady()):
            refused = "over the limit"
        elif why := self._places.take(peer[0]):
            refused, why = "too many at once", f": {why}"
        if refused:
            self.counts.add(refused, f"from {peer[0]}{why}")
            connection.close()
            return
        thread = threading.Thread(target=self._serve, args=(connection, peer[0], sources), daemon=True)
        self._serving.append(thread)
        thread.start()

    def _serve(self, connection: socket.socket, address: str, sources: list[Source]) -> None:
        try:
            with connection, suppress(OSError):  # the sender is gone: it sends again
                self._answer(connection, address, sources)
        finally:
            self._places.give_back(address)

    def _answer(self, connection: socket.socket, address: str, sources: list[Source]) -> None:
        """Hear one packet, and answer it. Raises OSError if the sender is gone."""
        begun = self.steady()
        try:
            values = values_of(self._hear(connection, begun + HEAR_SECONDS))
        except (BadPacket, TimeoutError) as error:
            why = str(error) if isinstance(error, BadPacket) else f"it was not whole within {HEAR_SECONDS:g} s"
            self.counts.add("refused", f"from {address}: {why}")
            connection.settimeout(POST_SECONDS)
            connection.sendall(refusal(why))
            self._part(connection)
            return
        taken = self._report(values, address, sources, begun + ALL_SECONDS)
        connection.settimeout(POST_SECONDS)
        if taken.away and not taken.processed:
            connection.sendall(refusal(taken.away))
        else:
            connection.sendall(answer(taken.processed, taken.failed, self.steady() - begun))

    def _hear(self, connection: socket.socket, until: float) -> bytes:
        """Return the JSON of a packet. Raises BadPacket, or TimeoutError for one that is too slow."""
        return self._receive(connection, length_of(self._receive(connection, HEADER.size, until)), until)

    def _receive(self, connection: socket.socket, size: int, until: float) -> bytes:
        data = b""
        while len(data) < size:
            left = until - self.steady()
            if left <= 0:
                raise TimeoutError
            connection.settimeout(left)
            piece = connection.recv(min(size - len(data), 65_536))
            if not piece:
                raise BadPacket(f"it ends after {len(data)} of {size} bytes")
            data += piece
        return data

    def _part(self, connection: socket.socket) -> None:
        """Drop what a refused sender has sent beyond: a close before that would take the answer from it."""
        connection.shutdown(socket.SHUT_WR)
        until = self.steady() + PART_SECONDS
        while (left := until - self.steady()) > 0:
            connection.settimeout(left)
            if not connection.recv(65_536):
                return

    # ---------------------------------------------------------------------------------------------- to Helen

    def _report(self, values: list[Value | str], address: str, sources: list[Source], until: float) -> _Taken:
        """Report values in their order, until Helen is away: the others have failed then, and come again.

        `until`: monotonic seconds; no post waits beyond it.
        """
        processed = 0
        for at, value in enumerate(values):
            left = until - self.steady()
            if left <= 0 or self.ended.is_set():
                return _Taken(processed, len(values) - processed, "there was no time for all values")
            try:
                processed += self._is_taken(value, address, sources, min(POST_SECONDS, left))
            except Failed as error:
                self.counts.add("values while Helen is away", safe_line(error.message), len(values) - at)
                return _Taken(processed, len(values) - processed, "Helen is away: send it again later")
        return _Taken(processed, len(values) - processed)

    def _is_taken(self, value: Value | str, address: str, sources: list[Source], patience: float) -> bool:
        """Report one value, and return False if it is refused for what it is. Raises Failed while Helen is away."""
        if isinstance(value, str):
            return self._refuse("values that can't be read", f"from {address}: {value}")
        if not any(source.speaks_for(value.host) for source in sources):
            return self._refuse("values for others", f"from {address} for {safe_line(value.host)}")
        item = self.config.item_of(value.key)
        if item is None:
            return self._refuse("without a meaning", safe_line(value.key))
        if item.is_dropped:
            self.counts.add("dropped", safe_line(value.key))
            return True
        body = result_of(value, item)
        try:
            self.client.post(RESULTS, body, patience)
        except (Missing, Unusable) as refused:
            return self._refuse("not taken by Helen", f"{body['host']}/{body['check']}: {refused.message}")
        except Failed as refused:
            if refused.status is None or refused.status < 400 or refused.status in AWAY:
                raise
            return self._refuse("not taken by Helen", f"{body['host']}/{body['check']}: {refused.message}")
        self.counts.add("taken")
        return True

    def _refuse(self, what: str, example: str) -> bool:
        self.counts.add(what, example)
        return False
