"""Tests events over cuts and restarts: each comes once, in order, none is missing; or a plain word tells that it can't
be.
"""

from __future__ import annotations

import json
import random
import re
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from inbox import PATIENCE, Inbox
from patience import Patience
from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.task import Clock
from twisted.python.failure import Failure

from helen.evaluation import event_log
from helen.evaluation.event_log import EventLog, TooOld
from helen.journal.journal import Journal
from helen.journal.limits import Limits
from helen.journal.values import Batch, Change, Origin, StoredChange
from helen.states.fleet_timeline import Timeline
from helen.web.access import OWNER
from helen.web.connections.packed import Packing
from helen.web.rows.row_feed import RowFeed
from helen.web.streaming import stream, streams
from helen.web.streaming.event_filter import EventFilter
from helen.web.streaming.stream import SLOW_SECONDS
from helen.web.streaming.streams import ALIVE_SECONDS, Streams

EPOCH = "0a1b2c3d"


class Reader:
    """Is a request, and what its client has got; `room` bytes are taken, then it reads no more."""

    def __init__(self, room: int = 10**9) -> None:
        self.got = b""
        self.producer: Any = None
        self.room = room
        self.aborted = False
        self._finished: list[Deferred[None]] = []
        self.transport = self

    def write(self, data: bytes) -> None:
        self.got += data
        if len(self.got) >= self.room and self.producer is not None:
            self.producer.pauseProducing()

    def registerProducer(self, producer: Any, streaming: bool) -> None:
        self.producer = producer

    def unregisterProducer(self) -> None:
        self.producer = None

    def notifyFinish(self) -> Deferred[None]:
        self._finished.append(Deferred())
        return self._finished[-1]

    def cut(self) -> None:
        self.aborted = True
        self.hang_up()

    def hang_up(self) -> None:
        waiting, self._finished = self._finished, []
        for each in waiting:
            each.addErrback(lambda _: None)
            each.errback(Failure(ConnectionError("cut")))

    def drain(self) -> None:
        self.room = 10**9
        self.producer.resumeProducing()


FRAME = re.compile(rb"(?:id: (?P<id>\S+)\n)?(?:event: (?P<kind>\S+)\n)?(?:data: (?P<data>.*)\n)?")


def frames(raw: bytes) -> Iterator[tuple[str | None, str | None, Any]]:
    """Yield whole frames, as a browser takes them: comments are nothing, and an unended frame is left out."""
    for text in raw.split(b"\n\n")[:-1]:
        lines = [line for line in text.split(b"\n") if not line.startswith((b":", b"retry:"))]
        match = FRAME.fullmatch(b"".join(line + b"\n" for line in lines))
        assert match is not None, text
        data = json.loads(match["data"]) if match["data"] else None
        yield (match["id"] or b"").decode() or None, (match["kind"] or b"").decode() or None, data


class Site:
    """Holds a journal with segments of few changes, and the log of it, which may be started again."""

    def __init__(self, folder: Path, inbox: Inbox, clock: Clock) -> None:
        self.folder, self.inbox, self.clock = folder, inbox, clock
        self.said = 0
        self.start()

    def start(self) -> None:
        # A busy machine takes its time to close; the journal keeps its lock while a thread may still write.
        limits = Limits(changes_per_segment=7, segment_seconds=0.05, group_seconds=0.0, close_seconds=60.0)
        self.journal = Journal(
            self.folder / "journal", self.folder / "history", self.inbox, self._durable, lambda trouble: None,
            limits=limits,
        )  # fmt: skip
        recovery = self.journal.open()
        newest = max([self.journal.sealed_at, *(record.at for record in recovery.records[-1:])])
        self.log = EventLog(EPOCH, self.folder / "history", lambda: self.journal.sealed_at, newest)
        self.log.recall(recovery.records)
        timeline = Timeline()
        self.feed = RowFeed(self.clock, lambda: timeline, lambda: 0, lambda: 0, {}, self.clock.seconds)
        self.streams = Streams(self.clock, self.log, lambda: None, self.feed)

    def _durable(self, batch: Any) -> None:
        self.log.take(batch)

    def say(self, count: int) -> None:
        for _ in range(count):
            kind = ("silence", "link", "transition")[self.said % 3]
            where = {"silence": (), "link": ("web-1",), "transition": ("web-1", "disk")}[kind]
            self.journal.change(kind, {"number": self.said, "text": "ü\n" * (self.said % 5)}, *where)
            self.said += 1

    def settle(self, seconds: float = 0.0) -> None:
        """Wait until everything that was said is durable, and written to each reader."""
        mark = self.journal
        while mark.backlog_bytes:
            self.inbox.turn()
        self.inbox.turn()
        self.clock.advance(seconds)
        for _ in range(50):
            self.clock.advance(0)

    def restart(self) -> None:
        self.streams.stop()
        self.journal.close()
        self.inbox.turn()
        self.start()


