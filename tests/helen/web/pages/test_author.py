"""Tests the author page: a check is written, judged as it is typed, tried, pushed through rings, watched and undone."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from browser import NARROW, WIDE, Tab, a_tab
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from helen_running import Running, pulse, wait_until
from playwright.sync_api import Browser

from equus.capabilities.names import ALWAYS_THERE, CAPABILITY_OF
from helen.keys import signing_keys

pytestmark = pytest.mark.integration
ROOT = Path(__file__).parents[4]
CODE = pulse()
AGENTS = ("a", "b", "c")
SLIP = '  return "ok", agrs.word'
GATES = "window=1s results=1 missing=100% run-time=off memory=off"
ASSIGN = (
    '[[assign]]\ncheck = "pulse"\nevery = "1s"\n\n[[assign]]\ncheck = "pulse"\nagents = "b"\nargs = { word = "bad" }\n'
)
NewTab = Callable[..., AbstractContextManager[Tab]]


@pytest.fixture(scope="module")
def helen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Provide a Helen and three agents, whose labels and assignments make `pulse` differ on b."""
    folder = tmp_path_factory.mktemp("author")
    (folder / "checks").mkdir()
    (folder / "checks" / "pulse.lua").write_text(CODE)
    made = Running(folder).up()
    programs = []
    try:
        (made.state / "assignments.toml").write_text(ASSIGN)
        programs = [made.agent(name, "role=odd" if name == "b" else "role=even") for name in AGENTS]
        wait_until(lambda: len(made.client.get("/api/v1/results")["results"]) == len(AGENTS), "results of all agents")
        yield made
    finally:
        for program in programs:
            program.end()
        made.end()


@pytest.fixture
def new_tab(browser: Browser, helen: Running) -> NewTab:
    token = (helen.state / "web.token").read_text().strip()
    return partial(a_tab, browser, f"http://{helen.run['web']}", {"authorization": f"Bearer {token}"})


@pytest.fixture
def fresh(helen: Running) -> Running:
    """Provide a Helen with CODE on all agents and no rollout under way, without pushing again if it is so already."""
    client = helen.client
    sha256 = hashlib.sha256(CODE.encode()).hexdigest()

    def is_out() -> bool:
        checks, rollout = client.get("/api/v1/checks"), client.get("/api/v1/rollouts/current")
        [shown] = [each for each in checks["checks"] if each["name"] == "pulse"]
        return (
            client.get("/api/v1/push")["loaded"] == len(AGENTS) and shown["sha256"] == sha256
            and checks["refused"] == [] and rollout["state"] not in ("open", "paused")
        )  # fmt: skip

    if is_out() and (helen.checks / "pulse.lua").read_text() == CODE:
        return helen
    if client.get("/api/v1/rollouts/current")["state"] in ("open", "paused"):
        client.post("/api/v1/rollouts/undo", {})
    client.post("/api/v1/push", {"files": {"pulse.lua": CODE}, "rings": "off"})
    wait_until(is_out, "set on all agents")
    return helen


class Author:
    """Use the page as a person does."""

    def __init__(self, tab: Tab, name: str = "pulse.lua") -> None:
        self.tab, self.page, self.name = tab, tab.page, name
        tab.open(f"/author/{name}")
        self.is_judged("no problem")

    def is_judged(self, text: str) -> None:
        self.page.wait_for_function("text => document.getElementById('verdict').textContent.includes(text)", arg=text)

    @property
    def content(self) -> Any:
        return self.page.locator("#pane-text .cm-content")

    def type_over(self, line: int, text: str) -> None:
        """Choose a line by three clicks, and type."""
        self.content.locator(".cm-line").nth(line - 1).click(click_count=3)
        self.page.keyboard.insert_text(text)

    def replace(self, text: str) -> None:
        self.page.click("#tab-text")
        self.content.click()
        self.page.keyboard.press("Control+a")
        self.page.keyboard.insert_text(text)

    def into(self, name: str, text: str) -> None:
        self.page.locator(f"[name={name}]").click(click_count=3)
        self.page.keyboard.insert_text(text)

    def answers(self) -> list[str]:
        return [str(text) for text in self.page.locator("#answers > li .head").all_inner_texts()]

    def is_answered(self, number: int) -> None:
        self.page.wait_for_function("n => document.querySelectorAll('#answers > li').length === n", arg=number)

    def push(self, press: Callable[[], None]) -> None:
        """Press a button that publishes, and wait until the page shows its rollout."""
        before = self.page.get_attribute("#rollout-view", "data-version")
        press()
        self.page.wait_for_function(
            "was => document.getElementById('rollout-view').dataset.version !== was", arg=before
        )

    def rollout_is(self, state: str) -> None:
        self.page.wait_for_selector(f"#rollout-view[data-state={state}]")

    def active(self, selector: str) -> bool:
        return bool(self.page.evaluate("selector => !!document.activeElement?.closest(selector)", selector))

    def tab_to(self, selector: str) -> None:
        """Press Tab until the focus is there; an element that is not reached cannot be used by keyboard."""
        for _ in range(80):
            if self.active(selector):
                return
            self.page.keyboard.press("Tab")
        raise AssertionError(f"Tab does not reach {selector}")


