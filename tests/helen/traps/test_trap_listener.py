"""Tests the cost of one result for the others, repetitions, and what the end of the receiver leaves."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from snmp_device import number, oid, text, ticks, tlv
from trap_messages import OURS, SENDER, WATCH, Clock, pdu, plain, secure

from helen.cli.base.client import Client
from helen.cli.base.failures import Failed
from helen.cli.traps import listener, repeats
from helen.cli.traps.listener import Counts, Listener
from helen.cli.traps.repeats import Repeats
from helen.cli.traps.security import Security
from helen.cli.traps.trap_file import read

FILE = """
communities = ["public"]
a_minute = 100000
at_once = 100000
[[source]]
address = "192.0.2.0/24"
[[trap]]
oid = "1.3.6.1.6.3.1.1.5.1"
check = "started"
status = "warning"
[[trap]]
oid = "1.3.6.1.6.3.1.1.5.3"
check = "link-{1.3.6.1.2.1.2.2.1.1}"
status = "critical"
"""
ROUTER, SWITCH = "192.0.2.9", "192.0.2.30"
SECONDS = 60.0
Post = Callable[[str, dict[str, Any], float], None]


class Taker:
    """Stands in for a Helen whose answers a function gives."""

    def __init__(self, post: Post) -> None:
        self.post = post


def a_listener(said: list[str], clock: Clock, client: Any, engine: bytes = OURS, boots: int = 42) -> Listener:
    return Listener(read(FILE), a_security(clock, engine, boots), client, Counts(said.append), clock)


def a_security(clock: Clock, engine: bytes = OURS, boots: int = 42) -> Security:
    return Security(frozenset([b"public"]), {WATCH.name: WATCH}, engine, boots, clock)


def cold_start(uptime: int = 0) -> bytes:
    """Return a trap of version 1, in which nothing differs from one start of the device to the next."""
    address = tlv(0x40, bytes((192, 0, 2, 9)))
    body = tlv(0xA4, oid("1.3.6.1.4.1.9.1.1"), address, number(0), number(0), ticks(uptime), tlv(0x30))
    return tlv(0x30, number(0), text("public"), body)


def ids(one: Listener) -> list[str]:
    found = []
    while one.waiting.qsize():
        found.append(one.waiting.get_nowait().body["id"])
    return found


def refusal(status: int | None, words: str = "no") -> Failed:
    failed = Failed(words)
    failed.status = status
    return failed


@pytest.mark.parametrize(
    ("status", "tries"),
    [(429, 1), (413, 1), (403, 1), (500, 4), (408, 4), (503, 7), (502, 7), (302, 7), (None, 7)],
)
def test_one_result_that_is_refused(monkeypatch: pytest.MonkeyPatch, status: int | None, tries: int) -> None:
    """One that Helen takes too much of is left out, one that fails is tried four times; the next result is posted."""
    monkeypatch.setattr(listener, "PAUSES", (0.0,))
    asked: list[str] = []

    def post(_path: str, body: dict[str, Any], _patience: float) -> None:
        asked.append(body["host"])
        if body["host"] == ROUTER and len(asked) < 7:
            raise refusal(status)

    said: list[str] = []
    one = a_listener(said, Clock(), Taker(post))
    one.receive(cold_start(), ROUTER, lambda _: None)
    one.receive(cold_start(), SWITCH, lambda _: None)
    for _ in range(2):
        one._post(one.waiting.get_nowait())
    assert asked == [ROUTER] * tries + [SWITCH]
    one.counts.flush()
    away = "" if tries == 1 else f"{tries - 1} tries while Helen is away (no); "
    left_out = f"1 not taken by Helen ({ROUTER}/started: no); 1 taken"
    assert said == [away + ("2 taken" if tries == 7 else left_out)]


def test_tries_of_a_helen_that_was_away_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """A result is given up for its own faults only."""
    monkeypatch.setattr(listener, "PAUSES", (0.0,))
    answers: list[Any] = [*[refusal(None)] * 9, *[refusal(500)] * 3, *[refusal(503)] * 2]

    def post(*_: Any) -> None:
        if answers:
            raise answers.pop(0)

    said: list[str] = []
    one = a_listener(said, Clock(), Taker(post))
    one.receive(cold_start(), ROUTER, lambda _: None)
    one._post(one.waiting.get_nowait())
    one.counts.flush()
    assert said == ["14 tries while Helen is away (no); 1 taken"]


@contextmanager
def serving(handler: type[http.server.BaseHTTPRequestHandler]) -> Iterator[str]:
    """Run a server with this handler, and yield its URL."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join(SECONDS)


