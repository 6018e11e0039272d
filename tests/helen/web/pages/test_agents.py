"""Tests the pages of agents: the list and one agent, equal to the API, live, by keys, without scripts, and with
hostile texts."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from browser import NARROW, WIDE, Tab
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from helen_running import Running, pulse, wait_until
from playwright.sync_api import Browser
from signing_in import signed_in

from helen.web.pages.agents import Span, history_of, patterns_of
from helen.web.pages.environment import environment, host_words

pytestmark = pytest.mark.integration
HOSTILE = "<script>alert(1)</script>"
SICK = pulse().replace('return "ok", args.word', f'return "critical", "{HOSTILE}\\27[31mred"')


class Stage:
    """Run a Helen with three agents: web-1 with hostile claims, web-2, and db-1."""

    def __init__(self, helen: Running, browser: Browser) -> None:
        self.helen, self.browser = helen, browser
        self.agents = {
            "web-1": helen.agent("web-1", "role=web", claims=["rack=7", f"evil={HOSTILE}"]),
            "web-2": helen.agent("web-2", "role=web"),
            "db-1": helen.agent("db-1", "role=db"),
        }

    def tab(self, *scopes: str, **options: Any) -> Any:
        """Return a tab of a session with these scopes."""
        return signed_in(self.browser, self.helen, scopes or ("admin", "operate", "push"), **options)


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> Iterator[Stage]:
    """Provide one stage for all tests of this file."""
    folder = tmp_path_factory.mktemp("agents")
    (folder / "checks").mkdir()
    (folder / "checks" / "pulse.lua").write_text(pulse())
    (folder / "checks" / "sick.lua").write_text(SICK)
    helen = Running(folder).up()
    stage = None
    try:
        stage = Stage(helen, browser)
        wait_until(lambda: len(helen.client.get("/api/v1/results")["results"]) >= 6, "results of three agents")
        yield stage
    finally:
        for agent in stage.agents.values() if stage else ():
            agent.end()
        helen.end()


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Provide a Helen without agents and without checks."""
    helen = Running(tmp_path_factory.mktemp("bare")).up()
    yield helen
    helen.end()


def rows(tab: Tab, table: str = "#agents") -> list[str]:
    return [" ".join(each.split()) for each in tab.page.locator(f"{table} tbody tr").all_inner_texts()]


# ---------------------------------------------------------------------------------------------- values, pure


@pytest.mark.parametrize(
    ("text", "patterns"),
    [("", []), ("web", ["*web*"]), ("db-* role=web", ["db-*", "role=web"]), ("a[12] x?", ["a[12]", "x?"])],
)
def test_words_of_the_filter(text: str, patterns: list[str]) -> None:
    """A word of the filter is a part of a name unless it is a pattern or a label."""
    assert patterns_of(text) == patterns


@pytest.mark.parametrize(
    ("steps", "is_up", "spans"),
    [
        ([], True, [(0, 100, "up")]),
        ([], False, [(0, 100, "none")]),
        ([(20.0, "up")], True, [(0, 20, "none"), (20, 100, "up")]),
        ([(30.0, "down"), (40.0, "up")], True, [(0, 30, "up"), (30, 40, "down"), (40, 100, "up")]),
        ([(10.0, "down"), (50.0, "forgotten")], False, [(0, 10, "up"), (10, 50, "down"), (50, 100, "none")]),
    ],
)
def test_spans_of_a_link(steps: list[tuple[float, str]], is_up: bool, spans: list[tuple[float, float, str]]) -> None:
    """A link's spans follow its steps: the first also says how it was before, and without any it is as now."""
    found = history_of(steps, 0.0, 100.0, 100.0, is_up)
    assert found.spans == tuple(Span(*each) for each in spans)
    assert found.losses == sum(event == "down" for _, event in steps)


def test_a_link_of_which_the_end_is_not_read() -> None:
    """The time of a link after the last change read is unknown, and not drawn as good."""
    found = history_of([(10.0, "down"), (20.0, "up")], 0.0, 20.0, 100.0, True)
    assert [(each.begin, each.end, each.kind) for each in found.spans] == [
        (0, 10, "up"), (10, 20, "down"), (20, 100, "none")
    ]  # fmt: skip
    assert [each.kind for each in history_of([], 0.0, 50.0, 100.0, True).spans] == ["none", "none"]


