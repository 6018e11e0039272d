"""Serves one client with events: it has a place in the event log, and takes from it what its client can take.

Nothing is queued for a client: a slow one stays behind in the log, is served from segments when the log has moved on,
and is cut when it has not read for SLOW_SECONDS. Frames are shared; a stream only chooses among them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Protocol

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IPushProducer
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from helen.evaluation.event_log import EventLog, Line, TooOld
from helen.journal.unread import HistoryUnread
from helen.journal.values import StoredResult
from helen.web.access import Caller
from helen.web.connections.packed import Packing
from helen.web.request import ApiRequest
from helen.web.rows.row_feed import RowFeed
from helen.web.streaming.event_filter import EventFilter
from helen.web.streaming.stream_views import ResultView, RowFrame, RowView

RETRY_MS = 2_000  # that a browser waits before it comes back
LINES_A_TURN = 200  # some 2 us each to choose, and one write
BYTES_A_TURN = 262_144  # of one write: the kernel takes about as much
WAIT_SECONDS = 1.0  # until segments have what is to be replayed
SLOW_SECONDS = 60.0  # that a reader may take nothing, then it is cut and comes back with its last id


class StreamOwner(Protocol):
    """Holds what all streams share; helen/web/streaming/streams.py implements it."""

    events: EventLog
    feed: RowFeed
    now: Callable[[], float]  # monotonic seconds
    count_cut: Callable[[], None]

    def id_of(self, at: int) -> bytes:
        """Return the id of the record `at` of the journal."""

    def forget(self, stream: Stream) -> None:
        """Drop a stream that has ended."""

    def later(self, seconds: float, call: Callable[[], None]) -> None:
        """Call it after so many seconds."""

    def replay(self, place: int) -> Deferred[tuple[list[Line], int] | None]:
        """Fire with older events after `place`."""

    def has_counted(self, view: RowView) -> bool:
        """Return True if the rows of a caller have been counted."""

    def row_frame(self, view: RowView, look: int, place: int) -> RowFrame | None:
        """Return the frame of the rows that were found after a look."""


@implementer(IPushProducer)
class Stream:
    """Serves one client. `done` fires when it has gone, or was let go."""

    log = Logger()

    def __init__(
        self, streams: StreamOwner, request: ApiRequest, wanted: EventFilter, place: int, caller: Caller,
        view: RowView | None = None, results: ResultView | None = None, look: int = 0, packing: Packing | None = None,
    ) -> None:  # fmt: skip
        self.place = place
        self.caller = caller
        self._view, self._results = view, results
        self._look = look  # of the feed, the rows of which were sent
        self._packing = packing  # None: it is sent as it is
        self.done: Deferred[bytes] = Deferred()
        self.paused_at: float | None = None  # monotonic seconds
        self._streams = streams
        self._request = request
        self._wanted = wanted
        self._told = place  # the last id that the client has been told
        self._is_busy = False  # a turn of its own is to come, or a thread reads for it

    def begin(self, why_reset: str | None) -> None:
        """Begin to send; with a reason for a reset if the place that was asked for is none any more."""
        self._request.notifyFinish().addBoth(self._gone)
        self._request.registerProducer(self, True)
        self._write(b"retry: %d\nid: %b\n\n" % (RETRY_MS, self._streams.id_of(self.place)))
        if why_reset is not None:
            self._reset(why_reset)
        for agent in self._results.agents if self._results is not None else ():
            self._streams.events.watched.setdefault(agent, []).append(self._send_result)
        self.wake()

    def _send_result(self, record: StoredResult) -> None:
        if self.paused_at is None and not self.done.called:
            frame = ResultView.frame(record, self._streams.id_of(self.place), self._wanted.sight)
            if frame is not None:
                self._write(frame)

    def _write(self, data: bytes, packed: bytes | None = None) -> None:
        """Send data; `packed` is the same as blocks of gzip, if they have been made already."""
        self._request.write(data if self._packing is None else self._packing.block(data, packed))

    def unwatch(self) -> None:
        """Follow no results any more."""
        watched = self._streams.events.watched
        for agent in self._results.agents if self._results is not None else ():
            following = watched.get(agent, [])
            if self._send_result in following:
                following.remove(self._send_result)
            if not following:
                watched.pop(agent, None)

    def _gone(self, _: object) -> None:
        self._streams.forget(self)
        if not self.done.called:
            self.done.callback(b"")

    def end(self) -> None:
        """Let the client go; what is written already still goes out."""
        if not self.done.called:
            if self._packing is not None:
                self._request.write(self._packing.end())
            self._request.unregisterProducer()
            self._streams.forget(self)
            self.done.callback(b"")

    def cut(self) -> None:
        """Cut the connection at once."""
        if not self.done.called:
            self._request.cut()

    def pauseProducing(self) -> None:
        """Stop sending: the connection takes no more."""
        self.paused_at = self._streams.now()

    def resumeProducing(self) -> None:
        """Go on sending."""
        self.paused_at = None
        self.wake()

    def stopProducing(self) -> None:
        """Do nothing: `done` fires by itself when the connection has been lost."""

    def wake(self) -> None:
        """Look whether there is something to send."""
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
        lines = _of_one_write(events.after(self.place, LINES_A_TURN))
        self._send(lines)
        if lines and lines[-1].at < events.newest:
            self._again(0)
        else:
            self.place = events.newest
            self._send_rows()

    def _send_rows(self) -> None:
        """Send the rows that have changed; the id of the frame is the place of the events, which are sent before."""
        if self._view is None or self._look >= self._streams.feed.look or not self._streams.has_counted(self._view):
            return
        frame = self._streams.row_frame(self._view, self._look, self.place)
        if frame is None:
            self._reset("what has changed since then is not known any more, or too much to tell one by one")
            return
        self._look = frame.look
        self._told = self.place
        self._write(frame.data, frame.packed if self._packing is not None else None)
        if self._look < self._streams.feed.look:
            self._again(0)

    def _again(self, seconds: float) -> None:
        self._is_busy = True
        self._streams.later(seconds, self._turn)

    def _send(self, lines: list[Line]) -> None:
        if not lines:
            return
        self.place = lines[-1].at
        fitting = [line for line in lines if self._wanted.fits(line)]
        if fitting:
            self._told = fitting[-1].at
            self._write(b"".join(self._wanted.shown(line).frame for line in fitting))

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

    def _failed(self, failure: Failure) -> None:
        self._is_busy = False
        if self.done.called:
            return
        told = failure.check(TooOld, HistoryUnread)
        if not told:
            self.log.failure("a replay of events", failure)
        self._reset(str(failure.value) if told else "a fault of Helen's; its log says what happened")
        self.wake()

    def _reset(self, why: str) -> None:
        """Go on from the newest event, and tell the client to read anew what it shows, since events are missing."""
        self.place = self._told = self._streams.events.newest
        self._look = self._streams.feed.look
        where = self._streams.id_of(self.place)
        data = json.dumps({"why": why, "id": where.decode()}).encode()
        self._write(b"id: %b\nevent: reset\ndata: %b\n\n" % (where, data))

    def keep_alive(self) -> None:
        """Send a comment, and the newest place: events that the client doesn't want needn't be replayed either."""
        if self.paused_at is not None:
            if self._streams.now() - self.paused_at >= SLOW_SECONDS:
                self._streams.count_cut()
                self.cut()
            return
        where = b""
        if self.place > self._told and not self._is_busy:
            self._told = self.place
            where = b"id: %b\n" % self._streams.id_of(self.place)
        self._write(b": still here\n%b\n" % where)


def _of_one_write(lines: list[Line]) -> list[Line]:
    """Return the first of these events, as many as one write takes."""
    size = 0
    for at, line in enumerate(lines):
        size += len(line.frame)
        if size > BYTES_A_TURN:
            return lines[: at + 1]
    return lines
