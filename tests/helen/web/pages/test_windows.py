"""Tests downtimes and silences in a browser: lists, the form with its preview, two editors, and messages at an end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from browser import NARROW, WIDE, Tab
from helen_running import Running, wait_until
from playwright.sync_api import expect
from trio import Trio
from web_client import Web, ask

from helen.web.pages.assets import assets

pytestmark = pytest.mark.integration
Visit = Callable[..., AbstractContextManager[Tab]]
NEW_YORK, BERLIN = ZoneInfo("America/New_York"), ZoneInfo("Europe/Berlin")


@pytest.fixture(autouse=True)
def none_left(trio: Trio) -> Iterator[None]:
    """Cancel all windows after each test."""
    yield
    for window in windows(trio):
        trio.helen.client.post(f"/api/v1/windows/{window['id']}/cancel", {})


def windows(trio: Trio) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = trio.helen.client.get("/api/v1/windows")["windows"]
    return listed


def open_window(trio: Trio, **fields: Any) -> dict[str, Any]:
    body = {"kind": "downtime", "until": time.time() + 7_200.0, "author": "ben"} | fields
    made: dict[str, Any] = trio.helen.client.post("/api/v1/windows", body)["window"]
    return made


def held_by(trio: Trio, name: str) -> list[str]:
    states = trio.helen.client.get("/api/v1/states?all=true")["states"]
    return sorted(
        f"{each['agent']}/{each['check_id']}" for each in states if any(hold["ref"] == name for hold in each["held_by"])
    )


def preview(tab: Tab) -> Any:
    return tab.page.locator("#preview")


# ---------------------------------------------------------------------------------------------- the form


def test_preview_equals_effect(visit: Visit, trio: Trio) -> None:
    """The preview counts and names the checks that the downtime then holds, and links fill the form in."""
    with visit() as tab:
        tab.open("/windows/new?keys=web-1/sick&keys=web-2/calm&for=4h")
        expect(preview(tab)).to_contain_text("2 checks on 2 agents")
        tab.page.click("#preview details summary")
        expect(preview(tab).locator("li").first).to_have_text("web-1/sick")
        expect(preview(tab)).to_contain_text("(4 h)")
        tab.page.fill("[name=comment]", "new disks")
        tab.page.click("#send")
        tab.page.wait_for_url("**/windows")
        (window,) = windows(trio)
        assert (window["comment"], window["author"], window["keys"]) == (
            "new disks", "operator/anna", [["web-1", "sick"], ["web-2", "calm"]],
        )  # fmt: skip
        assert abs(window["until"] - window["begin"] - 14_400.0) < 10.0
        assert held_by(trio, window["id"]) == ["web-1/sick", "web-2/calm"]
        row = tab.page.locator(f"#w-{window['id']}")
        expect(row).to_contain_text("new disks by operator/anna")
        expect(row).to_contain_text("Holds 2 checks on 2 agents; not ok: web-1 sick")


@pytest.mark.parametrize(("month", "hours"), [("2027-03-27", [3.0, 2.0, 3.0]), ("2026-10-24", [3.0, 4.0, 3.0])])
def test_recurring_over_a_clock_change(visit: Visit, month: str, hours: list[float]) -> None:
    """The spans of a recurring window over a clock change are shown in its zone and in the reader's."""
    begin = datetime.fromisoformat(f"{month}T00:30").replace(tzinfo=BERLIN).timestamp()
    spans = [[begin + 1_800.0 + day * 86_400.0 - shift, begin + 1_800.0 + day * 86_400.0 - shift + 3_600.0 * long]
             for day, long, shift in zip(range(3), hours, _shifts(hours), strict=True)]  # fmt: skip
    with visit(timezone_id="America/New_York") as tab:
        tab.open("/windows/new")
        path = assets().path("window.js")
        source = f"async ([each, zone, here]) => (await import('{path}')).spanWords(each, zone, here)"
        words = [tab.page.evaluate(source, [span, BERLIN.key, NEW_YORK.key]) for span in spans]
        assert words == [_words(*span) for span in spans]
        if begin < time.time():
            return  # that night is over: no form takes it
        tab.page.check("[name=when][value=again]")
        tab.page.fill("[name=dayBegin]", "01:00")
        tab.page.fill("[name=dayEnd]", "04:00")
        tab.page.fill("[name=zone]", "Europe/Berlin")
        tab.page.fill("[name=begin]", f"{datetime.fromtimestamp(begin, NEW_YORK):%Y-%m-%dT%H:%M}")
        items = preview(tab).locator("ol li")
        for at, (first, last) in enumerate(spans):
            expect(items.nth(at)).to_have_text(_words(first, last))
        assert [(last - first) / 3_600.0 for first, last in spans] == hours


