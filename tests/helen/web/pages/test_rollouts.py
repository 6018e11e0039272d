"""Tests the pages of rollouts in a browser: pushes to real agents through rings, watched, paused and undone."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from browser import NARROW, WIDE, Tab
from helen_running import Running, pulse, wait_until
from playwright.sync_api import Browser
from signing_in import signed_in

from helen.web.pages.environment import environment
from helen.web.pages.rollouts import Gauge, gauges_of

pytestmark = pytest.mark.integration
HOSTILE = "<script>alert(1)</script>"
BAD = pulse().replace('return "ok", args.word', f'return "critical", "{HOSTILE}\\27[31m"')
# How long a run takes on a busy machine is not what these tests are about: a push may go back for it.
QUICK = {"window": "2s", "results": "1", "patience": "60s", "run-time": "off"}
SLOW = {"window": "10m", "results": "30", "patience": "1h"}
FIGURES = {
    "check": "disk", "members": 2, "results": 3, "wanted": 6, "errors": 0.1, "errors_before": 0.05, "changed": 1,
    "comparable": 2, "run_ms": 30.0, "run_ms_before": 20.0, "peak_kib": 4_096.0, "peak_kib_before": None,
}  # fmt: skip
GATES = {"errors": 0.05, "changed": 0.05, "run_time": 2.0, "memory": 1.5}


class Stage:
    """Run a Helen with three agents that run `pulse` each second."""

    def __init__(self, helen: Running, browser: Browser) -> None:
        self.helen, self.browser, self.pushed = helen, browser, 0
        self.agents = [helen.agent(f"web-{number}", "role=web") for number in (1, 2, 3)]

    def tab(self, *scopes: str, **options: Any) -> Any:
        return signed_in(self.browser, self.helen, scopes or ("push",), **options)

    def current(self) -> dict[str, Any]:
        """Return the document of /rollouts/current."""
        found: dict[str, Any] = self.helen.client.get("/api/v1/rollouts/current")
        return found

    def push(self, text: str = "", rings: str = "34%,67%,100%", gates: dict[str, str] = QUICK) -> int:
        """Push another text of `pulse`, also several times."""
        self.pushed += 1
        files = {"pulse.lua": text or pulse(f"word {self.pushed}")}
        made = self.helen.client.post("/api/v1/push", {"files": files, "rings": rings, "gates": gates})
        return int(made["version"])

    def restart(self, meanwhile: Callable[[], None]) -> None:
        """Kill Helen, and start it again at the same addresses after `meanwhile`."""
        run = self.helen.run
        self.helen.program.process.kill()
        self.helen.program.wait()
        meanwhile()
        self.helen = Running(self.helen.folder, "--web", run["web"], "--listen", run["agents"]).up()

    def until(self, *states: str) -> dict[str, Any]:
        """Wait for one of these states of the newest rollout."""
        wait_until(lambda: self.current()["state"] in states, f"rollout that is {states}")
        return self.current()


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> Iterator[Stage]:
    """Provide one stage for all tests of this file."""
    folder = tmp_path_factory.mktemp("rollouts")
    (folder / "checks").mkdir()
    (folder / "checks" / "pulse.lua").write_text(pulse())
    helen = Running(folder).up()
    stage = None
    try:
        stage = Stage(helen, browser)
        wait_until(lambda: len(helen.client.get("/api/v1/results")["results"]) >= 3, "results of three agents")
        yield stage
    finally:
        for agent in stage.agents if stage else ():
            agent.end()
        (stage.helen if stage else helen).end()


@pytest.fixture
def steady(stage: Stage) -> Stage:
    """Provide the stage without a rollout under way."""
    if stage.current()["state"] in ("open", "paused"):
        stage.helen.client.post("/api/v1/rollouts/undo", {})
    stage.until("finished", "undone")
    return stage


def words(tab: Tab, selector: str) -> str:
    return " ".join(tab.page.inner_text(selector).split())


# ---------------------------------------------------------------------------------------------- figures, pure


def test_gauges_have_the_limits_of_the_gate() -> None:
    """Gauges have the gate's limits: errors by points, changes by share, costs by factor or slack, none without an
    old value."""
    found = gauges_of(FIGURES, GATES)
    assert found["errors"] == Gauge("10.0 %", "5.0 %", "10.0 %", 80.0, 40.0, 80.0, False)
    assert found["changed"] == Gauge("50.0 %", "", "5.0 %", 100.0, None, 80.0, True)
    assert found["run_ms"] == Gauge("30.0 ms", "20.0 ms", "70.0 ms", 34.3, 22.9, 80.0, False)
    assert found["peak_kib"] == Gauge("4.0 MiB", "", "", 80.0, None, None, False)


def test_gauges_of_nothing() -> None:
    """A figure that was not measured has no gauge, one without a gate no limit, and none compared is no change."""
    figures = {**FIGURES, "run_ms": None, "comparable": 0, "changed": 0, "peak_kib": 512.0, "errors": 0.0}
    found = gauges_of(figures, {"memory": None})
    assert found["run_ms"] is None
    assert found["changed"] == Gauge("0.0 %", "", "", 0.0, None, None, False)
    assert found["peak_kib"] == Gauge("512 KiB", "", "", 80.0, None, None, False)


# ---------------------------------------------------------------------------------------------- the pages


def test_nothing_was_rolled_out_yet() -> None:
    """An empty page of rollouts says how to begin."""
    template = environment().get_template("rollouts.html")
    context = template.new_context({"current": None, "is_last": False, "listed": [], "one": None})
    text = "".join(template.blocks["part_current"](context))
    assert "Nothing has been rolled out yet." in text and "helen push --rings" in text


def test_a_young_helen(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> None:
    """The first set offers no way back, and an unknown version is a page with a sentence."""
    helen = Running(tmp_path_factory.mktemp("young")).up()
    try:
        wait_until(lambda: helen.client.get("/api/v1/rollouts")["rollouts"], "first set")
        with signed_in(browser, helen, ("push",)) as tab:
            tab.open("/rollouts")
            assert words(tab, ".headline h2") == "Version 1"
            assert tab.page.locator("[data-do]").count() == 0
            assert tab.violations() == []
            tab.expected = ("404",)
            for path in ("/rollouts/7", "/rollouts/99999999999999999999"):
                assert tab.open(path).status == 404
                assert "was not rolled out" in words(tab, ".lead")
            assert tab.violations() == []
    finally:
        helen.end()


def test_a_push_is_watched_through_its_rings(steady: Stage) -> None:
    """A page follows a push through its rings to the end without a reload, and shows the API's figures."""
    with steady.tab() as tab:
        tab.open("/rollouts")
        tab.page.wait_for_selector(".fresh[data-state=live]")
        version = steady.push(rings="34%,100%")
        tab.page.wait_for_selector(f"[data-version='{version}'] >> text=under way")
        tab.page.wait_for_selector(f"[data-version='{version}'] >> text=finished")
        current = steady.until("finished")
        assert current["rings"][0]["state"] == "passed"
        tab.page.wait_for_selector(f"#history tr[data-version='{version}'] >> text=finished")
        rings = tab.page.locator(".rings > li").all_inner_texts()
        for text, ring in zip(rings, current["rings"], strict=True):
            assert f"Ring {ring['number']} ({ring['ring']})" in text and ring["state"] in text
            assert (ring["why"] or "") in " ".join(text.split())
        last = [ring for ring in current["rings"] if ring.get("figures")][-1]
        [figures] = last["figures"]
        row = words(tab, ".figures tbody tr")
        assert row.startswith(f"pulse {figures['results']} of {figures['wanted']}")
        assert f"{figures['run_ms']:.1f} ms" in row and f"{figures['errors']:.1%}".replace("%", " %") in row
        assert tab.page.title().endswith("Rollouts - Helen")