def test_words_of_a_host() -> None:
    """A host's usual facts are shown in words, and any other value is written as it is."""
    usual = {"os": "Debian", "kernel": "Linux 6", "arch": "x86_64", "cpus": 2, "memory": 2**33}
    assert host_words(usual) == "Debian, Linux 6, x86_64, 2 CPU, 8.0 GiB"
    assert host_words({"memory": "much", "cpus": None, "x": [1]}) == "much, x [1]"


# ---------------------------------------------------------------------------------------------- the list


def test_the_list_is_that_of_the_api(stage: Stage) -> None:
    """The list shows each agent of the API with link, counts, labels and set, and a filter is in the address."""
    listed = stage.helen.client.get("/api/v1/agents")["agents"]
    with stage.tab() as tab:
        tab.open("/agents")
        shown = rows(tab)
        assert [row.split()[0] for row in shown] == [agent["name"] for agent in listed]
        for row, agent in zip(shown, listed, strict=True):
            assert "connected" in row and agent["equus"] in row and " current " in row
            assert f"{agent['checks']['critical']} critical {agent['checks']['ok']} ok" in row
            assert all(f"{key}={value}" in row for key, value in agent["labels"].items())
        tab.page.fill("[data-filter]", "role=web")
        tab.page.keyboard.press("Enter")
        tab.page.wait_for_url("**/agents?q=role*")
        assert [row.split()[0] for row in rows(tab)] == ["web-1", "web-2"]
        assert tab.page.get_attribute("footer a", "href") == "/api/v1/agents?on=role%3Dweb"
        tab.open("/agents?q=nothing-like-it")
        assert tab.page.inner_text(".empty .lead") == "No agent fits."
        assert tab.page.title().endswith("Agents - Helen")


def test_an_agent_that_is_killed_is_shown_without_a_reload(stage: Stage) -> None:
    """An agent that is killed is shown away in list and page without a reload, and the link's strip has the loss."""
    stage.agents["db-1"].end()
    with stage.tab() as tab, stage.tab() as other:
        tab.open("/agents?q=db-1")
        other.open("/agents/db-1")
        tab.page.wait_for_selector("#agents .s-unknown >> text=away")
        stage.agents["db-1"] = stage.helen.agent("db-1", "role=db")
        tab.page.wait_for_selector("#agents .s-ok >> text=connected")
        other.page.wait_for_selector("#head .s-ok >> text=connected")
        other.page.wait_for_selector("text=1 loss of the link since")
        assert other.page.locator("[data-part=link] rect.s3").count() == 1
        stage.agents["db-1"].process.kill()
        other.page.wait_for_selector("#head .s-unknown >> text=away")
        other.page.wait_for_selector("text=2 losses of the link since")
    stage.agents["db-1"].end()
    stage.agents["db-1"] = stage.helen.agent("db-1", "role=db")
    wait_until(lambda: stage.helen.client.get("/api/v1/agents/db-1")["connected"], "db-1")


def test_a_long_list_has_pages(stage: Stage) -> None:
    """A long list has pages that go on at `cursor`, and a cursor of another filter is refused with a sentence."""
    with stage.tab() as tab:
        tab.open("/agents?limit=2")
        assert [row.split()[0] for row in rows(tab)] == ["db-1", "web-1"]
        tab.page.click(".more a")
        tab.page.wait_for_url("**cursor=*")
        assert rows(tab)[0].split()[0] == "web-2"
        tab.expected = ("400",)
        cursor = tab.page.url.partition("cursor=")[2].partition("&")[0]
        assert tab.open(f"/agents?q=web&cursor={cursor}").status == 400
        assert "begin without one" in tab.page.inner_text(".lead")


def test_two_hundred_agents(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> None:
    """A list of 200 agents has sixty on a page, each once in order over the pages, and a filter finds any of them."""
    helen = Running(tmp_path_factory.mktemp("many")).up()
    try:
        names = [f"h-{number:03}" for number in range(200)]
        unsigned = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([]))
        for name in names:  # enrolled, and never there
            csr = unsigned.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256())
            text = csr.public_bytes(Encoding.PEM).decode()
            helen.client.post("/api/v1/certificates", {"name": name, "csr": text})
        with signed_in(browser, helen, ("read",), viewport=NARROW) as tab:
            tab.open("/agents")
            assert "200 of 200 agents" in tab.page.inner_text("[data-part=list]")
            shown = list[str]()
            for size in (60, 60, 60, 20):
                found = rows(tab)
                assert len(found) == size
                assert all("away" in row for row in found)
                shown += [row.split()[0] for row in found]
                if more := tab.page.get_attribute(".more a", "href") if len(shown) < len(names) else None:
                    tab.open(more)
            assert shown == names and tab.page.locator(".more a").count() == 0
            tab.open("/agents?q=h-19")
            assert [row.split()[0] for row in rows(tab)] == names[190:]
            assert "10 of 200 agents" in tab.page.inner_text("[data-part=list]")
            tab.open("/agents?which=away&q=h-1*")
            assert len(rows(tab)) == 60 and "100 of 200 agents" in tab.page.inner_text("[data-part=list]")
            assert tab.violations() == []
            assert tab.page.evaluate("document.documentElement.scrollWidth") <= NARROW["width"]
    finally:
        helen.end()