# ---------------------------------------------------------------------------------------------- the whole walk


def test_by_mouse_alone(fresh: Running, new_tab: NewTab) -> None:
    """A check is mended, tried on three agents, pushed through its rings and undone by mouse alone."""
    with new_tab() as tab:
        author = Author(tab)
        page = tab.page
        author.type_over(8, SLIP + "\n")
        author.is_judged("1 error")
        assert "agrs" in page.inner_text("#problems li")
        assert page.locator("#pane-text .cm-lint-marker-error").count() == 1
        page.click("#problems .jump")
        author.type_over(8, '  return "ok", args.word .. "!"\n')
        author.is_judged("no problem")
        assert page.locator("#pane-text .cm-lint-marker-error").count() == 0
        author.into("on", "a role=odd c")
        page.click("[name=run]")
        author.is_answered(3)
        assert sorted(text.split("\n")[1] for text in author.answers()) == ["a", "b", "c"]
        assert all("hello!" in text for text in author.answers())
        page.click("#tab-diff")
        assert page.locator("#pane-diff .cm-changedLine").count() == 1
        author.into("rings", "34%,100%")
        page.click("#gates summary")
        author.into("gates", GATES)
        page.click("#push button")
        page.wait_for_selector("dialog .plan li")
        assert [text.split(",")[0] for text in page.locator("dialog .plan li").all_inner_texts()] == [
            "34%: 2 agents", "100%: 1 agent",
        ]  # fmt: skip
        author.push(lambda: page.click("dialog button.main"))
        author.rollout_is("finished")
        assert page.locator("#rollout-view .r-passed").count() == 2
        assert fresh.client.get("/api/v1/push")["loaded"] == 3
        page.click("#rollout-view [data-step=back]")
        page.click("dialog button.danger")
        author.rollout_is("undone")
        assert "undone by" in page.inner_text("#rollout-view .note.critical")
    assert fresh.client.get("/api/v1/checks")["refused"][0]["file"] == "pulse.lua"


def test_by_keyboard_alone(fresh: Running, new_tab: NewTab) -> None:
    """A check is mended, tried, pushed and undone by keyboard alone; Escape and Tab leave the editor."""
    with new_tab() as tab:
        author = Author(tab)
        page, keys = tab.page, tab.page.keyboard
        keys.press("e")
        keys.press("Control+a")
        keys.insert_text(CODE.replace('  return "ok", args.word', SLIP))
        author.is_judged("1 error")
        keys.press("F8")
        keys.press("Home")
        keys.press("Shift+End")
        keys.insert_text('return "ok", args.word .. "?"')
        author.is_judged("no problem")
        keys.press("Tab")
        assert author.active(".pane"), "Tab indents"
        keys.press("Control+z")
        keys.press("Escape")
        keys.press("Tab")
        assert not author.active(".pane"), "Escape and Tab leave the editor"
        author.tab_to("[name=on]")
        keys.insert_text("a b c")
        keys.press("Control+Enter")
        author.is_answered(3)
        assert all("hello?" in text for text in author.answers())
        author.tab_to("[name=rings]")
        keys.press("Control+a")
        keys.insert_text("34%,100%")
        author.tab_to("#gates summary")
        keys.press("Enter")
        author.tab_to("[name=gates]")
        keys.insert_text(GATES)
        author.tab_to("#push button")
        keys.press("Enter")
        page.wait_for_selector("dialog .plan li")
        assert author.active("dialog button.main")
        author.push(lambda: keys.press("Enter"))
        author.rollout_is("finished")
        author.tab_to("[data-step=back]")
        keys.press("Enter")
        page.wait_for_selector("dialog[open] .danger")
        keys.press("Enter")
        author.rollout_is("undone")


