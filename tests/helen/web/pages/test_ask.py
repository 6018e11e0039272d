"""Tests a question to agents in a real browser: the targets, answers as they come, and the proof that none is missing.

The agents are real; a thousand of them, and a Helen that goes away, are answers that the test makes up.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest
from browser import NARROW, WIDE, Tab
from helen_running import wait_until
from playwright.sync_api import expect
from trio import Trio

from helen.pipeline.reports.report_formats import cell
from helen.web.pages.assets import assets

pytestmark = pytest.mark.integration
Visit = Callable[..., AbstractContextManager[Tab]]
NASTY = (
    "=1+1", " +1", "-2", "@x", "a;=1", "a\t=1", "a\n@b", "\u200b=1", "\uff1d1", "plain", "", 'say "x", y',
    "\x1b[31mred", "a\r\nb", "caf\u00e9\u00a0", "\u202eabc", "\ud83d\ude00 ok", "1-2",
    '"=1', 'a;"=1', "a\t\t=1", "\n\t-1", "\ufe661", "\u22121", "\tplain",
)  # fmt: skip


def lines(*targets: dict[str, Any], total: int) -> str:
    return "".join(json.dumps(each) + "\n" for each in ({"targets": total}, *targets))


def answered(agent: str, summary: str, status: str = "ok") -> dict[str, Any]:
    return {"agent": agent, "outcome": "answered", "result": {"status": status, "summary": summary}}


def fake(tab: Tab, *targets: dict[str, Any], total: int) -> None:
    """Answer further questions of this tab with these targets, and ask no agent."""
    body = lines(*targets, total=total)
    tab.page.route("**/api/v1/runs", lambda route: route.fulfill(body=body, content_type="application/x-ndjson"))


def rows(tab: Tab) -> list[list[str]]:
    cells = "rows => rows.map(row => [...row.cells].map(cell => cell.innerText))"
    found: list[list[str]] = tab.page.locator("#table tbody tr").evaluate_all(cells)
    return found


def proof(tab: Tab) -> Any:
    return tab.page.locator("#proof")


def bar(tab: Tab) -> tuple[float, float, str]:
    shown: list[Any] = tab.page.locator("#bar").evaluate("bar => [bar.value, bar.max, bar.dataset.whole]")
    return shown[0], shown[1], shown[2]


# ---------------------------------------------------------------------------------------------- from a check


def test_the_page_of_a_check_leads_here_and_to_a_downtime(visit: Visit) -> None:
    """The page of a check leads to a question and to a downtime, both filled in and not sent."""
    with visit() as tab:
        tab.open("/checks/web-1/calm")
        tab.page.click("text=Ask it")
        tab.page.wait_for_url("**/ask?check=calm&on=web-1")
        expect(tab.page.locator("#would")).to_have_text("Would ask 1 agent: 1 now, 0 away.")
        expect(tab.page.locator("#line")).to_have_text("helen run calm --on 'web-1'")
        tab.page.go_back()
        tab.page.click("text=Plan a downtime or silence")
        tab.page.wait_for_url("**/windows/new?keys=web-1%2Fcalm")
        expect(tab.page.locator("#preview")).to_contain_text("1 check on 1 agent")


# ---------------------------------------------------------------------------------------------- real agents


def test_one_is_killed_meanwhile_and_one_refuses(visit: Visit, trio: Trio) -> None:
    """The bar is full only when each agent is accounted for, also one killed meanwhile; odd answers come first."""
    with visit() as tab:
        tab.open("/ask?check=guarded&on=web-*")
        expect(tab.page.locator("#would")).to_have_text("Would ask 3 agents: 3 now, 0 away.")
        expect(tab.page.locator("#line")).to_have_text("helen run guarded --on 'web-*'")
        trio.freeze("web-3")
        tab.page.click("#send")
        expect(proof(tab)).to_have_text("2 of 3 accounted for: 1 answered, 1 refused; 1 to come.")
        expect(tab.page.locator("#note")).to_contain_text("leaving it ends the question")
        assert bar(tab) == (2, 3, "")
        trio.kill("web-3")
        expect(proof(tab)).to_have_text("All 3 accounted for: 1 answered, 1 failed, 1 refused.")
        assert bar(tab) == (3, 3, "1")
        assert tab.page.locator("#note").is_hidden()
        shown = rows(tab)
        assert {(row[0], row[2]) for row in shown} == {("ok", "web-1"), ("refused", "web-2"), ("failed", "web-3")}
        assert ["ok", "processors are there", "web-1"] in shown


def test_a_job_waits_for_an_agent_that_is_away(visit: Visit, trio: Trio) -> None:
    """A job goes on after its page is left, whose address shows it again with the answer of an agent that came back."""
    with visit() as tab:
        tab.open("/ask?check=pulse&on=role%3Dweb&wait=1h&args=%7B%22word%22%3A%22hey%22%7D")
        if trio.agents["web-3"].process.poll() is None:
            trio.kill("web-3")
        wait_until(lambda: not trio.helen.client.get("/api/v1/agents/web-3")["connected"], "web-3 away")
        assert tab.page.input_value("[data-arg=word]") == "hey"
        tab.page.fill("[name=on]", "role=web web-*")
        expect(tab.page.locator("#would")).to_have_text(
            "Would ask 3 agents: 2 now, 1 away: web-3, and waits 1h for them."
        )
        tab.page.click("#send")
        expect(proof(tab)).to_have_text("2 of 3 accounted for: 2 answered; 1 to come.")
        tab.page.wait_for_url("**/ask?job=*")
        address = tab.page.url.removeprefix(tab.origin)
        assert tab.page.locator("#send").is_enabled()
        tab.open("/windows")
        tab.open(address)
        expect(proof(tab)).to_have_text("2 of 3 accounted for: 2 answered; 1 to come.")
        trio.start("web-3")
        expect(proof(tab)).to_have_text("All 3 accounted for: 3 answered.")
        assert rows(tab) == [["ok", "hey", "web-1, web-2, web-3"]]
        expect(tab.page.locator("#jobs li").first).to_contain_text("finished: 3 answered")


def test_code_of_ones_own(visit: Visit) -> None:
    """A question with own code needs the scope push, and the page offers none without it."""
    with visit("operate", "push") as tab:
        tab.open("/ask?on=web-1")
        tab.page.select_option("[name=check]", "")
        code = tab.page.input_value("[name=code]").replace('"hello"', '"it is " .. args.x')
        tab.page.fill("[name=code]", code.replace("args = {}", 'args = { x = { type = "string" } }'))
        tab.page.fill("[data-arg='']", '{"x": 1')
        expect(tab.page.locator("#fault")).to_contain_text("no JSON object")
        tab.page.fill("[data-arg='']", '{"x": "one"}')
        expect(tab.page.locator("#would")).to_have_text("Would ask 1 agent: 1 now, 0 away.")
        tab.page.click("#send")
        expect(proof(tab)).to_have_text("All 1 accounted for: 1 answered.")
        assert rows(tab) == [["ok", "it is one", "web-1"]]
    with visit() as tab:
        tab.open("/ask")
        assert tab.page.locator("#own").count() == 0 and tab.page.locator("#own-option").count() == 0


# ---------------------------------------------------------------------------------------------- many, and none


def test_helen_went_away(visit: Visit) -> None:
    """An answer that ends early is not shown as whole, and agents without an answer are named."""
    with visit() as tab:
        tab.open("/ask?check=pulse&on=web-1&on=web-2")
        expect(tab.page.locator("#would")).to_contain_text("Would ask 2 agents")
        fake(tab, answered("web-1", "hello"), total=2)
        tab.page.click("#send")
        expect(tab.page.locator("#note")).to_have_text("Helen went away. Nothing is known of 1 of 2: web-2. Ask again.")
        expect(proof(tab)).to_have_text("1 of 2 accounted for: 1 answered; 1 not.")
        assert bar(tab) == (1, 2, "")


def test_1000_targets_and_their_csv(visit: Visit) -> None:
    """A thousand answers are shown as rows of equal ones, odd ones first; the CSV has each agent and no formula."""
    sent = [answered(f"web-{number:04}", "fine") for number in range(997)]
    sent += [
        answered("web-0997", "=cmd()", "critical"),
        {"agent": "web-0998", "outcome": "expired", "result": None, "why": "no answer in time"},
        answered("web-0999", "<b>x</b>", "warning"),
    ]  # fmt: skip
    with visit() as tab:
        tab.open("/ask?check=pulse")
        expect(tab.page.locator("#would")).to_contain_text("Would ask")
        fake(tab, *sent, total=1000)
        tab.page.click("#send")
        expect(proof(tab)).to_have_text("All 1000 accounted for: 999 answered, 1 gone, no answer in time.")
        shown = rows(tab)
        assert [row[:2] for row in shown] == [
            ["gone, no answer in time", "no answer in time"], ["critical", "=cmd()"], ["warning", "<b>x</b>"],
            ["ok", "fine"],
        ]  # fmt: skip
        assert shown[3][2] == "997 agents"
        expect(tab.page.locator("#tallies")).to_have_text("1 critical1 warning997 ok")
        with tab.page.expect_download() as download:
            tab.page.click("#csv")
        table = list(csv.DictReader(io.StringIO(download.value.path().read_text())))
        assert download.value.suggested_filename == "helen-pulse.csv"
        assert len(table) == 1000 and table[997] == {
            "agent": "web-0997", "outcome": "answered", "status": "critical", "reason": "", "summary": "'=cmd()",
            "why": "", "output": "",
        }  # fmt: skip
        tab.page.uncheck("#group")
        assert tab.page.locator("#table tbody tr").count() == 500
        expect(tab.page.locator("#rest")).to_have_text("500 more rows are in the CSV.")


def test_cells_of_csv_are_those_of_helens_own(visit: Visit) -> None:
    """The page writes the same CSV cells as Helen's reports, so that none begins a formula."""
    with visit() as tab:
        tab.open("/ask")
        source = f"async texts => texts.map((await import('{assets().path('answers.js')}')).cell)"
        nasty = [each.encode("utf-16", "surrogatepass").decode("utf-16") for each in NASTY]
        assert tab.page.evaluate(source, nasty) == [cell(each) for each in nasty]


