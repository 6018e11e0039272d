"""Streams events to clients: each stream has a place in the event log, and takes from it what its client can take.

Nothing is queued for a client: a slow one stays behind in the log, is served from segments when the log has moved on,
and is cut when it has not read for SLOW_SECONDS. Frames are shared; a stream only chooses among them.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import Annotated, Any, TypedDict

from attrs import evolve, frozen
from twisted.internet.defer import Deferred, DeferredSemaphore
from twisted.internet.interfaces import IPushProducer
from twisted.internet.task import LoopingCall
from twisted.internet.threads import deferToThread
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from groundwork.globs import fits_glob
from helen.agents.sight import Sight
from helen.evaluation.event_log import EventLog, Line, TooOld
from helen.journal.unread import HistoryUnread
from helen.journal.values import CHANGE_KINDS, StoredResult
from helen.web.access import Caller
from helen.web.connections.packed import Packing
from helen.web.connections.short_turns import budget, cooperate
from helen.web.json_types import words
from helen.web.request import ApiRequest
from helen.web.rows.row_feed import RowFeed
from helen.web.sight.redaction import KINDS, redacted
from helen.web.stream_views import ResultView, RowFrame, RowView

MOST_STREAMS = 100  # open at once: of 256 connections that a site takes
STREAMS_OF_TOKEN = 50  # of these, with all its sessions: no token takes the room of others
ALIVE_SECONDS = 10.0  # of silence; pages call it silence after 12, proxies give up after 30 or 60
SLOW_SECONDS = 60.0  # that a reader may take nothing, then it is cut and comes back with its last id
RETRY_MS = 2_000  # that a browser waits before it comes back
LINES_A_TURN = 200  # some 2 us each to choose, and one write
BYTES_A_TURN = 262_144  # of one write: the kernel takes about as much
WAIT_SECONDS = 1.0  # until segments have what is to be replayed
REPLAYS = 2  # at one time: threads are for others, too


class EventJson(TypedDict):
    """Holds the data of one event. `received` is in unix seconds; of a `reset` the client reads anew what it shows."""

    kind: Annotated[str, words(*CHANGE_KINDS, "reset")]
    received: float
    agent: str | None
    check_id: str | None
    document: dict[str, Any]


@frozen
class EventFilter:
    """Picks the events that a client asks for; nothing: all events. `labels(agent)` are those of an agent.

    `sight` None: the caller is not limited to some agents. Else events of no agent are left out, too.
    """

    kinds: frozenset[str] = frozenset()
    agents: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()
    labels: Callable[[str], dict[str, str]] = lambda agent: {}
    sight: Sight | None = None

    def with_labels(self, labels: Mapping[str, dict[str, str]]) -> EventFilter:
        """Return the same filter by labels as they are now, for a thread."""
        return evolve(self, labels=lambda agent: labels.get(agent, {}))

    def fits(self, line: Line) -> bool:
        """Return True for an event that is asked for. One without an agent, or a check, passes patterns of those."""
        if self.kinds and line.kind not in self.kinds:
            return False
        if self.sight is not None and not (line.kind in KINDS and self.sight(line.agent)):
            return False
        if self.agents and line.agent is not None and not self._is_agent(line.agent):
            return False
        check = line.check_id
        return not self.checks or check is None or any(fits_glob(check, pattern) for pattern in self.checks)

    def shown(self, line: Line) -> Line:
        """Return an event that fits as the caller sees it."""
        return line if self.sight is None else redacted(line, self.sight)

    def _is_agent(self, agent: str) -> bool:
        for pattern in self.agents:
            key, is_label, value = pattern.partition("=")
            if not is_label:
                if fits_glob(agent, pattern):
                    return True
            elif fits_glob(self.labels(agent).get(key, ""), value) and key in self.labels(agent):
                return True
        return False


@implementer(IPushProducer)
class Stream:
    """Serves one client. `done` fires when it has gone, or was let go."""

    log = Logger()

    def __init__(
        self, streams: Streams, request: ApiRequest, wanted: EventFilter, place: int, caller: Caller,
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

    # ---------------------------------------------------------------------------------------------- begin and end

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

    # ---------------------------------------------------------------------------------------------- events

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