def test_a_join_line_turns_into_an_agent(bare: Running, browser: Browser) -> None:
    """The empty page makes a line to join, and the agent that runs it appears without a reload."""
    with signed_in(browser, bare, ("admin",)) as tab:
        tab.open("/agents")
        assert tab.page.inner_text(".empty .lead") == "No agent has joined yet."
        assert tab.violations() == []
        tab.page.click(".empty [data-do=join]")
        line = tab.page.inner_text("#join pre")
        words = line.split()
        assert words[:2] == ["equus", "--server"] and words[3] == "--join"
        assert words[2] == bare.run["agents"]
        made = bare.agent("late-1")
        try:
            tab.page.wait_for_selector("#agents >> text=late-1")
            assert tab.page.inner_text("#joined") == "late-1 has connected."
            assert tab.page.inner_text("#join pre") == line
        finally:
            made.end()


def test_without_the_scope_nothing_is_offered(stage: Stage) -> None:
    """A reader sees the command that opens more scopes, and no button."""
    with stage.tab("read") as tab:
        tab.open("/agents")
        assert tab.page.locator("[data-do]").count() == 0
        assert tab.page.inner_text(".headline code") == "helen open --scope admin"
        tab.open("/agents/web-1")
        assert tab.page.locator("[data-do]").count() == 0
        assert tab.page.locator("#h-audit").count() == 0
        assert "helen open --scope admin" in tab.page.inner_text(".headline")


# ---------------------------------------------------------------------------------------------- one agent


def test_one_agent_is_that_of_the_api(stage: Stage) -> None:
    """The page of an agent has the facts, claims, checks, schedule, files and audit of the API, without markup of an
    agent."""
    agent = stage.helen.client.get("/api/v1/agents/web-1")
    with stage.tab() as tab:
        tab.open("/agents/web-1")
        names, values = (tab.page.locator(f"#head {each}").all_inner_texts() for each in ("dt", "dd"))
        facts = dict(zip(names, values, strict=True))
        assert facts["Link"].startswith("connected ") and agent["address"] in facts["Link"]
        assert facts["Given"] == "role=web by an operator: facts"
        assert facts["Claimed"] == f"evil={HOSTILE} rack=7 by the agent itself"
        assert facts["Host"] == host_words(agent["host"])
        assert facts["Certificate"].startswith("until 20")
        shown = rows(tab, "#own")
        assert shown[0].split()[:2] == ["critical", "sick"]
        assert {row.split()[1] for row in shown[1:]} >= {"pulse", "(link)"}
        assert HOSTILE in shown[0] and "\x1b" not in shown[0]
        started = stage.helen.client.get("/api/v1/status")["started"]
        begin = float(tab.page.get_attribute("[data-part=checks] > p time", "data-at") or 0)
        assert started - 12 * 3_600 < begin <= started + 0.001
        assert "Strips begin " in tab.page.inner_text("[data-part=checks]")
        assert tab.page.locator("main script").count() == 0
        files = tab.page.locator("[data-part=files] summary")
        number = len(agent["files"])
        assert files.inner_text() == f"{number} {'file' if number == 1 else 'files'}, all in use"
        files.click()
        text = tab.page.inner_text("main")
        for entry in agent["schedule"]:
            assert entry["id"] in text
        for name, file in agent["files"].items():
            assert name in text and file["sha256"][:12] in text
        assert "enrol by agent:web-1" in text
        assert tab.page.get_attribute("footer a", "href") == "/api/v1/agents/web-1"
        assert tab.page.inner_text("footer code") == "helen agents web-1"