def test_taken_back_by_a_gate(steady: Stage) -> None:
    """A rollout taken back by a gate shows the reason first, with agents' words as text, as the API has it."""
    with steady.tab() as tab:
        tab.open("/rollouts")
        version = steady.push(BAD)
        tab.page.wait_for_selector("#why")
        current = steady.until("undone")
        assert words(tab, "#why") == " ".join(current["why"].split())
        assert current["rings"][0]["why"] == current["why"] and words(tab, ".rings").count(HOSTILE) == 0
        assert HOSTILE in current["why"] and "\x1b" not in words(tab, "main")
        assert tab.page.locator("main script").count() == 0
        assert tab.violations() == []
        tab.page.wait_for_selector(f"#history tr[data-version='{version}'] >> text=taken back")
        tab.page.click(f"#history tr[data-version='{version}'] a")
        tab.page.wait_for_url(f"**/rollouts/{version}")
        assert words(tab, "#why") == " ".join(current["why"].split())
        shown = steady.helen.client.get(str(tab.page.get_attribute("footer a", "href")))
        assert (shown["version"], shown["why"]) == (version, current["why"])
        assert shown["rings"] == current["rings"]


def test_pause_and_resume_by_keys_and_undo(steady: Stage) -> None:
    """Pause, resume and undo show their effect first, and then the page changes without a reload."""
    version = steady.push(gates=SLOW)
    base = steady.current()["base"]
    with steady.tab() as tab:
        tab.open("/rollouts")
        tab.page.wait_for_selector(".rings >> text=run it")
        tab.page.keyboard.press("p")
        tab.page.wait_for_selector(f"dialog >> text=Version {version} stays where it is: ring 1 (34%) open")
        assert tab.violations() == []
        tab.page.keyboard.press("Enter")
        tab.page.wait_for_selector(".headline .s-warning >> text=paused")
        assert steady.current()["paused"]["by"] == "operator/anna"
        assert "Paused by operator/anna" in words(tab, ".note")
        tab.page.keyboard.press("p")
        tab.page.wait_for_selector("dialog >> text=goes on")
        tab.page.keyboard.press("Escape")
        assert steady.current()["state"] == "paused"
        tab.page.keyboard.press("p")
        tab.page.wait_for_selector("dialog button.main:enabled")
        tab.page.keyboard.press("Enter")
        tab.page.wait_for_selector(".headline .s-now >> text=under way")
        tab.page.click("[data-do=undo]")
        tab.page.wait_for_selector(f"dialog >> text=all agents run version {base} again")
        tab.page.click("dialog button.main")
        tab.page.wait_for_selector(".headline .s-critical >> text=taken back")
        assert steady.current()["state"] == "undone"