def _shifts(hours: list[float]) -> list[float]:
    """Return by how many seconds each day begins earlier or later after the night of the change."""
    lost = 3_600.0 * (3.0 - hours[1])
    return [0.0, 0.0, lost]


def _words(begin: float, end: float) -> str:
    first, last = datetime.fromtimestamp(begin, BERLIN), datetime.fromtimestamp(end, BERLIN)
    here, there = datetime.fromtimestamp(begin, NEW_YORK), datetime.fromtimestamp(end, NEW_YORK)
    day = "%a {} %b, %H:%M"
    length = f"{(end - begin) / 3_600.0:g} h" if end - begin >= 10_800.0 else f"{(end - begin) / 60.0:g} min"
    length = {"120 min": "2 h"}.get(length, length)
    return (
        f"{first.strftime(day.format(first.day))} to {last.strftime(day.format(last.day))} ({length});"
        f" here {here:%H:%M} to {there:%H:%M}"
    )


def test_much_of_the_fleet_takes_its_number(visit: Visit, trio: Trio) -> None:
    """A window over more than a tenth of the fleet is opened only with the typed number of its checks."""
    with visit() as tab:
        tab.open("/windows/new?kind=silence")
        expect(preview(tab)).to_contain_text("100 % of the fleet")
        body = {"kind": "silence", "until": 4e9, "dry_run": True}
        covered = trio.helen.client.post("/api/v1/windows", body)["covers"]
        tab.page.click("#send")
        expect(tab.page.locator("#fault")).to_contain_text(f"It covers {covered['checks']} checks: type that number")
        assert windows(trio) == [] and tab.page.locator("[name=sure]").evaluate("it => it === document.activeElement")
        tab.page.fill("[name=sure]", str(covered["checks"]))
        tab.page.click("#send")
        tab.page.wait_for_url("**/windows")
        assert [each["kind"] for each in windows(trio)] == ["silence"]


def test_messages_of_the_past_that_it_would_have_held(visit: Visit, trio: Trio) -> None:
    """The preview counts and names past messages that the window would have held, at its times of day alone."""
    with visit(timezone_id="UTC") as tab:
        tab.open("/windows/new?on=web-1&check=sick")
        sent = trio.helen.client.get("/api/v1/changes?kind=decision&on=web-1&check=sick")["changes"]
        number = sum(each["document"]["action"] == "notify" for each in sent)
        words = "1 message was due about these checks; it would have held it."
        if number > 1:
            words = f"{number} messages were due about these checks; it would have held them."
        expect(preview(tab)).to_contain_text(words)
        assert "web-1/sick: problem, critical" in (preview(tab).text_content() or "")
        other = (datetime.now(UTC).hour + 12) % 24
        tab.page.check("[name=when][value=again]")
        tab.page.fill("[name=dayBegin]", f"{other:02}:00")
        tab.page.fill("[name=dayEnd]", f"{other:02}:30")
        expect(preview(tab)).to_contain_text("No message was due about these checks at such times.")


def test_two_editors(visit: Visit, trio: Trio) -> None:
    """An editor who saves second is shown the other's changes, and overwrites nothing unseen."""
    window = open_window(trio, agents=["web-1"], checks=["ca*"], comment="kernel")
    with visit() as tab:
        tab.expected = ("412",)
        tab.open(f"/windows/{window['id']}")
        expect(preview(tab)).to_contain_text("1 check on 1 agent")
        tab.page.fill("[name=comment]", "kernel and firmware")
        open_window(trio, id=window["id"], agents=["web-1"], checks=["ca*"], comment="postponed", begin=window["begin"])
        tab.page.click("#send")
        difference = tab.page.locator("#difference")
        expect(difference).to_contain_text("Another operator has changed it since you opened this page")
        cells = difference.locator("tbody tr", has_text="reason").locator("td")
        assert cells.all_text_contents() == ["kernel", "postponed", "kernel and firmware"]
        assert [each["comment"] for each in windows(trio)] == ["postponed"] and tab.violations() == []
        tab.page.click("#send")
        tab.page.wait_for_url("**/windows")
        (changed,) = windows(trio)
        assert (changed["comment"], changed["begin"]) == ("kernel and firmware", window["begin"])
        assert changed["checks"] == ["ca*"]