BANNERS: list[tuple[dict[str, Any], list[str]]] = [
    ({}, []),
    ({"current": False}, ["It does not run the newest set of checks. Rollouts"]),
    ({"current": False, "connected": False}, []),  # it was away when the set came, and is told when it is back
    ({"revoked": 1e9},
     ["Shut out {ago} ago, at 2001-09-09 01:46:40 UTC. It joins again with a token: helen token web-1"]),
    ({"clash": {"at": 1e9, "address": "192.0.2.7"}},
     ["A second agent uses this name: it came from 192.0.2.7 at 2001-09-09 01:46:40 UTC and was refused."]),
    ({"noticed": {"quota": "too many <b>checks</b>", "copy": "a copy runs"}},
     ["a copy runs (copy)", "too many <b>checks</b> (quota)"]),
    ({"troubles": {"policy.toml": HOSTILE}}, [f"{HOSTILE} (policy.toml, by its own word)"]),
    ({"clash": {"at": 1e9, "address": "x"}, "noticed": {"n": "seen"}, "troubles": {"t": "said"}, "current": False},
     ["A second agent uses this name: it came from x at 2001-09-09 01:46:40 UTC and was refused.", "seen (n)",
      "said (t, by its own word)", "It does not run the newest set of checks. Rollouts"]),
]  # fmt: skip
ASIDE = {
    (7,): "Set aside: on its word version 7 was taken back, so rollouts do not listen to it.",
    (7, 9): "Set aside: on its word versions 7, 9 were taken back, so rollouts do not listen to it.",
}


def head_of(stage: Stage, changed: dict[str, Any], aside: tuple[int, ...] | None = None, may: bool = False) -> str:
    """Return the head of an agent's page as with other fields in its document."""
    document = stage.helen.client.get("/api/v1/agents/web-1") | changed
    values = {
        "agent": document, "now": time.time(), "aside": aside, "may": lambda scope: may,
        "certificate": SimpleNamespace(ends=None),
    }  # fmt: skip
    template = environment().get_template("agent.html")
    return "".join(template.blocks["part_head"](template.new_context(values)))


def test_banners_of_an_agent(stage: Stage) -> None:
    """A banner says the fault of an agent and the next step, the worst first, and an agent's words are text."""
    with stage.tab("read", viewport=NARROW) as tab:
        tab.open("/agents/web-1")
        for changed, said in BANNERS:
            html = head_of(stage, changed)
            tab.page.evaluate("html => { document.getElementById('head').innerHTML = html; }", html)
            shown = [" ".join(each.split()) for each in tab.page.locator("#head .note").all_inner_texts()]
            ago = tab.page.locator("#head .note .ago").first.inner_text() if "revoked" in changed else ""
            assert shown == [each.replace("{ago}", ago) for each in said]
            assert tab.violations() == [], changed
            assert tab.page.evaluate("document.documentElement.scrollWidth") <= NARROW["width"]


@pytest.mark.parametrize("may", [True, False])
def test_an_agent_that_is_set_aside(stage: Stage, may: bool) -> None:
    """The banner of an agent set aside names the versions and the command; the button is for callers that may push."""
    for versions, said in ASIDE.items():
        html = head_of(stage, {}, versions, may)
        assert said in html and "<code>helen rollout readmit web-1</code>" in html
        assert ('data-do="readmit"' in html) is may


def test_an_agent_that_is_not_there(stage: Stage) -> None:
    """An unknown agent, also with a name like a path, is a page with a sentence and a next step."""
    with stage.tab() as tab:
        tab.expected = ("404",)
        for name in ("nobody", "%3Cscript%3E"):
            assert tab.open(f"/agents/{name}").status == 404, name
            assert "helen agents" in tab.page.inner_text(".lead")
            assert tab.violations() == []
        assert tab.open("/agents/..%2F..").status == 404


def test_by_keys_alone(stage: Stage) -> None:
    """Keys open an agent, choose a check, acknowledge it, and lead to its why."""
    with stage.tab() as tab:
        tab.open("/agents")
        for key in ("G", "k", "Enter"):
            tab.page.keyboard.press(key)
        tab.page.wait_for_url("**/agents/web-1")
        tab.page.keyboard.press("j")
        assert tab.page.evaluate("document.querySelector('#own tr.at').dataset.check") == "sick"
        tab.page.keyboard.press("a")
        assert tab.page.inner_text("dialog h2") == "Acknowledge web-1 sick"
        tab.page.keyboard.press("Escape")
        tab.page.keyboard.press("e")
        tab.page.wait_for_url("**/checks/web-1/sick/why")