@pytest.fixture
def proxy() -> Iterator[str]:
    """Is a proxy that finds each body too large, and says so to people."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(413)
            self.end_headers()
            self.wfile.write(b"<html>413 Request Entity Too Large</html>")

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    with serving(Handler) as url:
        yield url


def test_an_answer_that_is_no_json(proxy: str) -> None:
    """The status counts if an answer is no JSON: a trap that a proxy finds too large is given up."""
    said: list[str] = []
    one = a_listener(said, Clock(), Client(None, proxy, "secret"))
    one.receive(cold_start(), ROUTER, lambda _: None)
    one._post(one.waiting.get_nowait())
    one.counts.flush()
    assert len(said) == 1
    assert said[0].startswith(f"1 not taken by Helen ({ROUTER}/started: Helen's answer, with status 413, is no JSON")


class Breaking(http.server.BaseHTTPRequestHandler):
    """Reads each result and says nothing; other requests have an answer while `answers` is true."""

    answers = True

    def do_GET(self) -> None:
        if self.answers:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"ok")

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.mark.parametrize(("answers", "is_final"), [(True, True), (False, False)])
def test_a_result_whose_connection_breaks(monkeypatch: pytest.MonkeyPatch, answers: bool, is_final: bool) -> None:
    """The result is given up after four tries if Helen answers something else; else it waits until the end."""
    monkeypatch.setattr(listener, "PAUSES", (0.0,))
    monkeypatch.setattr(Breaking, "answers", answers)
    with serving(Breaking) as url:
        said, tries = list[str](), Tries(Client(None, url, "secret"))
        one = a_listener(said, Clock(), tries)
        tries.at_nine = one.ended.set
        one.receive(cold_start(), ROUTER, lambda _: None)
        one._post(one.waiting.get_nowait())
    one.counts.flush()
    assert tries.number == (4 if is_final else 9)
    why = "Helen can't be reached: Remote end closed connection without response"
    end = f"1 {'not taken by Helen' if is_final else 'lost'} ({ROUTER}/started: {why})"
    assert said == [f"{tries.number - 1} tries while Helen is away ({why}); {end}"]


class Tries:
    """Is a client whose posts are counted."""

    def __init__(self, client: Client) -> None:
        self.client, self.number = client, 0
        self.is_there = client.is_there

    def post(self, path: str, body: dict[str, Any], patience: float) -> None:
        self.number += 1
        if self.number == 9:
            self.at_nine()
        self.client.post(path, body, patience)

    def at_nine(self) -> None:
        """Do what the test wants then."""


# ---------------------------------------------------------------------------------------------- repetitions


def test_a_device_that_starts_twice() -> None:
    """The second start's trap has the same bytes and is a result of its own; a datagram that came twice is none."""
    clock = Clock()
    one = a_listener([], clock, None)
    for later in (0.0, 5.0, 174.0, 1.0, 179.0):
        clock.now += later
        one.receive(cold_start(), ROUTER, lambda _: None)
    first, again, still, second, its_copy = ids(one)
    assert first == again == still
    assert second == its_copy != first
    one.receive(cold_start(), SWITCH, lambda _: None)
    one.receive(cold_start(1), ROUTER, lambda _: None)
    assert len({first, second, *ids(one)}) == 4
    assert len(first) == 40


