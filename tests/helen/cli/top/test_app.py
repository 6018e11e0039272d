"""Tests `helen top` on a screen of 80 columns and 24 lines with Textual's pilot: keys, contents and requests."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest
from click.testing import CliRunner
from textual.widgets import Input

from helen.cli.base.client import Failed
from helen.cli.main import main
from helen.cli.top.app import Top
from helen.cli.top.feed import Lost, Streaming
from helen.cli.top.page import Page
from helen.cli.top.rows import Update
from helen.cli.top.view import cells_of, line_of
from helen.web.rows.row import Row

PATIENCE = 60.0  # seconds; only what is broken comes near it
NOW = time.time()


class FakeFeed:
    """Tell the app the updates that a test gives."""

    def __init__(self) -> None:
        self.refreshed: list[bool] = []
        self.stopped = False

    def start(self, tell: Callable[[Any], None]) -> None:
        self.tell = tell

    def stop(self) -> None:
        self.stopped = True

    def refresh(self, whole: bool = False) -> None:
        self.refreshed.append(whole)


class FakeClient:
    """Note the requests."""

    def __init__(self) -> None:
        self.posted: list[tuple[str, Any]] = []
        self.schedule = [{"id": "disk", "check": "disk", "args": {"path": "/"}}]
        self.trouble: Exception | None = None

    def get(self, path: str) -> Any:
        if "explain" in path:
            line = {"at": None, "text": "used 93 % is above critical 90"}
            empty: dict[str, Any] = {"why_no_alert": [], "why_not_run": [], "what_else": [], "what_changed": []}
            return {"why_state": [line], **empty}
        return {"schedule": self.schedule}

    def post(self, path: str, body: Any) -> Any:
        if self.trouble is not None:
            raise self.trouble
        self.posted.append((path.removeprefix("/api/v1/"), body))
        return {"window": {"id": "d-1"}, "owner": "ann"}

    def stream(self, path: str, body: Any, patience: float) -> Iterator[dict[str, Any]]:
        self.posted.append((path.removeprefix("/api/v1/"), body))
        yield {"targets": 1}
        yield {"agent": "web-1", "outcome": "answered", "result": {"status": "ok", "summary": "fine \x1b[2J"}}


def result(check: str, status: str = "ok", agent: str = "web-1", **more: Any) -> dict[str, Any]:
    metric = {"name": "used", "value": 93.0, "unit": "%", "warn": "80", "crit": "90", "labels": {"path": "/"}}
    made = {"agent": agent, "check_id": check, "status": status, "summary": f"{check} is {status}", "received": NOW}
    return made | {"since": NOW - 7_200, "reason": None, "metrics": [metric], "took_ms": 4.0, "code": "c0de"} | more


def update(*results: Any, states: Any = (), whole: bool = True, trouble: str | None = None) -> Update:
    status = {"agents": {"known": 2, "connected": 1}, "journal": {"trouble": trouble}, "store": {"trouble": None}}
    return Update(status, results, tuple(states), {"web-1": {"role": "web"}}, whole)


FLEET = (result("disk", "critical"), result("load", "warning"), result("memory"), result("disk", agent="db-1"))


class Screen:
    """Drive the app with the pilot, and read its screen."""

    def __init__(self, app: Top, pilot: Any, feed: FakeFeed, client: FakeClient) -> None:
        self.app, self.pilot, self.feed, self.client = app, pilot, feed, client

    async def hear(self, told: Any) -> None:
        self.feed.tell(told)
        await self.pilot.pause()

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        await self.pilot.pause()

    async def write(self, key: str, text: str, end: str = "enter") -> None:
        """Press a key that opens the line, and fill it in."""
        await self.pilot.press(key)
        self.app.query_one(Input).value = text
        await self.press(end)

    async def settle(self, until: Callable[[], bool]) -> None:
        for _ in range(200):
            await self.pilot.pause(0.01)
            if until():
                return
        raise AssertionError(f"it does not come: {self.lines()}")

    def lines(self) -> list[str]:
        """Return the lines of the screen as text."""
        strips = self.app.screen._compositor.render_strips()
        return ["".join(segment.text for segment in strip).rstrip() for strip in strips][: self.app.size.height]

    @property
    def rows(self) -> list[str]:
        return [f"{row.agent}/{row.check}" for row in self.app.view.rows]


def play(
    scene: Callable[[Screen], Coroutine[Any, Any, None]], size: tuple[int, int] = (80, 24), **options: Any
) -> None:
    async def run() -> None:
        feed, client = FakeFeed(), FakeClient()
        app = Top(client, feed, **options)  # type: ignore[arg-type]
        async with app.run_test(size=size) as pilot:
            await scene(Screen(app, pilot, feed, client))
        assert feed.stopped

    asyncio.run(run())


def test_the_rows_on_80_by_24() -> None:
    """A screen of 80 by 24 has counts above, rows with letters beside colour, and keys below, none wider than it."""

    async def scene(screen: Screen) -> None:
        assert screen.lines()[0] == "asking Helen ..."
        await screen.hear(update(*FLEET))
        await screen.hear(Streaming(True))
        lines = screen.lines()
        assert len(lines) == 24 and max(map(len, lines)) <= 80
        assert lines[0] == "1 CR 0 UN 1 WA 2 OK  1/2 agents  by problems  live"
        assert lines[1].split() == ["STATE", "AGENT", "CHECK", "SINCE", "SUMMARY"]
        assert lines[2].split(maxsplit=4) == ["CR", "web-1", "disk", "2h", "disk is critical"]
        assert [line[:2] for line in lines[2:6]] == ["CR", "WA", "OK", "OK"]
        assert lines[-1] == "jk move  Enter more  e why  r run  a ack  d downtime  / find  s sort  ? help  q"

    play(scene)


def test_moving() -> None:
    """Letters and arrows move the cursor, which stays on its row when the order changes; a page is a screenful."""

    async def scene(screen: Screen) -> None:
        await screen.hear(update(*(result(f"c{n:03}", agent="a") for n in range(100))))
        view = screen.app.view
        await screen.press("j", "down", "k")
        assert view.cursor == 1
        await screen.press("G")
        assert (view.cursor, view.chosen.check) == (99, "c099")
        assert "c099" in "\n".join(screen.lines())
        await screen.press("g", "pagedown")
        assert view.cursor == view.size.height - 1
        await screen.hear(update(result("zzz", "critical"), whole=False))
        assert (view.rows[0].check, view.chosen.check) == ("zzz", f"c{view.size.height - 1:03}")

    play(scene)


def test_detail_why_and_help() -> None:
    """Detail, explanation and help are pages over the rows, and Esc or q leads back."""

    async def scene(screen: Screen) -> None:
        await screen.hear(update(*FLEET))
        await screen.press("enter")
        shown = "\n".join(screen.lines())
        assert "web-1/disk" in shown and "CRITICAL for 2h" in shown and "labels: role=web" in shown
        assert "used    93     %     80    90    path=/" in shown
        await screen.press("escape", "e")
        await screen.settle(lambda: isinstance(screen.app.screen, Page))
        assert "used 93 % is above critical 90" in "\n".join(screen.lines())
        await screen.press("q", "question_mark")
        assert "state:crit agent:web-* check:disk role=web since:1h" in "\n".join(screen.lines())
        await screen.press("q")
        assert not isinstance(screen.app.screen, Page)

    play(scene)


def test_filter_and_sort() -> None:
    """A filter counts while it is typed and says when it is wrong; s goes through the orders; `:` takes commands."""

    async def scene(screen: Screen) -> None:
        await screen.hear(update(*FLEET))
        await screen.press("slash", *"db-1")
        assert screen.rows == ["db-1/disk"]
        await screen.press("enter")
        assert "1 fit db-1" in screen.lines()[0]
        await screen.press("slash", *(["backspace"] * 10), *"is:x", "enter")
        assert "is:x: there are soft" in "\n".join(screen.lines())
        await screen.press("slash", *(["backspace"] * 20), "enter", "s")
        assert (screen.app.sort_by, screen.rows[0]) == ("agent", "db-1/disk")
        await screen.write("colon", "sort check")
        assert screen.app.sort_by == "check"
        await screen.write("colon", "filter state:warn")
        assert screen.rows == ["web-1/load"]
        await screen.write("slash", "none", end="escape")
        assert screen.rows == ["web-1/load"]
        assert screen.app.focused is screen.app.view
        await screen.write("colon", "nonsense")
        assert "nonsense is no command: there are filter, sort" in "\n".join(screen.lines())

    play(scene)


def test_actions() -> None:
    """Run, acknowledge and downtime act on the row under the cursor, and the answer is shown with hostile characters
    escaped."""

    async def scene(screen: Screen) -> None:
        await screen.press("r")
        assert "no row is chosen" in "\n".join(screen.lines())
        await screen.hear(update(*FLEET))
        await screen.press("r")
        await screen.settle(lambda: screen.app.standing.notice.startswith("run now"))
        assert r"run now: OK fine \x1b[2J" in "\n".join(screen.lines())
        await screen.write("a", "mine")
        await screen.settle(lambda: screen.app.standing.notice.startswith("acknowledged"))
        await screen.write("d", "30m new disks")
        await screen.settle(lambda: screen.app.standing.notice.startswith("downtime d-1 until"))
        (run, ran), (ack, acked), (window, opened) = screen.client.posted
        assert (run, ran["check"], ran["on"], ran["args"]) == ("runs", "disk", ["web-1"], {"path": "/"})
        assert (ack, acked["agent"], acked["check"], acked["comment"]) == ("acks", "web-1", "disk", "mine")
        assert (window, opened["kind"], opened["agents"], opened["checks"], opened["comment"]) == (
            "windows", "downtime", ["web-1"], ["disk"], "new disks",
        )  # fmt: skip
        assert opened["until"] - opened["begin"] == pytest.approx(1_800)
        assert len(screen.feed.refreshed) == 3
        await screen.write("d", "soon")
        await screen.settle(lambda: screen.app.standing.notice.startswith("write a duration"))
        screen.client.trouble = Failed("web-1/disk is not known to be broken")
        await screen.press("a", "enter")
        await screen.settle(lambda: "not known to be broken" in screen.app.standing.notice)
        await screen.write("colon", "reload")
        assert screen.feed.refreshed[-1] is True

    play(scene)


BEFORE = (result("load", "critical", agent="db-1", since=NOW - 60), result("disk", agent="web-1"))
WORSE = result("nightly", "critical", agent="pings", since=NOW)


@pytest.mark.parametrize("is_touched", [False, True])
@pytest.mark.parametrize(
    ("keys", "path"), [("a mine enter", "acks"), ("d 30m enter", "windows"), ("r", "runs"), (": run enter", "runs")]
)
def test_keys_act_on_the_check_that_is_shown(keys: str, path: str, is_touched: bool) -> None:
    """A key acts on the check that is shown, and not on a worse one that arrives above it meanwhile (J2)."""
    about = {"acks": "check", "windows": "checks", "runs": "check"}[path]
    opened, *rest = keys.split()

    async def scene(screen: Screen) -> None:
        screen.client.schedule = [{"id": name, "check": name, "args": {}} for name in ("load", "nightly")]
        await screen.hear(update(*BEFORE))
        await screen.press(*(["j", "k"] if is_touched else []), "e")
        await screen.settle(lambda: isinstance(screen.app.screen, Page))
        await screen.hear(update(WORSE, whole=False))
        await screen.press("escape")
        assert (screen.rows[0], screen.app.view.chosen.key) == ("pings/nightly", ("db-1", "load"))
        await screen.press("colon" if opened == ":" else opened)
        if rest:
            assert "db-1/load" in "\n".join(screen.lines()[-3:])
            await screen.press(*rest[0])
            assert "db-1/load" in "\n".join(screen.lines()[-3:])  # while the text is written, too
            await screen.hear(update(result("more", "critical", agent="pings", since=NOW + 1), whole=False))
            await screen.press("enter")
        await screen.settle(lambda: bool(screen.client.posted))
        await screen.settle(
            lambda: "db-1/load" in screen.app.standing.notice and "..." not in screen.app.standing.notice
        )
        ((asked, body),) = screen.client.posted
        assert (asked, body[about]) == (path, ["load"] if about == "checks" else "load")

    play(scene)


@pytest.mark.parametrize("key", ["a", "d", "r", "e", "enter"])
def test_a_row_that_leaves_the_list_is_not_replaced_by_its_neighbour(key: str) -> None:
    """Keys do nothing after the chosen row has left the list, until another is chosen or it is back (J2)."""

    async def scene(screen: Screen) -> None:
        await screen.hear(update(*BEFORE, WORSE))
        await screen.press("j")
        assert screen.app.view.chosen.key == ("db-1", "load")
        await screen.hear(update(result("load", "ok", agent="db-1"), whole=False))
        await screen.press(key)
        assert screen.client.posted == [] and not isinstance(screen.app.screen, Page)
        assert "db-1/load is not in the list any more" in "\n".join(screen.lines())
        await screen.hear(update(BEFORE[0], whole=False))
        assert screen.app.view.chosen.key == ("db-1", "load")
        await screen.hear(update(result("load", "ok", agent="db-1"), whole=False))
        await screen.press("k")
        assert screen.app.view.chosen.key == ("pings", "nightly")

    play(scene, filter_text="state:problem")


def test_a_row_out_of_sight_is_not_acted_on() -> None:
    """A chosen row that has sunk below the screen is not acted on, while an untouched list shows the worst first
    (J2)."""

    async def scene(screen: Screen) -> None:
        await screen.hear(update(*BEFORE))
        await screen.hear(update(*(result(f"c{n}", "critical", since=NOW + n) for n in range(60)), whole=False))
        assert "c59" in screen.lines()[2]
        await screen.press("a")
        assert "db-1/load is out of sight" in "\n".join(screen.lines())
        await screen.press("g")
        assert screen.app.view.chosen.check == "c59"

    play(scene)


def test_the_line_below_is_about_one_check_at_a_time() -> None:
    """A page that was asked for leaves no line below the list, and `:ack` without a row says that none is chosen
    (J2)."""

    async def scene(screen: Screen) -> None:
        await screen.write("colon", "ack")
        assert "no row is chosen" in "\n".join(screen.lines())
        await screen.hear(update(*BEFORE))
        await screen.press("e")
        await screen.settle(lambda: isinstance(screen.app.screen, Page))
        await screen.press("escape")
        assert "why db-1/load" not in "\n".join(screen.lines())

    play(scene)


def test_helen_goes_away_and_comes_back() -> None:
    """While Helen is away the screen says why and for how long, and keeps the rows; a new answer ends it."""

    async def scene(screen: Screen) -> None:
        await screen.hear(update(*FLEET))
        await screen.hear(Lost("no Helen runs on /x"))
        await screen.hear(Lost("no Helen runs on /x"))
        assert "no answer from Helen for 0s, trying again: no Helen runs on /x" in "\n".join(screen.lines())
        assert len(screen.rows) == 4
        await screen.hear(update(*FLEET[:2], trouble="No space"))
        assert "journal: No space" in "\n".join(screen.lines())
        assert len(screen.rows) == 2
        await screen.hear(update())
        assert "No checks yet. `helen token` prints the command" in "\n".join(screen.lines())

    play(scene)


def test_pause_and_wide() -> None:
    """A pause keeps the rows as they are until it ends; wide rows have further columns."""

    async def scene(screen: Screen) -> None:
        await screen.hear(update(*FLEET))
        await screen.press("p")
        await screen.hear(update(result("new", "critical"), whole=False))
        assert (len(screen.rows), "PAUSED" in screen.lines()[0]) == (4, True)
        await screen.press("p", "w")
        assert len(screen.rows) == 5
        assert screen.lines()[1].split()[3:7] == ["SINCE", "HEARD", "TOOK", "CODE"]
        await screen.press("q")

    play(scene, size=(140, 30))


def test_sigterm() -> None:
    """SIGTERM ends the app in order, so that the terminal is as before."""

    async def scene(screen: Screen) -> None:
        assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL  # else the next line would end all tests
        os.kill(os.getpid(), signal.SIGTERM)
        async with asyncio.timeout(PATIENCE):
            while not screen.app._exit:
                await asyncio.sleep(0.01)

    play(scene)


def test_no_color(monkeypatch: pytest.MonkeyPatch) -> None:
    """With NO_COLOR the app has no colours, and letters tell the states."""
    monkeypatch.setenv("NO_COLOR", "1")

    async def scene(screen: Screen) -> None:
        await screen.hear(update(*FLEET))
        assert screen.app.no_color
        assert [line[:2] for line in screen.lines()[2:4]] == ["CR", "WA"]

    play(scene)


def test_ten_thousand_checks_stay_fluid() -> None:
    """A key draws a screenful, and not the ten thousand rows below it."""

    async def scene(screen: Screen) -> None:
        await screen.hear(update(*(result(f"c{n}", agent=f"a{n % 500}") for n in range(10_000))))
        drawn: list[Row] = []
        render = screen.app.view.render_line
        screen.app.view.render_line = lambda y: (drawn.append(y), render(y))[1]  # type: ignore[method-assign]
        await screen.press("j")
        assert 0 < len(drawn) <= 5 * 24
        assert len(screen.rows) == 10_000

    play(scene)


def test_a_line_of_any_text() -> None:
    """A line of a row holds no control character, whatever text the row has."""
    row = Row("wéb-日本語日本語日本語日本語", "disk\x1b[2J", "critical", NOW, summary="x" * 200, soft="1/3", marks="AD")
    line = line_of(cells_of(row, NOW, False), 80)
    assert "\x1b" not in line
    assert line.startswith("CR 1/3AD"[:7])


def test_without_textual(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """Without Textual `helen top` names the missing extra, and a wrong option is reported before that."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    words = ["top", "--state", str(tmp_path)]
    result = CliRunner().invoke(main, words)
    assert (result.exit_code, "pip install 'helen-equus[top]'" in result.output) == (1, True)
    result = CliRunner().invoke(main, [*words, "--filter", "state:x"])
    assert (result.exit_code, "there are ok" in result.output) == (2, True)


def test_without_helen(tmp_path: Any) -> None:
    """Without a Helen `helen top` ends with 1 and an error after its screen is gone."""
    result = CliRunner().invoke(main, ["top", "--state", str(tmp_path)])
    assert (result.exit_code, "no Helen runs on" in result.output) == (1, True)
