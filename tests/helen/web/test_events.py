"""Tests events of a real Helen over cuts, a kill and a restart; the command that follows them; and their number."""

from __future__ import annotations

import contextlib
import http.client
import json
import random
import re
import signal
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import click
import pytest
from click.testing import CliRunner
from helen_running import Program, Running, wait_until
from web_client import Web, ask, control

from helen.cli.base.client import Client, Event, read_events
from helen.cli.events import begin_of, sentence
from helen.cli.main import main
from helen.web.streaming.streams import MOST_STREAMS, STREAMS_OF_TOKEN

HELEN = [sys.executable, "-c", "from helen.cli.main import main; main(prog_name='helen')"]


def test_events_as_they_are_read() -> None:
    """A reader of events ignores comments, takes an id alone as a place, and drops an event that is cut short."""
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
    """The sentence of an event is a line for people for each kind."""
    assert sentence(kind, document) == text


NOW = 1_764_338_400.0  # 2025-11-28 14:00:00 UTC


@pytest.mark.parametrize(
    ("since", "begin", "event"),
    [
        (None, None, None), ("2h", NOW - 7_200, None),
        ("90 s", NOW - 90, None), ("11000d", NOW - 11_000 * 86_400, None),
        ("1764000000", 1_764_000_000.0, None), ("14:30", NOW - 1_800, None),
        ("2025-11-28T10:00", NOW - 5 * 3_600, None), ("0a1b2c3d.17", None, "0a1b2c3d.17"), ("0", 0.0, None),
    ],
)  # fmt: skip
def test_since_is_how_long_ago_a_time_or_an_event(since: str | None, begin: float | None, event: str | None) -> None:
    """`--since` takes a span, a time or an event; a time without a zone is in that of --zone (J13)."""
    assert begin_of(since, NOW, ZoneInfo("Europe/Berlin")) == (begin, event)


@pytest.mark.parametrize("since", ["yesterday", "1 week", "25:00", "soon:", "15:01h"])
def test_what_is_no_since_is_refused(since: str) -> None:
    """A text that `--since` cannot be is a usage error."""
    with pytest.raises(click.UsageError, match="--since"):
        begin_of(since, NOW, ZoneInfo("Europe/Berlin"))


# ---------------------------------------------------------------------------------------------- a real one

integration = pytest.mark.integration


class Silences:
    """Open silences whose ids are numbered, so that they can be counted."""

    def __init__(self) -> None:
        self.count = 0

    def add(self, client: Client, many: int) -> None:
        for _ in range(many):
            window = {"kind": "silence", "id": f"s{self.count}", "agents": ["nobody"], "until": 3e9}
            client.post("/api/v1/windows", window)
            self.count += 1


@integration
def test_no_gap_and_no_double_over_a_kill(tmp_path: Path) -> None:
    """A reader that hangs up at random sees every silence once and in order, over a SIGKILL and a restart."""
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
    """`helen events` prints one event a line as it comes."""
    body = {"kind": "silence", "id": "shown", "agents": ["nobody"], "until": 3e9, "comment": "for the test"}

    def shown() -> str:
        fleet.client.post("/api/v1/windows", body)  # it may not have begun to listen when the first one came
        return follower.said

    line = json.loads(wait_until(shown, "event").splitlines()[0])
    assert (line["kind"], line["document"]["id"], line["document"]["comment"]) == ("silence", "shown", "for the test")
    fleet.client.post("/api/v1/windows/shown/cancel", {})


