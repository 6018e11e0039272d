"""Tests the page of why: the sentences of /explain, messages sent and held back, and steps through the past."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from browser import NARROW, WIDE, Tab
from helen_running import Running, wait_until
from playwright.sync_api import Browser
from remotes import Receiver
from signing_in import signed_in

from helen.web.pages.why import links_of, moment_of
from helen.web.problems import Problem

pytestmark = pytest.mark.integration
HOSTILE = "<script>alert(1)</script>"
WORD = f"""local check = {{ summary = "Says what it is told", needs = {{}}, every = "1s",
  args = {{ state = {{ type = "string", default = "ok", help = "its status" }} }} }}
function check.run(args, host)
  return args.state, "it is " .. args.state .. " {HOSTILE}\\27[31m"
end
return check
"""
IDS = ("told", "held", "acked", "child", "disk/why")
ASSIGN = "[judge]\nattempts = 1\nflap = false\n" + "".join(
    f'[[assign]]\ncheck = "word"\nid = "{each}"\nargs = {{ state = "STATE" }}\n'
    + ('depends = ["told"]\n' if each == "child" else "")
    for each in IDS
)
NOTIFY = """
[channels.ops]
type = "webhook"
url = "URL/ops"
[route]
group_by = ["agent", "check"]
group_wait = "0s"
group_interval = "1s"
channels = ["ops"]
[[route.routes]]
name = "databases"
match = ["role=db"]
channels = ["ops"]
"""


class Stage:
    """Run a Helen with checks on web-1 that turned bad: one has a message, and each other one is held back."""

    def __init__(self, helen: Running, browser: Browser, url: str) -> None:
        self.helen, self.browser = helen, browser
        (helen.state / "notifications.toml").write_text(NOTIFY.replace("URL", url))
        self.assign("ok")
        self.agent = helen.agent("web-1", "role=web")

    def begin(self) -> None:
        """Let all checks be ok once, then bad."""
        helen = self.helen
        self.wait_for("ok", *IDS)
        down = {"kind": "downtime", "id": "d1", "agents": ["web-1"], "checks": ["held"], "comment": "disks"}
        helen.client.post("/api/v1/windows", {**down, "until": time.time() + 3_600})
        self.assign("critical")
        self.wait_for("critical", *IDS)
        self.acknowledge("acked", "eva", HOSTILE)

    def acknowledge(self, check: str, owner: str, comment: str) -> None:
        """Acknowledge a problem."""
        body = {"keys": [["web-1", check]], "owner": owner, "comment": comment}
        self.helen.client.post("/api/v1/acks/many", body)

    def assign(self, state: str) -> None:
        self.helen.client.put("/api/v1/assignments", {"text": ASSIGN.replace("STATE", state)})

    def wait_for(self, status: str, *ids: str) -> None:
        """Wait until these checks have a status."""

        def is_so() -> bool:
            listed = self.helen.client.get("/api/v1/states?agent=web-1")["states"]
            return {each["check_id"] for each in listed if each["status"] == status} >= set(ids)

        wait_until(is_so, f"{status} of {ids}")

    def tab(self, *scopes: str, **options: Any) -> Any:
        return signed_in(self.browser, self.helen, scopes or ("operate",), **options)

    def explained(self, check: str, **query: Any) -> dict[str, Any]:
        """Return the document of /explain."""
        path = f"/api/v1/explain/web-1/{check}" + "".join(f"?{key}={value}" for key, value in query.items())
        found: dict[str, Any] = self.helen.client.get(path)
        return found


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> Iterator[Stage]:
    """Provide one stage for all tests of this file."""
    folder = tmp_path_factory.mktemp("why")
    (folder / "checks").mkdir()
    (folder / "checks" / "word.lua").write_text(WORD)
    with Receiver() as receiver:
        helen = Running(folder).up()
        stage = None
        try:
            stage = Stage(helen, browser, receiver.url)
            stage.begin()
            yield stage
        finally:
            if stage is not None:
                stage.agent.end()
            helen.end()


def part(tab: Tab, heading: str) -> list[tuple[str, str]]:
    """Return (class, text) of each line below a heading."""
    source = """name => {
        const heading = [...document.querySelectorAll(".five h2")].find(each => each.textContent === name);
        const list = heading?.nextElementSibling;
        const lines = [...(list?.querySelectorAll("li") ?? [])];
        return lines.map(each => [each.className, each.lastElementChild.textContent]);
    }"""
    return [(kind, " ".join(text.split())) for kind, text in tab.page.evaluate(source, heading)]


# ---------------------------------------------------------------------------------------------- values, pure


@pytest.mark.parametrize(
    ("text", "at"),
    [(None, None), ("", None), ("now", None), ("1700000000.5", 1_700_000_000.5), ("1h", 1_699_996_400.0),
     ("2023-11-14T22:13", 1_699_999_980.0), ("2023-11-14T22:13:20", 1_700_000_000.0)],
)  # fmt: skip
def test_moments(text: str | None, at: float | None) -> None:
    """A moment is read from seconds, a span ago, or a browser's field in UTC."""
    assert moment_of(text, 1_700_000_000.0) == at