def test_a_check_that_is_bad_on_one_agent_goes_back(fresh: Running, new_tab: NewTab) -> None:
    """A check that fails on one agent is taken back by the gate, and the page says why, also when opened again."""
    bad = CODE.replace('  return "ok"', '  if args.word == "bad" then error("not here") end\n  return "ok"')
    with new_tab() as tab:
        author = Author(tab)
        page = tab.page
        author.replace(bad)
        author.is_judged("no problem")
        author.into("on", "a b")
        page.locator("[data-arg=word]").fill("bad")
        page.click("[name=run]")
        author.is_answered(2)
        page.click("#answers .jump >> nth=0")
        assert page.locator("#pane-text .cm-lint-marker-error").count() == 1
        assert "line 8" in author.answers()[0] and "not here" in author.answers()[0]
        author.into("rings", "role=odd,100%")
        page.click("#gates summary")
        author.into("gates", GATES)
        page.click("#push button")
        author.push(lambda: page.click("dialog button.main"))
        author.rollout_is("undone")
        why = page.inner_text("#rollout-view .note.critical")
        assert why.startswith("Taken back: pulse: 1 of 1 runs failed") and "b: unknown, pulse.lua:8: not here" in why
        page.reload()
        assert "was taken back as version" in page.inner_text("[data-refused]")
        tab.open("/checks")
        assert "pulse.lua" in page.inner_text("section[aria-labelledby=refused]")


# ---------------------------------------------------------------------------------------------- others, and no keys


def test_another_author_has_pushed_meanwhile(fresh: Running, new_tab: NewTab) -> None:
    """A text that another author pushed meanwhile is shown against one's own; changes of other files do not matter."""
    with new_tab() as tab:
        tab.expected = ("412",)
        author = Author(tab)
        page = tab.page
        author.replace(pulse("mine"))
        author.is_judged("no problem")
        fresh.client.post("/api/v1/push", {"files": {"other.lua": CODE}, "rings": "off"})
        page.click("#push button")
        page.wait_for_selector("dialog .plan")
        page.click("dialog >> text=Cancel")
        fresh.client.post("/api/v1/push", {"files": {"pulse.lua": pulse("theirs")}, "rings": "off"})
        page.click("#push button")
        page.wait_for_selector("dialog >> text=was changed meanwhile")
        shown = page.inner_text("dialog .pane .cm-content")
        assert "mine" in shown and "theirs" in shown
        page.click("dialog >> text=Keep mine")
        assert author.content.inner_text().count("mine") == 1
        author.into("rings", "off")
        page.click("#push button")
        page.click("dialog button.main")
        wait_until(lambda: 'default = "mine"' in (fresh.checks / "pulse.lua").read_text(), "pushed text")
        fresh.client.post("/api/v1/push", {"files": {"pulse.lua": pulse("theirs")}, "rings": "off"})
        author.replace(pulse("mine again"))
        author.is_judged("no problem")
        page.click("#push button")
        page.click("dialog >> text=Take the other text")
        assert "theirs" in author.content.inner_text()
    fresh.client.post("/api/v1/push", {"files": {}, "remove": ["other.lua"], "rings": "off"})