def test_somebody_else_was_faster(steady: Stage) -> None:
    """A deed that another operator did first is refused in the dialog, and the page catches up."""
    steady.push(gates=SLOW)
    with steady.tab() as tab:
        tab.expected = ("409",)
        tab.open("/rollouts")
        tab.page.click("[data-do=pause]")
        tab.page.wait_for_selector("dialog button.main:enabled")
        steady.helen.client.post("/api/v1/rollouts/pause", {})
        tab.page.click("dialog button.main")
        tab.page.wait_for_selector("dialog .fault >> text=is paused already")
        tab.page.keyboard.press("Escape")
        tab.page.wait_for_selector("[data-do=resume]")


def test_helen_is_killed_in_the_middle(steady: Stage) -> None:
    """While Helen is killed both pages say so, and go on with the same rollout when it is back."""
    version = steady.push(gates=SLOW)
    with steady.tab() as tab, steady.tab() as other:
        pages = (tab, other)
        for each in pages:
            each.expected = ("net::ERR_", "Failed to fetch")
        tab.open("/rollouts")
        other.open("/author/pulse.lua")
        view = f"#rollout-view[data-version='{version}']"
        tab.page.wait_for_selector(f"[data-version='{version}'] >> text=under way")
        other.page.wait_for_selector(f"{view}[data-state=open]")
        for each in pages:
            each.page.wait_for_selector(".fresh[data-state=live]")

        def both_hear_nothing() -> None:
            for each in pages:
                each.page.wait_for_selector(".fresh:not([data-state=live])")

        steady.restart(both_hear_nothing)
        for each in pages:
            each.page.wait_for_selector(".fresh[data-state=live]")
        assert steady.current()["version"] == version
        steady.helen.client.post("/api/v1/rollouts/pause", {})
        tab.page.wait_for_selector(f"[data-version='{version}'] >> text=paused")
        other.page.wait_for_selector(f"{view}[data-state=paused]")
        other.page.click("#rollout-view [data-step=undo]")
        other.page.click("dialog button.danger")
        other.page.wait_for_selector(f"{view}[data-state=undone]")
        tab.page.wait_for_selector(".headline .s-critical >> text=taken back")
        assert steady.current()["state"] == "undone"


def test_the_newest_set_is_taken_back(steady: Stage) -> None:
    """A finished rollout is undone by the set before it."""
    steady.push(rings="100%")
    steady.until("finished")
    with steady.tab() as tab:
        tab.open("/rollouts")
        tab.page.keyboard.press("u")
        tab.page.wait_for_selector("dialog >> text=The set before is published again")
        tab.page.keyboard.press("Enter")
        tab.page.wait_for_selector("dialog", state="detached")
        wait_until(lambda: steady.helen.client.get("/api/v1/push")["version"] > steady.pushed, "set before")


def test_one_document_is_asked_for_while_it_is_open(steady: Stage) -> None:
    """An open rollout's page asks only for /rollouts/current with its tag, besides its own part and the stream."""
    steady.push(gates=SLOW)
    with steady.tab() as tab:
        tab.open("/rollouts")
        asked: list[tuple[str, str | None]] = []
        tab.page.on("request", lambda each: asked.append((each.url, each.headers.get("if-none-match"))))
        with tab.page.expect_request(lambda each: each.headers.get("if-none-match") is not None and
                                     each.url.endswith("/rollouts/current")):  # fmt: skip
            pass
        paths = {url.removeprefix(tab.origin).partition("?")[0] for url, _ in asked if "/s/" not in url}
        assert paths <= {"/api/v1/rollouts/current", "/rollouts", "/api/v1/events"}


def test_without_the_scope_and_without_scripts(steady: Stage) -> None:
    """A reader sees the command for more scopes and no button; without scripts all can be read."""
    steady.push(gates=SLOW)
    with steady.tab("read") as tab:
        tab.open("/rollouts")
        assert tab.page.locator("[data-do]").count() == 0
        assert "helen open --scope push" in words(tab, ".headline")
    with steady.tab(java_script_enabled=False) as tab:
        tab.open("/rollouts")
        assert not tab.page.is_visible("[data-do]")
        assert "under way" in words(tab, ".headline") and tab.page.locator(".rings > li").count() == 3
        assert json.dumps(steady.current()["version"]) in words(tab, ".headline")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
def test_axe_finds_nothing(stage: Stage, size: dict[str, int], scheme: str) -> None:
    """axe finds no violation on the pages of rollouts, and nothing is wider than the screen."""
    with stage.tab(viewport=size, color_scheme=scheme) as tab:
        for path in ("/rollouts", "/rollouts/1"):
            tab.open(path)
            tab.page.keyboard.press("j")
            assert tab.violations() == [], path
            assert tab.page.evaluate("document.documentElement.scrollWidth") <= size["width"], path