def test_it_was_cancelled_meanwhile(visit: Visit, trio: Trio) -> None:
    """A form on a window that was cancelled says so, and opens it anew only when asked again."""
    window = open_window(trio, agents=["web-1"], checks=["calm"])
    with visit() as tab:
        tab.expected = ("412", "404")
        tab.open(f"/windows/{window['id']}")
        expect(preview(tab)).to_contain_text("1 check on 1 agent")
        trio.helen.client.post(f"/api/v1/windows/{window['id']}/cancel", {})
        tab.page.click("#send")
        expect(tab.page.locator("#difference")).to_contain_text("It has ended or was cancelled meanwhile")
        assert windows(trio) == []
        tab.page.click("#send")
        tab.page.wait_for_url("**/windows")
        assert [each["id"] for each in windows(trio)] == [window["id"]]


def test_what_is_wrong_is_said_beside_the_form(visit: Visit, trio: Trio) -> None:
    """A wrong field is explained beside the form, the typed text stays, and nothing is opened."""
    with visit() as tab:
        tab.expected = ("400",)
        tab.open("/windows/new?on=web-1")
        fault = tab.page.locator("#fault")
        tab.page.fill("[name=for]", "soon")
        expect(fault).to_have_text('"soon" is no length: write 30m, 2h, or 3d.')
        tab.page.fill("[name=for]", "1h 30m")
        expect(preview(tab)).to_contain_text("(1 h 30 min)")
        tab.page.check("[name=when][value=again]")
        tab.page.fill("[name=zone]", "Berlin")
        expect(fault).to_contain_text("`zone` is 'Berlin'")
        assert tab.violations() == []
        tab.page.click("#send")
        assert windows(trio) == [] and tab.page.input_value("[name=on]") == "web-1"


# ---------------------------------------------------------------------------------------------- the end of one


def test_cancel_says_what_is_told_at_once(visit: Visit, trio: Trio) -> None:
    """The dialog of a cancel names the checks with messages due at once, and these are sent."""
    window = open_window(trio, agents=["web-1"], comment="reboot")
    wait_until(lambda: "web-1/sick" in held_by(trio, window["id"]), "the hold")
    asked = ask(trio.helen, "POST", f"/api/v1/windows/{window['id']}/cancel", {"dry_run": True}).json
    assert asked["tells"] == {"checks": 2, "names": ["web-1/sick", "web-1/weak"]}
    begin = time.time()
    with visit() as tab:
        tab.open("/windows")
        tab.page.click("[data-cancel]")
        dialog = tab.page.locator("dialog")
        expect(dialog).to_contain_text(
            "People are told at once of 2 checks that are still not ok: web-1/sick, web-1/weak"
        )
        assert tab.violations() == []
        dialog.get_by_text("Cancel it").click()
        expect(tab.page.locator("#main")).to_contain_text("Nothing is held back")
        expect(tab.page.locator("[data-part=ended]")).to_contain_text("cancelled by operator/anna")
    told = trio.helen.client.get(f"/api/v1/changes?kind=decision&from={begin}")["changes"]
    notified = sorted(f"{each['agent']}/{each['check_id']}" for each in told if each["document"]["action"] == "notify")
    assert notified == ["web-1/sick", "web-1/weak"]


# ---------------------------------------------------------------------------------------------- readers


def test_readers_see_all_and_change_nothing(visit: Visit, trio: Trio) -> None:
    """A reader sees author, reason and scope of windows as text, and no form or button."""
    window = open_window(trio, labels={"role": "we*"}, checks=["calm"], comment="<b>new</b> kernel")
    later = open_window(trio, kind="silence", agents=["web-2"], begin=time.time() + 3_600.0, comment="later")
    with visit("read") as tab:
        tab.open("/windows")
        expect(tab.page.locator(f"#w-{window['id']}")).to_contain_text("<b>new</b> kernel by ben")
        expect(tab.page.locator(f"#w-{later['id']}")).to_contain_text("every check on web-2")
        assert tab.page.locator("[data-cancel], a[href='/windows/new']").count() == 0
        expect(tab.page.locator("main")).to_contain_text("helen open --scope operate")
        tab.open(f"/windows/{window['id']}")
        assert tab.page.locator("form#window").count() == 0
        tab.open("/windows/new")
        assert tab.page.locator("form#window").count() == 0 and tab.violations() == []