def test_a_push_during_a_rollout_names_it(fresh: Running, new_tab: NewTab) -> None:
    """A push during a rollout is refused by a line that names it; drafts are judged, and the rollout can be steered
    meanwhile."""
    slow = {"files": {"pulse.lua": pulse("slow")}, "rings": "34%,100%", "gates": {"window": "10m", "patience": "1h"}}
    fresh.client.post("/api/v1/push", slow)
    with new_tab() as tab:
        tab.expected = ("409",)
        author = Author(tab)
        page = tab.page
        author.rollout_is("open")
        author.replace(pulse("more"))
        author.is_judged("no problem")
        page.click("#push button")
        page.wait_for_selector("#push-fault:has-text('is on its way, ring 1')")
        page.click("#rollout-view [data-step=pause]")
        author.rollout_is("paused")
        page.click("#rollout-view [data-step=resume]")
        author.rollout_is("open")
        page.click("#rollout-view [data-step=undo]")
        page.click("dialog button.danger")
        author.rollout_is("undone")


def test_without_a_signing_key_the_commands_are_shown(tmp_path: Path, browser: Browser) -> None:
    """Without a signing key a dry run and a push show the commands to run where the key is: no key enters a page."""
    public = Ed25519PrivateKey.generate().public_key()
    (tmp_path / "keys.pem").write_text(signing_keys.public_pem(public))
    (tmp_path / "checks").mkdir()
    (tmp_path / "checks" / "pulse.lua").write_text(CODE)
    helen = Running(tmp_path, "--signing-keys", str(tmp_path / "keys.pem")).up()
    agent = helen.agent("a")
    try:
        wait_until(lambda: helen.client.get("/api/v1/status")["agents"]["connected"], "agent")
        token = (helen.state / "web.token").read_text().strip()
        with a_tab(browser, f"http://{helen.run['web']}", {"authorization": f"Bearer {token}"}) as tab:
            tab.expected = ("409",)
            author = Author(tab)
            tab.page.locator("[data-arg=word]").fill("it's")
            author.into("on", "a role=*")
            tab.page.click("[name=run]")
            tab.page.wait_for_selector("#dry-sign:visible")
            assert tab.page.inner_text("#dry-line") == (
                "helen check dry-run pulse.lua --on a --on 'role=*' --args '{\"word\":\"it'\\''s\"}' --key FILE"
            )
            author.replace(pulse("new"))
            author.is_judged("no problem")
            author.into("rings", "off")
            tab.page.click("#push button")
            tab.page.click("dialog button.main")
            tab.page.wait_for_selector("#staged:has-text('waits for a signature')")
            assert "helen push --key FILE" in tab.page.inner_text("#staged")
            assert tab.violations() == []
            tab.open("/checks")
            assert "waits for a signature" in tab.page.inner_text("main")
    finally:
        agent.end()
        helen.end()


# ---------------------------------------------------------------------------------------------- drafts, forms, names


def test_a_draft_outlives_a_reload_and_can_be_dropped(fresh: Running, new_tab: NewTab) -> None:
    """A draft is kept over a reload by file and ETag, in this browser alone, and can be dropped."""
    with new_tab() as tab:
        author = Author(tab)
        author.replace(pulse("draft"))
        tab.page.wait_for_function("() => localStorage.getItem('helen.draft:pulse.lua')")
        tab.page.reload()
        author.is_judged("no problem")
        assert "draft" in author.content.inner_text()
        assert "are here again" in tab.page.inner_text("#note")
        fresh.client.post("/api/v1/push", {"files": {"pulse.lua": pulse("theirs")}, "rings": "off"})
        tab.page.reload()
        author.is_judged("no problem")
        assert "changed since" in tab.page.inner_text("#note")
        tab.page.click("[data-do=drop]")
        author.is_judged("no problem")
        tab.page.wait_for_function("() => !localStorage.getItem('helen.draft:pulse.lua')")
    assert "theirs" in (fresh.checks / "pulse.lua").read_text()