def test_a_copy_within_the_window_is_one_result() -> None:
    """A copy of version 3 that is taken though it is not new has the name of the first, also after SIGHUP."""
    clock = Clock()
    one = a_listener([], clock, None)
    one.receive(secure(pdu(), time=900), SWITCH, lambda _: None)
    clock.now += 149
    one.take(read(FILE), a_security(clock))
    one.receive(secure(pdu(), time=900), SWITCH, lambda _: None)
    first, copy = ids(one)
    assert first == copy


def test_a_start_gives_other_names() -> None:
    """A start gives other names by the wall clock, since monotonic time may begin anew."""
    names = {Repeats(lambda: 7.0, lambda wall=wall: wall).name(ROUTER, b"pdu") for wall in (10.0, 20.0)}  # type: ignore[misc]
    assert len(names) == 2


def test_notifications_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first notifications are forgotten."""
    monkeypatch.setattr(repeats, "MOST_KNOWN", 3)
    wall = iter(range(100))
    known = Repeats(lambda: 7.0, lambda: float(next(wall)))
    first, *_, last = [known.name(ROUTER, bytes((each,))) for each in range(4)]
    assert len(known._known) == 3
    assert known.name(ROUTER, bytes((3,))) == last
    assert known.name(ROUTER, bytes((0,))) != first


# ---------------------------------------------------------------------------------------------- another file, the end


def test_old_copies_after_another_file() -> None:
    """The times of senders stay known after another file."""
    clock, said = Clock(), list[str]()
    one = a_listener(said, clock, None)
    old = secure(pdu(id_=6), time=4_000)
    one.receive(old, SWITCH, lambda _: None)
    one.receive(secure(pdu(), time=90_000), SWITCH, lambda _: None)
    for _ in range(2):
        one.take(read(FILE), a_security(clock, boots=77))
        one.receive(old, SWITCH, lambda _: None)
    assert one.waiting.qsize() == 2
    one.counts.flush()
    assert said == [f"2 refused (from {SWITCH}: a time that is not now)"]


def test_who_the_receiver_is_after_another_file() -> None:
    """One engine has one start, so that senders of informs need not ask again; another engine has its own."""
    clock = Clock()
    one = a_listener([], clock, None)
    clock.now += 300
    one.take(read(FILE), a_security(clock, boots=342))
    inform = secure(pdu(0xA6), OURS, 42, 300, flags=7)
    assert one.security.open(inform).confirmation
    clock.now += 50
    one.take(read(FILE), a_security(clock, SENDER, 392))
    assert one.security.open(secure(pdu(0xA6), SENDER, 392, 0, flags=7)).confirmation


def test_what_waits_at_the_end_is_counted() -> None:
    """Traps that wait at the end are counted, with the one that Helen has not answered."""
    begun, answered = threading.Event(), threading.Event()

    def post(*_: Any) -> None:
        begun.set()
        answered.wait(SECONDS)

    said: list[str] = []
    one = a_listener(said, Clock(), Taker(post))
    for uptime in range(6):
        one.receive(cold_start(uptime), ROUTER, lambda _: None)
    poster = threading.Thread(target=one._post_all, daemon=True)
    poster.start()
    assert begun.wait(SECONDS)
    one.ended.set()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(listener, "POST_SECONDS", 0.01)
        one._end(poster)
    one.counts.flush()
    assert said == ["6 lost (6 waited for Helen at the end)"]
    answered.set()
    poster.join(SECONDS)
    assert not poster.is_alive()


def test_all_is_posted_at_the_end() -> None:
    """Nothing is lost at the end if there is a Helen."""
    said: list[str] = []
    one = a_listener(said, Clock(), Taker(lambda *_: None))
    one.receive(plain(pdu()), ROUTER, lambda _: None)
    one.receive(cold_start(), ROUTER, lambda _: None)
    one.ended.set()
    one.run()
    one.close()
    assert said == ["2 taken"]
