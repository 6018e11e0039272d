"""Streams of events to whoever follows: each has a place in the log, and takes from it what its reader can take.

Nothing is queued for a reader: one that is slow stays behind in the log, is served from segments when the log has moved
on, and is cut when it has not read for SLOW_SECONDS. Frames are shared; a stream only chooses among them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Any

from attrs import frozen
from twisted.internet.defer import Deferred, DeferredSemaphore
from twisted.internet.interfaces import IPushProducer
from twisted.internet.task import LoopingCall
from twisted.internet.threads import deferToThread
from twisted.logger import Logger
from zope.interface import implementer

from helen.eventlog import EventLog, Line, TooOld
from helen.web.access import Caller

MOST_STREAMS = 100  # open at once: of 256 connections that a site takes
ALIVE_SECONDS = 15.0  # of silence; proxies give up after 30 or 60
SLOW_SECONDS = 60.0  # that a reader may take nothing, then it is cut and comes back with its last id
RETRY_MS = 2_000  # that a browser waits before it comes back
LINES_A_TURN = 200  # some 2 us each to choose, and one write
BYTES_A_TURN = 262_144  # of one write: the kernel takes about as much
WAIT_SECONDS = 1.0  # until segments have what is to be replayed
REPLAYS = 2  # at one time: threads are for others, too


@frozen
class Wanted:
    """What a reader asks for; nothing: everything. `labels(agent)` are those of an agent."""

    kinds: frozenset[str] = frozenset()
    agents: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()
    labels: Callable[[str], dict[str, str]] = lambda agent: {}

    def fits(self, line: Line) -> bool:
        """A change that is about no agent, or no check of its own, is let through by patterns of those."""
        if self.kinds and line.kind not in self.kinds:
            return False
        if self.agents and line.agent is not None and not self._is_agent(line.agent):
            return False
        check = line.check_id
        return not self.checks or check is None or any(fnmatchcase(check, pattern) for pattern in self.checks)

    def _is_agent(self, agent: str) -> bool:
        for pattern in self.agents:
            key, is_label, value = pattern.partition("=")
            if not is_label:
                if fnmatchcase(agent, pattern):
                    return True
            elif fnmatchcase(self.labels(agent).get(key, ""), value) and key in self.labels(agent):
                return True
        return False


@implementer(IPushProducer)
class Stream:
    """One reader. `done` fires when it has gone, or was let go."""

    log = Logger()

    def __init__(self, streams: Streams, request: Any, wanted: Wanted, place: int, caller: Caller) -> None:
        self.place = place
        self.caller = caller
        self.done: Deferred[bytes] = Deferred()
        self.paused_at: float | None = None
        self._streams = streams
        self._request = request
        self._wanted = wanted
        self._said = place  # the last id that the reader has been told
        self._is_busy = False  # a turn of its own is to come, or a thread reads for it

    # ---------------------------------------------------------------------------------------------- its life

    def begin(self, why_reset: str | None) -> None:
        self._request.notifyFinish().addBoth(self._gone)
        self._request.registerProducer(self, True)
        self._request.write(b"retry: %d\nid: %b\n\n" % (RETRY_MS, self._streams.id_of(self.place)))
        if why_reset is not None:
            self._reset(why_reset)
        self.wake()

    def _gone(self, _: Any) -> None:
        self._streams.forget(self)
        if not self.done.called:
            self.done.callback(b"")

    def end(self) -> None:
        """Let it go; what is written already still goes out."""
        if not self.done.called:
            self._request.unregisterProducer()
            self._streams.forget(self)
            self.done.callback(b"")

    def cut(self) -> None:
        if not self.done.called:
            self._request.transport.abortConnection()

    def pauseProducing(self) -> None:
        self.paused_at = self._streams.now()

    def resumeProducing(self) -> None:
        self.paused_at = None
        self.wake()

    def stopProducing(self) -> None:
        """The connection has been lost."""

    # ---------------------------------------------------------------------------------------------- events

    def wake(self) -> None:
        """There may be something to send."""
        if not self._is_busy and self.paused_at is None and not self.done.called:
            self._turn()

    def _turn(self) -> None:
        self._is_busy = False
        if self.done.called or self.paused_at is not None:
            return
        events = self._streams.events
        if self.place < events.floor:
            self._is_busy = True
            self._streams.replay(self.place).addCallbacks(self._replayed, self._failed)
            return
        lines = events.after(self.place, LINES_A_TURN)
        size = 0
        for at, line in enumerate(lines):
            size += len(line.frame)
            if size > BYTES_A_TURN:
                lines = lines[: at + 1]
                break
        self._send(lines)
        if lines and lines[-1].at < events.newest:
            self._again(0)
        else:
            self.place = events.newest

    def _again(self, seconds: float) -> None:
        self._is_busy = True
        self._streams.later(seconds, self._turn)

    def _send(self, lines: list[Line]) -> None:
        if not lines:
            return
        self.place = lines[-1].at
        fitting = [line for line in lines if self._wanted.fits(line)]
        if fitting:
            self._said = fitting[-1].at
            self._request.write(b"".join(line.frame for line in fitting))

    def _replayed(self, found: tuple[list[Line], int] | None) -> None:
        self._is_busy = False
        if self.done.called:
            return
        if found is None:
            self._again(WAIT_SECONDS)
            return
        lines, place = found
        self._send(lines)
        self.place = max(self.place, place)
        self._again(0)

    def _failed(self, failure: Any) -> None:
        self._is_busy = False
        if self.done.called:
            return
        if not failure.check(TooOld):
            self.log.failure("a replay of events", failure)
        self._reset(str(failure.value) if failure.check(TooOld) else "a fault of Helen's; her log has it")
        self.wake()

    def _reset(self, why: str) -> None:
        """From here on, with a word that something is missing: the reader has to read anew what it shows."""
        self.place = self._said = self._streams.events.newest
        where = self._streams.id_of(self.place)
        data = json.dumps({"why": why, "id": where.decode()}).encode()
        self._request.write(b"id: %b\nevent: reset\ndata: %b\n\n" % (where, data))

    def keep_alive(self) -> None:
        """A comment, and how far it has come: what it doesn't want needn't be replayed either."""
        if self.paused_at is not None:
            if self._streams.now() - self.paused_at >= SLOW_SECONDS:
                self._streams.count_cut()
                self.cut()
            return
        where = b""
        if self.place > self._said and not self._is_busy:
            self._said = self.place
            where = b"id: %b\n" % self._streams.id_of(self.place)
        self._request.write(b": still here\n%b\n" % where)


class Streams:
    """All of them. `count_cut()` is called for each reader that was too slow."""

    def __init__(self, reactor: Any, events: EventLog, count_cut: Callable[[], None]) -> None:
        self.events = events
        self.count_cut = count_cut
        self.now: Callable[[], float] = reactor.seconds
        self._reactor = reactor
        self._streams: dict[Stream, None] = {}
        self._replays = DeferredSemaphore(REPLAYS)
        self._is_waking = False
        self._alive = LoopingCall(self._keep_alive)
        self._alive.clock = reactor
        events.listeners.append(self._wake)

    def __len__(self) -> int:
        return len(self._streams)

    @property
    def is_full(self) -> bool:
        return len(self._streams) >= MOST_STREAMS

    def open(self, request: Any, wanted: Wanted, since: str | None, caller: Caller) -> Deferred[bytes]:
        """Serve a reader from after `since` on; without it from now on."""
        place, why = self.events.newest, None
        if since is not None:
            try:
                place = self.events.place(since)
            except TooOld as error:
                why = str(error)
        stream = Stream(self, request, wanted, place, caller)
        self._streams[stream] = None
        if not self._alive.running:
            self._alive.start(ALIVE_SECONDS, now=False)
        stream.begin(why)
        return stream.done

    def forget(self, stream: Stream) -> None:
        self._streams.pop(stream, None)
        if not self._streams and self._alive.running:
            self._alive.stop()

    def cut_token(self, name: str) -> None:
        """A token is worth nothing any more: nor are streams that were opened with it."""
        for stream in [each for each in self._streams if each.caller.token == name]:
            stream.cut()

    def stop(self) -> None:
        for stream in list(self._streams):
            stream.end()

    def id_of(self, at: int) -> bytes:
        return self.events.id_of(at).encode()

    def later(self, seconds: float, call: Callable[[], None]) -> None:
        self._reactor.callLater(seconds, call)

    def replay(self, place: int) -> Deferred[tuple[list[Line], int] | None]:
        return self._replays.run(deferToThread, self.events.older, place)

    def _wake(self) -> None:
        """All streams in the next turn, however many batches come until then."""
        if not self._is_waking and self._streams:
            self._is_waking = True
            self._reactor.callLater(0, self._wake_all)

    def _wake_all(self) -> None:
        self._is_waking = False
        for stream in list(self._streams):
            stream.wake()

    def _keep_alive(self) -> None:
        for stream in list(self._streams):
            stream.keep_alive()