def test_a_new_check_is_begun_from_a_template_with_its_tests(fresh: Running, new_tab: NewTab) -> None:
    """A new check begins with a template and its tests, which run as it is typed; a failing one is named and marked."""
    with new_tab() as tab:
        page = tab.page
        tab.open("/checks")
        page.fill("[name=name]", "mine")
        page.select_option("[name=like]", "small")
        page.click("text=Write it")
        page.wait_for_url("**/author/mine.lua?like=small")
        author = Author.__new__(Author)
        author.tab, author.page = tab, page
        author.is_judged("all 3 tests pass")
        assert page.locator("[data-arg]").count() == 2
        author.replace(page.evaluate("() => 0") or author.content.inner_text().replace("load.one", "load.five"))
        author.is_judged("tests fail")
        assert "quiet" in page.inner_text("#tests")
        page.click("#tests .jump >> nth=0")
        assert page.locator("#pane-tests .cm-lint-marker-error").count() >= 1
        page.click("#tab-diff")
        assert page.locator("#pane-diff .cm-changedLine").count() > 10
    assert not (fresh.checks / "mine.lua").exists()


def test_the_form_of_arguments_gives_values_of_their_types(fresh: Running, new_tab: NewTab) -> None:
    """The form gives each argument in its type, and leaves out those that are not filled in."""
    args = """{ text = { type = "string" }, many = { type = "integer", min = 2, max = 9 }, share = { type = "number" },
      is_it = { type = "boolean", default = true }, names = { type = "list", default = { "x" } },
      way = { type = "string", choices = { "up", "down" } }, limit = { type = "range" }, left = { type = "string" } }"""
    with new_tab() as tab:
        author = Author(tab)
        author.replace(
            'local check = { summary = "x", args = ' + args + " }\nfunction check.run(args, host)\n  local said = {}\n"
            "  for name, value in pairs(args) do\n"
            "    if type(value) == 'table' then value = table.concat(value, '|') end\n"
            "    said[#said + 1] = name .. '=' .. tostring(math.type(value)) .. tostring(value) end\n"
            "  table.sort(said)\n  return 'ok', table.concat(said, ' ')\nend\nreturn check\n"
        )
        author.is_judged("no problem")
        given = {"text": "a, b", "many": "3", "share": "0.5", "names": "a, b ,c", "limit": "10:"}
        for name, value in given.items():
            tab.page.fill(f"[data-arg={name}]", value)
        tab.page.select_option("[data-arg=is_it]", "false")
        tab.page.select_option("[data-arg=way]", "down")
        author.into("on", "a")
        tab.page.click("[name=run]")
        author.is_answered(1)
        said = author.answers()[0]
        for words in (
            "text=nila, b",
            "many=integer3",
            "share=float0.5",
            "is_it=nilfalse",
            "names=nila|b|c",
            "way=nildown",
        ):
            assert words in said, said
        assert "limit=nil10:" in said and "left" not in said


def test_host_calls_are_completed(fresh: Running, new_tab: NewTab) -> None:
    """The editor completes host calls with their capabilities and the manual's text."""
    with new_tab() as tab:
        author = Author(tab)
        author.content.locator(".cm-line").nth(7).click()
        tab.page.keyboard.press("End")
        tab.page.keyboard.press("Enter")
        tab.page.keyboard.type("local x = host.dis")
        tab.page.wait_for_selector("#pane-text .cm-tooltip-autocomplete li")
        shown = tab.page.locator("#pane-text .cm-tooltip-autocomplete li").all_inner_texts()
        assert shown[:2] == ["diskneeds disk", "disk_ioneeds disk_io"]
        tab.page.wait_for_selector("#pane-text .cm-completionInfo")
        assert "available_bytes" in tab.page.inner_text("#pane-text .cm-completionInfo")


def test_the_list_of_host_calls_is_that_of_the_manual_and_of_agents() -> None:
    """The list of host calls equals the manual's and the agent's; `python deploy/pages/host_calls.py` writes it
    anew."""
    source = (ROOT / "deploy" / "pages" / "host_calls.py").read_text()
    room: dict[str, Any] = {"__name__": "host_calls", "__file__": str(ROOT / "deploy" / "pages" / "host_calls.py")}
    exec(compile(source, "host_calls.py", "exec"), room)
    made = room["calls_of"]((ROOT / "docs" / "checks.rst").read_text())
    kept = (ROOT / "helen" / "web" / "pages" / "static" / "host-calls.json").read_text()
    assert kept == room["written"](made)
    assert {each["name"]: each["needs"] for each in json.loads(kept)} == CAPABILITY_OF | dict.fromkeys(ALWAYS_THERE, "")
    assert all(each["about"] and each["call"].startswith(f"host.{each['name']}") for each in made)