@integration
def test_changes_of_windows_that_cover_a_check(fleet: Running) -> None:
    """Changes of windows that cover a check are found by patterns, labels and exact keys; other kinds are not
    filtered."""
    scopes: dict[str, dict[str, Any]] = {
        "names": {"agents": ["web-?"], "checks": ["pul*"]}, "label": {"labels": {"role": "web"}},
        "exact": {"keys": [["web-1", "pulse"], ["web-2", "x"]]}, "other": {"agents": ["web-2"]},
        "rack": {"labels": {"rack": "7"}}, "else": {"keys": [["web-1", "endless"]]},
    }  # fmt: skip
    for name, scope in scopes.items():
        planned = {"kind": "silence", "id": f"c-{name}", "begin": 2e9, "until": 3e9, **scope}
        fleet.client.post("/api/v1/windows", planned)
        fleet.client.post(f"/api/v1/windows/c-{name}/cancel", {})

    def listed(query: str) -> list[tuple[str, str]]:
        changes = fleet.client.get(f"/api/v1/changes?kind=silence&from=1h&limit=1000&{query}")["changes"]
        found = [(each["document"]["id"], each["document"]["action"]) for each in changes]
        return [each for each in found if each[0].startswith("c-")]

    def of(*names: str) -> list[tuple[str, str]]:
        return [(f"c-{name}", action) for name in names for action in ("add", "cancel")]

    assert listed("") == of(*scopes)
    assert listed("covers=web-1/pulse") == of("names", "label", "exact")
    assert listed("covers=web-1/endless") == of("label", "else")
    every = "/api/v1/changes?kind=transition&kind=link&from=1h&on=web-1"
    assert fleet.client.get(f"{every}&covers=web-1/x")["changes"] == fleet.client.get(every)["changes"]
    for wrong in ("web-1", "/pulse", "web-1/", ""):
        problem = ask(fleet, "GET", f"/api/v1/changes?covers={wrong}").problem
        assert problem[0] == 400 and "AGENT/CHECK" in problem[2]


@integration
def test_past_changes_are_listed(fleet: Running) -> None:
    """`--once` prints the kept changes and ends, all or from an event or a time on, in the zone of --zone."""
    ids = [f"past{number}" for number in range(3)]
    for each in ids:
        fleet.client.post("/api/v1/windows", {"kind": "silence", "id": each, "agents": ["nobody"], "until": 3e9})
        fleet.client.post(f"/api/v1/windows/{each}/cancel", {})

    def listed(*words: str) -> list[Any]:
        words = ("events", "--state", str(fleet.state), "--kind", "silence", "--once", "--output", "json", *words)
        result = CliRunner().invoke(main, words)
        assert result.exit_code == 0, result.output
        return [json.loads(line) for line in result.stdout.splitlines()]

    every = [each for each in listed() if each["document"]["id"] in ids]
    assert [(each["document"]["id"], each["document"]["action"]) for each in every] == [
        (name, action) for name in ids for action in ("add", "cancel")
    ]
    assert [each["document"]["id"] for each in listed("--since", every[3]["id"])] == ["past2", "past2"]
    assert [each["id"] for each in listed("--since", "2h")][-6:] == [each["id"] for each in every]
    assert listed("--since", f"{every[-1]['received'] + 0.001}") == []
    words = ["events", "--state", str(fleet.state), "--kind", "silence", "--once", "--zone", "Asia/Tokyo"]
    shown = CliRunner().invoke(main, words).stdout.splitlines()
    at = datetime.fromtimestamp(every[-1]["received"], ZoneInfo("Asia/Tokyo"))
    assert shown[-1] == f"{at:%Y-%m-%d %H:%M:%S} - silence: cancel past2"


@integration
def test_since_lists_then_follows(fleet: Running) -> None:
    """`--since` gives past events and then new ones, each once."""
    body = {"kind": "silence", "agents": ["nobody"], "until": 3e9}
    fleet.client.post("/api/v1/windows", {**body, "id": "before"})
    words = [*HELEN, "events", "--state", str(fleet.state), "--kind", "silence", "--output", "json", "--since", "1h"]
    program = Program(words, fleet.folder / "since.log")
    try:
        wait_until(lambda: '"before"' in program.said, "what was there")
        fleet.client.post("/api/v1/windows", {**body, "id": "behind"})
        said = wait_until(lambda: program.said if '"behind"' in program.said else "", "what comes")
    finally:
        program.end()
    ids = [json.loads(line)["id"] for line in said.splitlines()]
    assert sorted(set(ids), key=lambda each: int(each.partition(".")[2])) == ids
    for name in ("before", "behind"):
        fleet.client.post(f"/api/v1/windows/{name}/cancel", {})