def test_revoke_and_forget_by_typing_the_name(stage: Stage) -> None:
    """Revoke and forget show a dry run first and need the typed name; a connected agent is not forgotten."""
    agent = stage.helen.agent("gone-1")
    try:
        wait_until(lambda: any(each["name"] == "gone-1" and each["connected"] for each in
                               stage.helen.client.get("/api/v1/agents")["agents"]), "gone-1")  # fmt: skip
        with stage.tab() as tab:
            tab.expected = ("409",)
            tab.open("/agents/gone-1")
            tab.page.click("[data-do=forget]")
            tab.page.wait_for_selector("dialog .fault >> text=gone-1 is connected")
            tab.page.fill("dialog input", "gone-1")
            assert tab.page.is_disabled("dialog button >> text=Forget")
            tab.page.keyboard.press("Escape")
            tab.page.click("[data-do=revoke]")
            tab.page.wait_for_selector("dialog >> text=1 certificate would be good no more")
            tab.page.fill("dialog input", "gone")
            assert tab.page.is_disabled("dialog button >> text=Revoke")
            assert tab.violations() == []
            tab.page.fill("dialog input", "gone-1")
            tab.page.keyboard.press("Enter")
            tab.page.wait_for_selector("#head .note >> text=Shut out")
            tab.page.wait_for_selector("#h-audit ~ * >> text=revoke")
            tab.page.click("[data-do=forget]")
            tab.page.wait_for_selector("dialog >> text=Takes it off all lists")
            tab.page.fill("dialog input", "gone-1")
            tab.page.keyboard.press("Enter")
            tab.page.wait_for_url("**/agents")
            assert not any(row.startswith("gone-1") for row in rows(tab))
    finally:
        agent.end()


def test_an_agent_that_somebody_else_forgets(stage: Stage) -> None:
    """The page of an agent that another operator forgets says so, is hatched, and asks no more."""
    agent = stage.helen.agent("gone-2")
    with stage.tab() as tab:
        try:
            wait_until(lambda: any(each["name"] == "gone-2" for each in
                                   stage.helen.client.get("/api/v1/agents")["agents"]), "gone-2")  # fmt: skip
            tab.expected = ("404",)
            tab.open("/agents/gone-2")
            tab.page.wait_for_selector("#fresh[data-state=live]")
        finally:
            agent.end()
        stage.helen.client.post("/api/v1/agents/gone-2/revoke", {})
        stage.helen.client.post("/api/v1/agents/gone-2/forget", {})
        tab.page.wait_for_selector("#banner >> text=Helen has this no more")
        assert "old" in tab.page.evaluate("[...document.body.classList]")
        assert tab.violations() == []
        asked: list[str] = []
        tab.page.on("request", lambda request: asked.append(request.url))
        tab.page.wait_for_timeout(2_500)
        assert [url for url in asked if "part=" in url] == []


def test_without_scripts(stage: Stage) -> None:
    """Without scripts the pages of agents can be read, and the link's history is a link away."""
    with stage.tab(java_script_enabled=False) as tab:
        tab.open("/agents")
        assert [row.split()[0] for row in rows(tab)] == ["db-1", "web-1", "web-2"]
        tab.page.click("#agents >> text=web-1")
        assert "sick" in rows(tab, "#own")[0]
        assert not tab.page.is_visible("[data-do]")
        tab.page.click("text=Show the last 30 days")
        assert "of the link since" in tab.page.inner_text("main")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
def test_axe_finds_nothing(stage: Stage, size: dict[str, int], scheme: str) -> None:
    """axe finds no violation on the pages of agents, and nothing is wider than the screen."""
    with stage.tab(viewport=size, color_scheme=scheme) as tab:
        for path in ("/agents", "/agents?which=away", "/agents/web-1?links=1"):
            tab.open(path)
            tab.page.keyboard.press("j")
            assert tab.violations() == [], path
            assert tab.page.evaluate("document.documentElement.scrollWidth") <= size["width"], path


def test_the_document_of_the_page_is_the_api_s(stage: Stage) -> None:
    """The link of an agent's page leads to a JSON document with the same facts."""
    with stage.tab() as tab:
        tab.open("/agents/web-2")
        path = tab.page.get_attribute("footer a", "href")
        shown = json.loads(tab.page.evaluate("path => fetch(path).then(each => each.text())", path))
        assert shown["name"] == "web-2" and shown["given"] == {"role": "web"}