@pytest.fixture
def site(tmp_path: Path, inbox: Inbox, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setattr(streams, "deferToThread", maybeDeferred)
    made = Site(tmp_path, inbox, clock)
    yield made
    made.streams.stop()
    made.journal.close()


def follow(site: Site, since: str | None = None, wanted: EventFilter | None = None, room: int = 10**9) -> Reader:
    reader = Reader(room)
    site.streams.open(reader, wanted or EventFilter(), since, OWNER)
    return reader


@pytest.mark.parametrize("seed", range(4))
def test_cut_at_random(site: Site, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that is cut anywhere, again and again, and over restarts, misses nothing and gets nothing twice."""
    chance = random.Random(seed)
    monkeypatch.setattr(event_log, "MOST_LINES", 10)
    monkeypatch.setattr(event_log, "SLACK", 3)
    monkeypatch.setattr(event_log, "ENOUGH", 4)
    monkeypatch.setattr(stream, "LINES_A_TURN", 3)
    got: list[int] = []
    last = f"{EPOCH}.0"
    reader = follow(site, last)

    def take(raw: bytes) -> None:
        nonlocal last
        for event_id, kind, data in frames(raw):
            last = event_id or last
            assert kind != "reset"
            if data is not None:
                got.append(data["document"]["number"])

    for _ in range(25):
        site.say(chance.randrange(12))
        site.settle(chance.choice((0.0, 0.0, 1.1, ALIVE_SECONDS)))
        what = chance.random()
        if what < 0.5 or reader.aborted:
            take(reader.got[: chance.randrange(len(reader.got) + 1)])
            reader.hang_up()
            site.say(chance.randrange(20))
            if what < 0.15:
                site.settle()
                site.restart()
            reader = follow(site, last, room=chance.choice((10**9, 200)))
    bound = Patience(PATIENCE)
    while reader.aborted or reader.producer.place != site.log.newest:
        assert bound.lasts()
        if reader.aborted:
            take(reader.got)
            reader = follow(site, last)
        if reader.producer.paused_at is not None:
            reader.drain()
        site.settle(1.1)
        time.sleep(0.01)  # the journal seals what memory has let go
    take(reader.got)
    assert got == list(range(site.said))


def test_a_frame(site: Site) -> None:
    """A frame is the same from memory and from a segment, to the last byte."""
    reader = follow(site)
    site.say(3)
    site.settle()
    live = list(frames(reader.got))[1:]
    assert [(event_id, kind) for event_id, kind, _ in live] == [
        (f"{EPOCH}.1", "silence"), (f"{EPOCH}.2", "link"), (f"{EPOCH}.3", "transition")
    ]  # fmt: skip
    (received,) = {data.pop("received") - data.pop("received", 0) > 0 for _, _, data in live}
    assert received
    assert [data for _, _, data in live] == [
        {"kind": "silence", "agent": None, "check_id": None, "document": {"number": 0, "text": ""}},
        {"kind": "link", "agent": "web-1", "check_id": None,
         "document": {"agent": "web-1", "number": 1, "text": "ü\n"}},
        {"kind": "transition", "agent": "web-1", "check_id": "disk", "document": {"number": 2, "text": "ü\nü\n"}},
    ]  # fmt: skip
    site.restart()
    site.log.floor = site.log.newest  # as if memory had none of it
    again = follow(site, f"{EPOCH}.0")
    site.settle(1.1)
    assert again.got.partition(b"\n\n")[2] == reader.got.partition(b"\n\n")[2]


def test_a_packed_stream_says_the_same(site: Site) -> None:
    """A packed stream is the same letter for letter, and each frame as soon as it is sent; its end is that of the
    packing.
    """
    plain, packed = follow(site), Reader()
    site.streams.open(packed, EventFilter(), None, OWNER, packing=Packing())
    reading, text = zlib.decompressobj(16 + zlib.MAX_WBITS), b""
    for _ in range(3):
        site.say(2)
        site.settle(ALIVE_SECONDS)
        text += reading.decompress(packed.got)
        packed.got = b""
        assert text == plain.got and not reading.eof
    site.streams.stop()
    assert reading.decompress(packed.got) == b"" and reading.eof


def test_streams_are_woken_as_a_turn_has_time(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn wakes as many streams as it has time for, and none is left out or woken twice."""
    readers, woken = [follow(site) for _ in range(5)], list[int]()
    before = [len(reader.got) for reader in readers]

    def a_turn(_: object) -> Callable[[], bool]:
        woken.append(sum(len(reader.got) > size for reader, size in zip(readers, before, strict=True)))
        return lambda: True

    monkeypatch.setattr(streams, "budget", a_turn)
    site.say(1)
    site.settle()
    assert woken == [0, 1, 2, 3, 4]
    assert {len(list(frames(reader.got))) for reader in readers} == {2}


def test_filters_and_how_far_it_has_come(site: Site) -> None:
    """Events that a reader doesn't want are passed over, and a keep-alive tells it so: it needn't be replayed."""
    reader = follow(site, wanted=EventFilter(kinds=frozenset({"transition"})))
    site.say(4)
    site.settle(ALIVE_SECONDS)
    assert [(event_id, kind) for event_id, kind, _ in frames(reader.got)] == [
        (f"{EPOCH}.0", None), (f"{EPOCH}.3", "transition"), (f"{EPOCH}.4", None)
    ]  # fmt: skip
    site.settle(ALIVE_SECONDS)
    assert reader.got.endswith(b": still here\n\n")


LABELS = {"web-1": {"role": "web"}, "db-1": {"role": "db"}}


@pytest.mark.parametrize(
    ("wanted", "fitting"),
    [
        ({}, "web db link none"),
        ({"kinds": frozenset({"link", "silence"})}, "link none"),
        ({"agents": ("web-*",)}, "web link none"),
        ({"agents": ("role=db",)}, "db none"),
        ({"agents": ("size=*",)}, "none"),
        ({"checks": ("di*",)}, "web link none"),
        ({"agents": ("db-1",), "checks": ("disk",)}, "none"),
    ],
)
def test_what_fits(wanted: dict[str, Any], fitting: str) -> None:
    """An event fits by patterns of agents and labels, and of checks; one that is about neither is for everybody."""
    lines = {
        "web": event_log.Line(1, "transition", "web-1", "disk", b""),
        "db": event_log.Line(2, "transition", "db-1", "load", b""),
        "link": event_log.Line(3, "link", "web-1", None, b""),
        "none": event_log.Line(4, "silence", None, None, b""),
    }
    chosen = EventFilter(**wanted, labels=lambda agent: LABELS.get(agent, {}))
    assert [name for name, line in lines.items() if chosen.fits(line)] == fitting.split()


def test_ids_of_others_are_reset(site: Site) -> None:
    """An id of another Helen, of a future, of nobody is answered by `reset`: one event says so, and the stream goes on
    from now.
    """
    site.say(2)
    site.settle()
    for strange, why in (("ffffffff.1", "another Helen"), (f"{EPOCH}.99", "newer than everything"), ("x", "another")):
        (_, first), (event_id, kind, data) = (None, None), list(frames(follow(site, strange).got))[-1]
        assert first is None
        assert (event_id, kind, data["id"]) == (f"{EPOCH}.2", "reset", f"{EPOCH}.2")
        assert why in data["why"]


def test_the_window_is_exceeded(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Segments that retention took, that are missing or unreadable, cause a reset and never a silent gap."""
    for _ in range(6):
        site.say(7)
        site.settle()
    site.restart()
    site.log.floor = site.log.newest
    files = sorted((site.folder / "history" / "segments").glob("chg-*.parquet"))
    assert len(files) >= 4
    older: Callable[[int], Any] = site.log.older
    assert len(older(0)[0]) == 42
    with monkeypatch.context() as patched:
        patched.setattr(event_log, "ENOUGH", 8)
        lines, at = older(0)
        assert (len(lines), at) == (14, lines[-1].at) and at > lines[0].at
        assert older(at)[0][0].at > at
    kept = files[2].read_bytes()
    files[2].write_bytes(b"x")
    with pytest.raises(TooOld, match="can't be read"):
        older(0)
    files[2].unlink()
    with pytest.raises(TooOld, match="missing"):
        older(0)
    files[2].write_bytes(kept)
    files[0].unlink()
    with pytest.raises(TooOld, match="longer ago"):
        older(0)
    monkeypatch.setattr(event_log, "MOST_FILES", 1)
    with pytest.raises(TooOld, match="more than 1 segments"):
        older(0)
    reader = follow(site, f"{EPOCH}.0")
    assert [kind for _, kind, _ in frames(reader.got)] == [None, "reset"]
    site.say(1)
    site.settle()
    assert [kind for _, kind, _ in frames(reader.got)] == [None, "reset", "silence"]


def test_what_is_not_sealed_yet_is_waited_for(tmp_path: Path) -> None:
    """A record that memory has let go and no segment has yet is waited for, rather than left out."""
    log = EventLog(EPOCH, tmp_path, lambda: 5, newest=9)
    assert log.older(0) is None


def test_a_reader_that_reads_nothing(site: Site) -> None:
    """Nothing waits for a reader that reads nothing, and after a minute it is cut. It comes back with its id, and has
    everything.
    """
    reader = follow(site, room=1)
    for _ in range(3):
        site.say(1_000)
        site.settle()
    assert len(reader.got) < 100
    site.settle(SLOW_SECONDS - ALIVE_SECONDS)
    assert not reader.aborted
    site.settle(2 * ALIVE_SECONDS)
    assert reader.aborted
    assert len(site.streams) == 0
    back = follow(site, f"{EPOCH}.0")
    site.settle(1.1)
    assert sum(data is not None for _, _, data in frames(back.got)) == 3_000


def test_memory_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is bounded by lines and by bytes; the floor says what is there no more."""
    monkeypatch.setattr(event_log, "MOST_LINES", 100)
    monkeypatch.setattr(event_log, "SLACK", 10)
    monkeypatch.setattr(event_log, "MOST_BYTES", 100_000)
    log = EventLog(EPOCH, tmp_path, lambda: 0, newest=0)
    for at in range(1, 301):
        log.take(Batch(records=(StoredChange(at, Change("link", 1.0, "a", None, b"{}")),)))
        assert len(log.after(log.floor, 10**6)) == at - log.floor <= 110
    for at in range(301, 320):
        great = Change("rule", 1.0, "a", None, b'{"x": "%b"}' % (b"x" * 20_000))
        log.take(Batch(records=(StoredChange(at, great),)))
        assert sum(len(line.frame) for line in log.after(log.floor, 10**6)) < 120_000
    assert log.after(log.floor, 1)[0].at == log.kept_above(0)[0].at == log.floor + 1
    assert json.loads(log.kept_above(0)[-1].data)["document"] == {"x": "x" * 20_000}
    assert Origin.SCHEDULED == 0


def test_all_that_memory_has_above_a_place(tmp_path: Path) -> None:
    """All lines above a place are found, without that of the place itself."""
    log = EventLog(EPOCH, tmp_path, lambda: 0, newest=0)
    log.take(Batch(records=tuple(StoredChange(at, Change("link", 1.0, "a", None, b"{}")) for at in (3, 5, 9))))
    kept = {floor: [line.at for line in log.kept_above(floor)] for floor in (0, 2, 3, 4, 5, 8, 9)}
    assert kept == {0: [3, 5, 9], 2: [3, 5, 9], 3: [5, 9], 4: [5, 9], 5: [9], 8: [9], 9: []}