@integration
@pytest.mark.parametrize(
    ("query", "status", "said"),
    [("kind=x", 400, "no event is a 'x'"), ("from=1h&to=2h", 400, "`from` is before `to`"),
     ("from=soon", 400, "`from` is unix seconds"), ("limit=1001", 400, "`limit` is a number from 1 to 1000"),
     ("limit=0", 400, "`limit`"), ("cursor=x", 400, "`cursor` is none of ours"),
     ("since=ffffffff.1", 409, "of another Helen"), ("since=x", 409, "of another Helen")],
)  # fmt: skip
def test_wrong_questions_about_the_past(fleet: Running, query: str, status: int, said: str) -> None:
    """A wrong query of past changes is refused with a sentence."""
    problem = ask(fleet, "GET", f"/api/v1/changes?{query}").problem
    assert (problem[0], said in problem[2]) == (status, True), problem


@integration
def test_a_page_of_the_past(fleet: Running) -> None:
    """Pages of one change are the same as one page, and a cursor is good for its own filters alone."""
    whole = fleet.client.get("/api/v1/changes?from=1h&limit=20")
    first = fleet.client.get("/api/v1/changes?from=1h&limit=1")
    second = fleet.client.get(f"/api/v1/changes?from=1h&limit=1&cursor={first['next']}")
    assert [*first["changes"], *second["changes"]] == whole["changes"][:2]
    assert whole["from"] is not None and whole["from"] <= whole["changes"][0]["received"]
    other = ask(fleet, "GET", f"/api/v1/changes?from=2h&limit=1&cursor={first['next']}").problem
    assert (other[0], "of other filters" in other[2]) == (400, True)


def open_streams(fleet: Running) -> int:
    found = re.search(rb"^helen_event_streams ([0-9]+)$", ask(fleet, "GET", "/metrics").raw, re.M)
    assert found is not None
    return int(found[1])


@integration
def test_a_stream_too_many(fleet: Running) -> None:
    """A stream above the limit is refused with a time to come back, and a client that hangs up makes room."""
    before = open_streams(fleet)
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
    wait_until(lambda: open_streams(fleet) <= before, "room but for the followers of before")


@integration
def test_a_token_has_a_share_of_the_streams(fleet: Running) -> None:
    """A token has a share of the streams, and another caller has room still."""
    before = open_streams(fleet)
    made = ask(fleet, "POST", "/api/v1/web-tokens", {"name": "loud", "scopes": ["read"]}).json
    web, headers, statuses = Web(fleet), {"authorization": f"Bearer {made['token']}"}, []
    with contextlib.ExitStack() as stack:
        for _ in range(STREAMS_OF_TOKEN + 1):
            client = http.client.HTTPConnection(web.host, int(web.port), timeout=60)
            stack.callback(client.close)
            client.request("GET", "/api/v1/events", headers=headers)
            statuses.append(client.getresponse().status)
        assert statuses == [200] * STREAMS_OF_TOKEN + [503]
        other = stack.enter_context(control(fleet))
        other.request("GET", "/api/v1/events")
        assert other.getresponse().status == 200
    assert ask(fleet, "POST", "/api/v1/web-tokens/loud/revoke", {}).status == 200
    wait_until(lambda: open_streams(fleet) <= before, "end of these streams")


@integration
def test_wrong_filters(fleet: Running) -> None:
    """A wrong filter is refused before the stream begins."""
    assert ask(fleet, "GET", "/api/v1/events?kind=x").problem[:2] == (400, "bad request")
    many = "&".join(f"on={number}*" for number in range(101))
    assert ask(fleet, "GET", f"/api/v1/events?{many}").problem[:2] == (400, "bad request")