def test_without_scripts(browser: Any, trio: Trio) -> None:
    """Without scripts the lists can be read, and the form shows the command."""
    window = open_window(trio, agents=["web-1"], comment="kernel")
    token = (trio.helen.state / "web.token").read_text().strip()
    context = browser.new_context(java_script_enabled=False, extra_http_headers={"authorization": f"Bearer {token}"})
    try:
        page = context.new_page()
        page.goto(f"http://{trio.helen.run['web']}/windows")
        expect(page.locator(f"#w-{window['id']}")).to_contain_text("on 1 agent; not ok: web-1 sick, web-1 weak")
        page.goto(f"http://{trio.helen.run['web']}/windows/new?on=web-1&for=3h")
        assert page.input_value("[name=on]") == "web-1" and page.input_value("[name=for]") == "3h"
    finally:
        context.close()
    html = Web(trio.helen).ask("GET", "/windows/new?on=web-1&for=3h", accept="text/html").raw.decode()
    command = "helen downtime --on 'web-1' --for 3h --comment WHY"
    assert f'<noscript><p class="note">The form needs a script. From a shell: <code>{command}</code>' in html


def test_by_keyboard_alone(visit: Visit, trio: Trio) -> None:
    """A downtime is opened from the list by keyboard alone."""
    with visit() as tab:
        tab.open("/windows")
        tab.page.keyboard.press("n")
        tab.page.wait_for_url("**/windows/new")
        expect(preview(tab)).to_contain_text("checks on")
        tab.page.keyboard.press("/")
        tab.page.keyboard.type("web-3")
        tab.page.keyboard.press("Tab")
        tab.page.keyboard.type("calm")
        expect(preview(tab)).to_contain_text("1 check on 1 agent")
        tab.page.keyboard.press("Enter")
        tab.page.wait_for_url("**/windows")
        assert [(each["agents"], each["checks"]) for each in windows(trio)] == [(["web-3"], ["calm"])]


@pytest.mark.parametrize("size", [WIDE, NARROW])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_bars_a_reader(visit: Visit, trio: Trio, scheme: str, size: dict[str, int]) -> None:
    """axe finds no violation on the pages of windows in any state, and nothing is wider than the screen."""
    with visit(viewport=size, color_scheme=scheme) as tab:
        tab.expected = ("404",)
        tab.open("/windows")
        assert tab.violations() == []
        open_window(trio, id="on", comment="new kernel")
        open_window(trio, id="later", kind="silence", keys=[["web-1", "sick"]], begin=time.time() + 3_600.0)
        recurrence = {"days": ["mon", "sat"], "begin": "22:00", "end": "06:00", "zone": "Europe/Berlin"}
        open_window(trio, id="again", until=None, recurrence=recurrence, comment="backups", agents=["web-3"])
        for path in ("/windows", "/windows/again", "/windows/new", "/windows/nowhere"):
            tab.open(path)
            if path in ("/windows/again", "/windows/new"):
                expect(preview(tab)).to_contain_text("The last 7 days")
            assert tab.violations() == [], path
            assert tab.page.evaluate("() => document.documentElement.scrollWidth <= innerWidth"), path


def test_a_window_called_new(visit: Visit, trio: Trio) -> None:
    """A window with the id `new` has its own page, apart from the form of a new window."""
    open_window(trio, id="new", comment="odd name", agents=["web-1"])
    with visit() as tab:
        tab.open("/windows")
        tab.page.click("#w-new a.button")
        expect(tab.page.locator("h1")).to_have_text("Downtime: odd name")


def test_past_is_for_a_dry_run(fleet: Running) -> None:
    """`past` needs a dry run and at most 30 days, and nothing of it is kept."""
    window = {"kind": "silence", "agents": ["none-of-ours"], "until": 3e9}  # others have messages by then
    for body in ({"past": "7d"}, {"past": "31d", "dry_run": True}, {"past": 0, "dry_run": True}):
        answer = ask(fleet, "POST", "/api/v1/windows", window | body)
        assert answer.problem == (400, "bad request", "`past` is for a dry run, and 30 days at most")
    shown = ask(fleet, "POST", "/api/v1/windows", window | {"past": "30d", "dry_run": True}).json
    assert shown["past"]["messages"] == 0 and shown["past"]["newest"] == [] and shown["past"]["from"] <= time.time()
