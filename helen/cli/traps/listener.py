"""Listen for notifications, and hand those that mean something to Helen, one after the other, in the order they came.

One thread receives and decides, another posts: a Helen that is slow or away holds up no socket. The queue is bounded;
notifications that are left out are counted and told once a minute. An inform is confirmed once Helen has its result on
disk.
"""

from __future__ import annotations

import ipaddress
import itertools
import queue
import selectors
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from attrs import define, field, frozen

from helen.cli.base.client import Client
from helen.cli.base.failures import Failed, Missing, Unusable
from helen.cli.base.listening import AWAY, RESULTS, Counts, Places, close_all
from helen.cli.traps.repeats import Repeats
from helen.cli.traps.security import NotTaken, Security
from helen.cli.traps.trap_file import TrapFile, result_of
from helen.passive.rate_limit import RateLimit

DATAGRAM = 65_535
MOST_WAITING = 1_000  # results that wait for Helen, a quarter of them of one address: some MB
AT_ONCE = 100  # datagrams that are read from one socket before the others have their turn
POST_SECONDS = 30.0  # that Helen has for one result
PAUSES = (1.0, 2.0, 5.0, 10.0, 30.0)  # seconds between tries while Helen is away
TOLD_SECONDS = 60.0
KEPT_SECONDS = 10.0  # after which times of senders are on disk
# Statuses after which a result is sent some times more: it may be this result that fails, and others wait behind it. So
# may one whose connection breaks without an answer each time, while Helen answers another request. 429 is not among
# them: Helen answers so for one host only, for up to an hour.
PERHAPS = {408, 425, 500}
MOST_DOUBTS = 4


@frozen
class Waiting:
    """Describes a result for Helen, the address that it came from, and how its inform is confirmed."""

    address: str
    body: dict[str, Any] = field(repr=False)
    confirm: Callable[[], None]