# ---------------------------------------------------------------------------------------------- readers


def test_what_cannot_be_asked_is_said_beside_the_form(visit: Visit) -> None:
    """A question that cannot be asked is refused beside the form, and the typed text stays."""
    with visit() as tab:
        tab.expected = ("404",)
        tab.open("/ask?check=pulse&on=nobody")
        expect(tab.page.locator("#fault")).to_contain_text("no agent fits nobody")
        assert tab.violations() == []
        tab.page.fill("[name=on]", "  ")
        expect(tab.page.locator("#fault")).to_contain_text("Say which agents")
        tab.page.click("#send")
        assert tab.page.locator("#answers").is_hidden() and tab.page.locator("#send").is_enabled()


def test_readers_see_no_form(visit: Visit) -> None:
    """A caller that may only read gets no form, but the checks and the command for more scopes."""
    with visit("read") as tab:
        tab.open("/ask")
        assert tab.page.locator("form#ask").count() == 0
        expect(tab.page.locator("main")).to_contain_text("helen open --scope operate")
        tab.page.click("#tables summary")
        expect(tab.page.locator("#tables")).to_contain_text("Looks at the processors")
        assert tab.violations() == []


def test_by_keyboard_alone(visit: Visit) -> None:
    """A question is written and sent by keyboard alone."""
    with visit() as tab:
        tab.open("/ask?check=calm")
        expect(tab.page.locator("#would")).to_contain_text("Would ask")
        tab.page.locator("#main").focus()
        tab.page.keyboard.press("/")
        tab.page.keyboard.press("Control+a")
        tab.page.keyboard.type("web-1")
        expect(tab.page.locator("#would")).to_have_text("Would ask 1 agent: 1 now, 0 away.")
        tab.page.keyboard.press("Enter")
        expect(proof(tab)).to_have_text("All 1 accounted for: 1 answered.")


@pytest.mark.parametrize("size", [WIDE, NARROW])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_bars_a_reader(visit: Visit, scheme: str, size: dict[str, int]) -> None:
    """axe finds no violation on the page of questions, with and without answers, and nothing is wider than the
    screen."""
    with visit("operate", "push", viewport=size, color_scheme=scheme) as tab:
        tab.open("/ask?check=pulse&on=web-1&on=web-2")
        expect(tab.page.locator("#would")).to_contain_text("Would ask")
        assert tab.violations() == []
        tab.page.click("#send")
        expect(proof(tab)).to_contain_text("All 2 accounted for")
        assert tab.violations() == []
        assert tab.page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
