"""Events of a real Helen, over cuts, a kill and a restart; the command that follows them; and how many may."""

from __future__ import annotations

import contextlib
import json
import random
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from helen_running import Program, Running, wait_until
from test_web import ask, control

from helen.cli.client import Client, Event, read_events
from helen.cli.events import sentence
from helen.web.streams import MOST_STREAMS

HELEN = [sys.executable, "-c", "from helen.cli.main import main; main(prog_name='helen')"]


def test_events_as_they_are_read() -> None:
    """Comments are nothing, an id alone says how far it has come, and what is cut short is not there."""
    raw = b'retry: 5\nid: a.1\n\n: here\n\nid: a.2\nevent: ack\ndata: {"x": 1}\n\nid: a.3\nevent: ack\ndata: {'
    assert [event for event in read_events(raw.splitlines(keepends=True)) if event.id] == [
        Event("a.1", "", None), Event("a.2", "ack", {"x": 1})
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "document", "text"),
    [
        ("transition", {"was": {"status": "ok"}, "now": {"status": "critical", "kind": "soft"}, "summary": "", "why":
         "a result"}, "OK to CRITICAL (soft): a result"),
        ("decision", {"action": "hold", "what": "problem", "why": "a downtime"}, "hold problem a downtime"),
        ("link", {"event": "up"}, "up"),
        ("silence", {"action": "add", "id": "x", "comment": "noise"}, "add x noise"),
        ("ack", {"action": "set", "owner": "anna"}, "set by anna"),
        ("flap", {"on": True, "status": "warning"}, "begins, warning"),
        ("helen_start", {"version": "1"}, "1"),
        ("rule", {}, "changed"),
    ],
)  # fmt: skip
def test_the_gist_of_each_kind(kind: str, document: dict[str, object], text: str) -> None:
    """A line for people."""
    assert sentence(kind, document) == text


# ---------------------------------------------------------------------------------------------- a real one

integration = pytest.mark.integration


class Silences:
    """Changes that can be counted."""

    def __init__(self) -> None:
        self.count = 0

    def add(self, client: Client, many: int) -> None:
        for _ in range(many):
            window = {"kind": "silence", "id": f"s{self.count}", "agents": ["nobody"], "until": 3e9}
            client.post("/api/v1/windows", window)
            self.count += 1


@integration
def test_no_gap_and_no_double_over_a_kill(tmp_path: Path) -> None:
    """A reader that hangs up at random, a SIGKILL, a restart: every silence is seen once, in order."""
    chance, silences, seen = random.Random(4), Silences(), list[str]()
    helen = Running(tmp_path).up()
    last = f"{helen.client.get('/api/v1/states')['at']}"

    def read(most: int) -> None:
        nonlocal last
        with contextlib.closing(helen.client.events("/api/v1/events?kind=silence", last, 0.7)) as events:
            for event in events:
                last = event.id or last
                assert event.kind != "reset"
                if event.data is not None:
                    seen.append(event.data["document"]["id"])
                    most -= 1
                if most <= 0:
                    return

    try:
        for number in range(6):
            silences.add(helen.client, chance.randrange(1, 8))
            read(chance.randrange(1, 5))
            if number == 3:
                helen.signal(signal.SIGKILL)
                helen.program.wait()
                helen = Running(tmp_path).up()
        while len(seen) < silences.count:
            before = len(seen)
            read(silences.count)
            assert len(seen) > before
    finally:
        helen.end()
    assert seen == [f"s{number}" for number in range(silences.count)]


@pytest.fixture(scope="module")
def follower(fleet: Running) -> Iterator[Program]:
    words = [*HELEN, "events", "--state", str(fleet.state), "--kind", "silence", "--output", "json"]
    program = Program(words, fleet.folder / "events.log")
    yield program
    program.end()


@integration
def test_the_command(fleet: Running, follower: Program) -> None:
    """One event a line, within a second of the change."""
    body = {"kind": "silence", "id": "shown", "agents": ["nobody"], "until": 3e9, "comment": "for the test"}

    def shown() -> str:
        fleet.client.post("/api/v1/windows", body)  # it may not have begun to listen when the first one came
        return follower.said

    line = json.loads(wait_until(shown, "event").splitlines()[0])
    assert (line["kind"], line["document"]["id"], line["document"]["comment"]) == ("silence", "shown", "for the test")
    fleet.client.post("/api/v1/windows/shown/cancel", {})


@integration
def test_a_stream_too_many(fleet: Running) -> None:
    """It is refused with a time to come back; whoever hangs up makes room."""
    with contextlib.ExitStack() as stack:
        answer = None
        for _ in range(MOST_STREAMS + 1):
            connection = stack.enter_context(control(fleet))
            connection.request("GET", "/api/v1/events")
            answer = connection.getresponse()
            if answer.status != 200:
                break
        assert answer is not None
        assert (answer.status, answer.headers["retry-after"]) == (503, "5")
        assert json.loads(answer.read())["title"] == "too many streams"
    wait_until(
        lambda: b"helen_event_streams 1\n" in ask(fleet, "GET", "/metrics").raw, "room but for the follower", 5.0
    )


@integration
def test_wrong_filters(fleet: Running) -> None:
    """Before the stream begins."""
    assert ask(fleet, "GET", "/api/v1/events?kind=x").problem[:2] == (400, "bad request")
    many = "&".join(f"on={number}" for number in range(101))
    assert ask(fleet, "GET", f"/api/v1/events?{many}").problem[:2] == (400, "bad request")