@pytest.mark.parametrize("text", ["yesterday", "2023-13-14T22:13", "-5", "nan", "1e12", "T"])
def test_what_is_no_moment(text: str) -> None:
    """A text that is no moment, or has no date, is refused with 400."""
    with pytest.raises(Problem) as caught:
        moment_of(text, 1_700_000_000.0)
    assert caught.value.status == 400


def test_links_of_what_holds_messages_back() -> None:
    """A reason to hold messages back is a link if it has a page, with each name as one segment."""
    refs = [("downtime", "d/1"), ("silence", "s"), ("rollout", "7"), ("dependency", "gw 1/ping/4"), ("soft", "")]
    line = {"refs": [{"kind": kind, "ref": ref} for kind, ref in refs]}
    assert links_of("a", line) == [
        ("/windows/d%2F1", "downtime d/1"), ("/windows/s", "silence s"), ("/rollouts/7", "version 7"),
        ("/checks/gw%201/ping%2F4/why", "gw 1/ping/4"),
    ]  # fmt: skip
    assert links_of("a", {"at": None, "text": "no refs"}) == []


# ---------------------------------------------------------------------------------------------- the page


def test_the_five_parts_are_those_of_the_api(stage: Stage) -> None:
    """The page has each sentence of /explain in its order as text, and a sent message under Told."""
    wait_until(lambda: any(line.get("told") for line in stage.explained("told")["why_no_alert"]), "a message")
    with stage.tab() as tab:
        tab.open("/checks/web-1/told/why")
        found = stage.explained("told")
        for heading, key in (
            ("What else broke then", "what_else"), ("What changed in the day before", "what_changed")
        ):  # fmt: skip
            assert [text for _, text in part(tab, heading)] == [" ".join(line["text"].split()) for line in found[key]]
        [first, *_] = part(tab, "Why this state")
        assert first[1] == " ".join(found["why_state"][0]["text"].split())
        assert tab.page.locator("main script").count() == 0
        [(kind, text)] = part(tab, "Told")
        assert kind == "told" and text.startswith("ops (rule route): problem sent")
        assert tab.page.inner_text("main .lead").startswith("critical since")
        assert part(tab, "Runs")[0][1] == "scheduled every 1 s, at most 10 s long"
        assert tab.page.get_attribute("footer a", "href") == "/api/v1/explain/web-1/told"
        assert tab.page.inner_text("footer code") == "helen explain web-1/told"
        route = tab.page.locator("section", has_text="Who would be told now").inner_text()
        assert "ops by rule route" in " ".join(route.split()) and "role=db does not hold: role is 'web'" in route


@pytest.mark.parametrize(
    ("check", "says", "link"),
    [
        ("held", "held back now by downtime: downtime d1", "/windows/d1"),
        ("child", "held back now by dependency", "/checks/web-1/told/why"),
        ("acked", f"acknowledged by eva: {HOSTILE}", None),
    ],
)
def test_each_hold_has_its_line_and_its_link(stage: Stage, check: str, says: str, link: str | None) -> None:
    """A reason to hold a message back stands under Not told, with a link to its page."""
    with stage.tab() as tab:
        tab.open(f"/checks/web-1/{check}/why")
        lines = part(tab, "Not told, and why")
        assert any(text.startswith(says) and kind == "held" for kind, text in lines), lines
        links = tab.page.locator("li.held a").evaluate_all("all => all.map(each => each.getAttribute('href'))")
        assert set(links) == ({link} if link else set())


