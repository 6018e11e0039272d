"""Holds all open streams of events, wakes them in turns, and bounds how many there are."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred, DeferredSemaphore
from twisted.internet.task import LoopingCall
from twisted.internet.threads import deferToThread

from helen.evaluation.event_log import EventLog, Line, TooOld
from helen.web.access import Caller
from helen.web.connections.packed import Packing
from helen.web.connections.short_turns import budget, cooperate
from helen.web.request import ApiRequest
from helen.web.rows.row_feed import RowFeed
from helen.web.streaming.event_filter import EventFilter
from helen.web.streaming.stream import Stream
from helen.web.streaming.stream_views import ResultView, RowFrame, RowView

MOST_STREAMS = 100  # open at once: of 256 connections that a site takes
STREAMS_OF_TOKEN = 50  # of these, with all its sessions: no token takes the room of others
ALIVE_SECONDS = 10.0  # of silence; pages call it silence after 12, proxies give up after 30 or 60
REPLAYS = 2  # at one time: threads are for others, too


class Streams:
    """Holds all open streams. `count_cut()` is called for each client that was too slow."""

    def __init__(self, reactor: Any, events: EventLog, count_cut: Callable[[], None], feed: RowFeed) -> None:
        self.events = events
        self.feed = feed
        self._row_frames: dict[tuple[RowView, int, int], RowFrame | None] = {}  # of this look: streams share them
        self._counting: set[RowView] = set()  # those of callers whose rows are being counted
        self.count_cut = count_cut
        self.now: Callable[[], float] = reactor.seconds
        self._reactor = reactor
        self._streams: dict[Stream, None] = {}
        self._replays = DeferredSemaphore(REPLAYS)
        self._due: dict[Stream, None] = {}  # which are to be woken
        self._alive = LoopingCall(self._keep_alive)
        self._alive.clock = reactor
        events.listeners.append(self._wake)
        feed.changed.subscribe(self._rows_changed)

    def __len__(self) -> int:
        return len(self._streams)

    def is_full_for(self, caller: Caller) -> bool:
        """Return True while as many streams are open as there may be, of all or of this caller's token."""
        own = sum(stream.caller.share == caller.share for stream in self._streams) if caller.token is not None else 0
        return len(self._streams) >= MOST_STREAMS or own >= STREAMS_OF_TOKEN

    def open(
        self, request: ApiRequest, wanted: EventFilter, since: str | None, caller: Caller,
        view: RowView | None = None, results: ResultView | None = None, rows_since: str | None = None,
        packing: Packing | None = None,
    ) -> Deferred[bytes]:  # fmt: skip
        """Serve a client from after the event `since` on, without it from now on; fires at the end of the stream.

        `rows_since` names a look, the rows of which the client has.
        """
        place, look, why = self.events.newest, self.feed.look, None
        if since is not None:
            try:
                place = self.events.place(since)
                look = self.feed.look_before(place)
            except TooOld as error:
                why = str(error)
        if rows_since is not None and view is not None:
            named = self.feed.look_of(rows_since)
            look = look if named is None else min(look, named)
            why = why or (None if named is not None else "`rows_since` is of another run of Helen")
        stream = Stream(self, request, wanted, place, caller, view, results, look, packing)
        self._streams[stream] = None
        if not self._alive.running:
            self._alive.start(ALIVE_SECONDS, now=False)
        stream.begin(why)
        return stream.done

    def has_counted(self, view: RowView) -> bool:
        """Return True if the rows of a caller have been counted; else that begins, and streams are woken after it."""
        if self.feed.counts_in(view.wanted.sight) is not None:
            return True
        if view not in self._counting:
            self._counting.add(view)
            cooperate(self.feed.count(view.wanted.sight)).whenDone().addBoth(lambda _: self._counted(view))
        return False

    def _counted(self, view: RowView) -> None:
        self._counting.discard(view)
        self._wake()

    def row_frame(self, view: RowView, look: int, place: int) -> RowFrame | None:
        """Return the frame of the rows that were found after a look; streams that are equally far share it."""
        key, counts = (view, look, place), self.feed.counts_in(view.wanted.sight)
        if key not in self._row_frames:
            self._row_frames[key] = view.frame(self.feed, look, self.id_of(place), time.time(), counts or {})
        return self._row_frames[key]

    def _rows_changed(self) -> None:
        self._row_frames.clear()
        self._wake()

    def forget(self, stream: Stream) -> None:
        """Drop a stream that has ended."""
        stream.unwatch()
        self._due.pop(stream, None)
        self._streams.pop(stream, None)
        if not self._streams and self._alive.running:
            self._alive.stop()

    def stop(self) -> None:
        """End all streams: Helen stops."""
        for stream in list(self._streams):
            stream.end()

    def id_of(self, at: int) -> bytes:
        """Return the id of the record `at` of the journal."""
        return self.events.id_of(at).encode()

    def later(self, seconds: float, call: Callable[[], None]) -> None:
        """Call it after so many seconds."""
        self._reactor.callLater(seconds, call)

    def replay(self, place: int) -> Deferred[tuple[list[Line], int] | None]:
        """Fires with lines of segments after `place` and the place up to which they go; None: not in segments yet."""
        return self._replays.run(deferToThread, self.events.older, place)

    def _wake(self) -> None:
        """Wake all streams in the next turns, however many batches come until then."""
        if not self._due and self._streams:
            self._reactor.callLater(0, self._wake_some)
        self._due.update(self._streams)

    def _wake_some(self) -> None:
        """Wake as many streams as a turn has time for: each may want other rows, which are written for it alone."""
        is_over = budget(self.now)
        while self._due:
            stream = next(iter(self._due))
            del self._due[stream]
            stream.wake()
            if is_over():
                break
        if self._due:
            self._reactor.callLater(0, self._wake_some)

    def _keep_alive(self) -> None:
        for stream in list(self._streams):
            stream.keep_alive()