@define
class Listener:
    """Receives for one file. `steady`: monotonic seconds."""

    config: TrapFile
    security: Security
    client: Client
    counts: Counts
    steady: Callable[[], float]
    waiting: queue.Queue[Waiting] = field(factory=lambda: queue.Queue(MOST_WAITING))
    ended: threading.Event = field(factory=threading.Event)
    repeats: Repeats = field(init=False)
    _limit: RateLimit = field(init=False)
    _selector: selectors.BaseSelector = field(factory=selectors.DefaultSelector)
    _places: Places = field(factory=lambda: Places(MOST_WAITING))

    def __attrs_post_init__(self) -> None:
        self.repeats = Repeats(self.steady)
        self.take(self.config, self.security)

    def take(self, config: TrapFile, security: Security) -> None:
        """Go on with another file; the sockets stay those of the first, and what is known of senders' times."""
        security.follow(self.security)
        self.config, self.security = config, security
        self._limit = RateLimit(config.a_minute, config.at_once)

    def bind(self) -> list[tuple[str, int]]:
        """Open all sockets, and return their addresses. Raises OSError."""
        found = []
        for host, port in self.config.listen:
            opened = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM)
            self._selector.register(opened, selectors.EVENT_READ)
            opened.setblocking(False)
            if opened.family == socket.AF_INET6:
                opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            opened.bind((host, port))
            found.append(opened.getsockname()[:2])
        return found

    def close(self) -> None:
        """Close all sockets."""
        close_all(self._selector)

    def run(self) -> None:
        """Receive until `ended` is set; then post what waits, for as long as one try takes. The rest is counted."""
        poster = threading.Thread(target=self._post_all, name="post", daemon=True)
        poster.start()
        keeper = threading.Thread(target=self._keep_senders, name="keep", daemon=True)
        keeper.start()
        told = self.steady()
        while not self.ended.is_set():
            for key, _ in self._selector.select(0.5):
                self._receive_some(key.fileobj)  # type: ignore[arg-type]
            if self.steady() - told >= TOLD_SECONDS:
                told = self.steady()
                self.counts.flush()
        self._end(poster)
        keeper.join(POST_SECONDS)
        self.counts.flush()

    def _keep_senders(self) -> None:
        """Write times of senders from time to time, and at the end: a slow disk holds up no socket."""
        is_last = False
        while not is_last:
            is_last = self.ended.wait(KEPT_SECONDS)
            try:
                self.security.senders.save()
            except OSError as error:
                self.counts.add("times of senders not kept", f"{self.security.senders.path}: {error.strerror}")

    def _end(self, poster: threading.Thread) -> None:
        """Wait for what is posted still; count as lost what is not."""
        poster.join(POST_SECONDS)
        with suppress(queue.Empty):
            while True:  # so that nothing is both posted and counted here
                self.waiting.get_nowait()
        left = self.waiting.unfinished_tasks  # with the one under way
        if left:
            self.counts.add("lost", f"{left} waited for Helen at the end", left)

    def _receive_some(self, opened: socket.socket) -> None:
        for _ in range(AT_ONCE):
            try:
                data, peer = opened.recvfrom(DATAGRAM)
            except BlockingIOError:
                return
            except OSError:  # what an earlier answer has met
                continue
            send = partial(_send, opened, peer)
            reply = self.receive(data, peer[0], send)
            if reply:
                send(reply)

    def receive(self, data: bytes, address: str, send: Callable[[bytes], None]) -> bytes:
        """Decide on one datagram. Return what its sender is told at once; `send` confirms an inform later."""
        source = self.config.source_of(ipaddress.ip_address(address.partition("%")[0]))
        if source is None:
            self.counts.add("of strangers", f"from {address}: no [[source]] has it")
            return b""
        if self._limit.take(address, self.steady()):
            self.counts.add("over the limit", f"from {address}")
            return b""
        try:
            opened = self.security.open(data)
        except NotTaken as refused:
            self.counts.add("refused", f"from {address}: {refused}")
            return refused.reply
        meaning = self.config.meaning_of(opened.notification)
        if meaning is None or meaning.is_dropped:
            self.counts.add("without a meaning" if meaning is None else "dropped", opened.notification.oid)
            return opened.confirmation
        body = result_of(opened.notification, meaning, source, address)
        # A datagram that comes twice, or an inform whose confirmation was lost, is one result.
        body["id"] = self.repeats.name(address, opened.notification.pdu)
        confirm = partial(send, opened.confirmation) if opened.confirmation else _nothing
        if why := self._places.take(address):
            self.counts.add("lost", f"from {address}: too many wait for Helen already, {why}")
        else:
            self.waiting.put_nowait(Waiting(address, body, confirm))
        return b""

    # ---------------------------------------------------------------------------------------------- to Helen

    def _post_all(self) -> None:
        while True:
            try:
                one = self.waiting.get(timeout=0.5)
            except queue.Empty:
                if self.ended.is_set():
                    return
                continue
            self._post(one)
            self._places.give_back(one.address)
            self.waiting.task_done()

    def _post(self, one: Waiting) -> None:
        """Give Helen one result, and try again for as long as it can't take any."""
        doubts = 0
        for tries in itertools.count():
            try:
                self.client.post(RESULTS, one.body, POST_SECONDS)
            except (Failed, Missing, Unusable) as refusal:
                status = getattr(refusal, "status", None)
                doubts += status in PERHAPS or self._breaks(refusal)
                is_final = isinstance(refusal, Missing | Unusable) or doubts >= MOST_DOUBTS or _is_final(status)
                if is_final or self.ended.is_set():
                    where = f"{one.body['host']}/{one.body['check']}"
                    self.counts.add("not taken by Helen" if is_final else "lost", f"{where}: {refusal.message}")
                    return
                self.counts.add("tries while Helen is away", refusal.message)
                self.ended.wait(PAUSES[min(tries, len(PAUSES) - 1)])
            else:
                self.counts.add("taken")
                one.confirm()
                return

    def _breaks(self, refusal: Exception) -> bool:
        """Return True if this result alone got no answer: Helen answers something else."""
        return getattr(refusal, "is_unanswered", False) and self.client.is_there()


def _is_final(status: int | None) -> bool:
    """Return True for an answer that another try would not change; below 400 something else than Helen gave it."""
    return status is not None and status >= 400 and status not in AWAY | PERHAPS


def _send(opened: socket.socket, peer: Any, data: bytes) -> None:
    with suppress(OSError):  # the sender asks again
        opened.sendto(data, peer)


def _nothing() -> None:
    """Confirm nothing: a trap wants no answer."""