def test_an_id_with_a_slash_is_one_segment(stage: Stage) -> None:
    """A check whose id has a slash has pages of its own, and other ids are not found."""
    with stage.tab() as tab:
        tab.open("/checks/web-1/disk%2Fwhy/why")
        assert tab.page.inner_text("h1") == "Why web-1 disk/why"
        tab.open("/checks/web-1/disk%2Fwhy")
        assert tab.page.inner_text("h1") != "Why web-1 disk/why" and "disk/why" in tab.page.inner_text("h1")
        tab.expected = ("404",)
        for path in ("/checks/web-1/none/why", "/checks/nobody/told/why", "/checks/web-1/disk/why"):
            assert tab.open(path).status == 404, path
            assert tab.violations() == []


def test_keys_step_through_the_past(stage: Stage) -> None:
    """Keys step to the change before, to the next one and to now, and each page is /explain at that moment."""
    with stage.tab() as tab:
        tab.open("/checks/web-1/held/why")
        tab.page.keyboard.press("[")
        tab.page.wait_for_url("**?at=*")
        at = float(tab.page.url.partition("at=")[2])
        assert tab.page.inner_text("main .lead").startswith("critical since")
        assert tab.page.inner_text("footer a") == "JSON"
        tab.page.keyboard.press("[")
        tab.page.wait_for_url(lambda url: float(url.partition("at=")[2]) < at)
        assert tab.page.inner_text("main .lead").startswith("ok since")
        earlier = float(tab.page.url.partition("at=")[2])
        assert stage.explained("held", at=earlier)["state"]["status"] == "ok"
        assert part(tab, "Why this state")[0][1].startswith("first result: ok")
        tab.page.keyboard.press("]")
        tab.page.wait_for_url(lambda url: float(url.partition("at=")[2]) == at)
        tab.page.keyboard.press("n")
        tab.page.wait_for_url("**/checks/web-1/held/why")
        assert tab.violations() == []


def test_a_moment_is_chosen_in_the_field(stage: Stage) -> None:
    """A moment is chosen in the reader's zone; one before all history says so, and one to come is refused."""
    with stage.tab(timezone_id="Asia/Tokyo") as tab:
        tab.open("/checks/web-1/held/why")
        assert tab.page.inner_text("#zone") == "at (GMT+9)"
        tab.page.fill("input[name=at]", "2023-11-15T07:13:20")
        tab.page.keyboard.press("Enter")
        tab.page.wait_for_url("**?at=1700000000")
        assert tab.page.input_value("input[name=at]") == "2023-11-15T07:13:20"
        assert tab.page.inner_text("main .lead") == "No state is known at that moment."
        assert "2023-11-15 07:13:20" in tab.page.inner_text("main .note")
        assert tab.violations() == []
        tab.expected = ("400",)
        assert tab.open("/checks/web-1/held/why?at=9e9").status == 400
        assert tab.open("/checks/web-1/held/why?at=soon").status == 400
        assert "6h" in tab.page.inner_text(".lead")


def test_it_follows_what_happens(stage: Stage) -> None:
    """An acknowledgement appears on the page without a reload."""
    with stage.tab() as tab:
        tab.open("/checks/web-1/disk%2Fwhy/why")
        tab.page.wait_for_selector(".fresh[data-state=live]")
        stage.acknowledge("disk/why", "ann", "mine")
        tab.page.wait_for_selector("li.held >> text=acknowledged by ann")


def test_without_scripts(stage: Stage) -> None:
    """Without scripts the page can be read, its steps are links, and the field sends UTC."""
    with stage.tab(java_script_enabled=False) as tab:
        tab.open("/checks/web-1/held/why")
        tab.page.click("#before")
        assert tab.page.inner_text("main .lead").startswith("critical since")
        assert "downtime d1" in tab.page.inner_text("main")
        tab.page.fill("input[name=at]", "2023-11-14T22:13:20")
        tab.page.click("form#when button")
        assert "2023-11-14 22:13:20 UTC" in tab.page.inner_text("main .note")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
def test_axe_finds_nothing(stage: Stage, size: dict[str, int], scheme: str) -> None:
    """axe finds no violation on the page of why, and nothing is wider than the screen."""
    with stage.tab(viewport=size, color_scheme=scheme) as tab:
        for path in ("/checks/web-1/child/why", "/checks/web-1/told/why?at=1700000000"):
            tab.open(path)
            assert tab.violations() == [], path
            assert tab.page.evaluate("document.documentElement.scrollWidth") <= size["width"], path