# ---------------------------------------------------------------------------------------------- for everybody


def test_without_scripts_the_text_is_there_to_read(fresh: Running, new_tab: NewTab) -> None:
    with new_tab(java_script_enabled=False) as tab:
        tab.open("/author/pulse.lua")
        assert tab.page.inner_text("#pane-text pre") == CODE
        assert "edit it in the folder" in tab.page.inner_text("main noscript")
        assert tab.page.locator("#push").is_hidden() and tab.page.locator("#dry").is_hidden()


@pytest.mark.parametrize("name", ["../x.lua", "x", "lib/..x.lua", "a/b.lua", "%00.lua"])
def test_what_is_no_file_of_a_check(helen: Running, new_tab: NewTab, name: str) -> None:
    with new_tab() as tab:
        tab.expected = ("404",)
        assert tab.open(f"/author/{name.replace('..', '%2E%2E')}").status == 404


def test_a_file_that_holds_no_text_is_shown_and_not_edited(fresh: Running, new_tab: NewTab) -> None:
    """A file that is no UTF-8 is shown as text and cannot be edited."""
    (fresh.checks / "odd.lua").write_bytes(b'-- \xff <script>alert("x")</script>\nreturn {}\n')
    try:
        with new_tab() as tab:
            tab.expected = ("503", "409")
            tab.open("/author/odd.lua")
            assert "can't be edited here: byte 3 is no UTF-8" in tab.page.inner_text("#fault-of-file")
            tab.page.wait_for_selector("#pane-text .cm-content")
            tab.page.locator("#pane-text .cm-content").click()
            tab.page.keyboard.type("x")
            assert tab.page.inner_text("#pane-text .cm-content").startswith('-- \ufffd <script>alert("x")</script>')
            wait_until(lambda: fresh.client.get("/api/v1/checks")["problems"], "problem of the file")
            tab.open("/checks")
            assert "odd.lua" in tab.page.inner_text("main")
    finally:
        (fresh.checks / "odd.lua").unlink()


def test_axe_finds_nothing(fresh: Running, new_tab: NewTab) -> None:
    """axe finds no violation on the author page in any state, and nothing is wider than the screen."""
    with new_tab(viewport=WIDE) as tab:
        author = Author(tab)
        page = tab.page

        def is_good() -> None:
            """Check the page in both themes and at both widths, without leaving it."""
            for size, scheme in itertools.product((WIDE, NARROW), ("light", "dark")):
                page.set_viewport_size(size)  # type: ignore[arg-type]
                page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
                assert tab.violations() == [], (size, scheme)
                assert page.evaluate("document.documentElement.scrollWidth") <= size["width"], scheme
            page.set_viewport_size(WIDE)  # type: ignore[arg-type]

        author.replace(CODE.replace('  return "ok", args.word', SLIP + "\n  local unused = 1"))
        author.is_judged("1 error")
        author.into("on", "a")
        page.click("[name=run]")
        author.is_answered(1)
        is_good()
        page.click("#tab-diff")
        is_good()
        page.click("#tab-text")
        author.replace(pulse("axe"))
        author.is_judged("no problem")
        page.click("#push button")
        page.wait_for_selector("dialog .plan")
        is_good()
        tab.open("/checks")
        is_good()


def test_who_may_not_push_sees_the_checks_alone(fresh: Running, browser: Browser) -> None:
    """A caller that may not push sees the checks and the command for more; the author page refuses with 403."""
    made = fresh.client.post("/api/v1/web-tokens", {"name": "looker", "scopes": ["read"]})
    with a_tab(browser, f"http://{fresh.run['web']}", {"authorization": f"Bearer {made['token']}"}) as tab:
        tab.expected = ("403",)
        tab.open("/checks")
        assert "helen open --scope push" in tab.page.inner_text("main")
        assert tab.page.locator("a[href^='/author']").count() == 0
        assert tab.open("/author/pulse.lua").status == 403
        assert tab.violations() == []
