"""Tests the page of meshes: which agent sees which, with and without scripts; unknown states are hatched and never
good."""

from __future__ import annotations

import re
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from browser import NARROW, WIDE, Tab
from helen_running import EQUUS, Program, Running, pulse, wait_until
from playwright.sync_api import Browser, expect
from signing_in import signed_in
from web_client import Web

from helen.assignments.assignments_text import read
from helen.assignments.mesh_schedule import MOST_MEMBERS, first_of
from helen.states.model import AWAY, PENDING, Condition, State
from helen.web.pages import mesh as mesh_pages
from helen.web.pages.environment import environment
from helen.web.pages.mesh import Cell, SeenBadly, bad_lines, badly_of, lines_of, tally_of
from helen.web.routes.targets import MeshInSight, who_sees_whom

pytestmark = pytest.mark.integration
LONG = "web-4-of-a-name-that-is-rather-long.example.org"
NAMES = ("web-1", "web-2", "web-3", LONG)
HOSTILE = "<script>alert(1)</script>"
PEER = """local check = {
  summary = "Looks at another agent", needs = {}, every = "1s",
  args = { name = { type = "string", default = "", help = "whom" } },
}
function check.run(args, host)
  if args.name == "web-2" then return "critical", "<script>alert(1)</script>" end
  if args.name == "web-3" then return "unknown", "who knows" end
  return "ok", "it answers"
end
return check
"""
MESHES = """[judge]
away = "1h"
[[assign]]
check = "peer"
mesh = ["role=web"]
every = "1s"
attempts = 1
args = { name = "{name}" }
[[assign]]
check = "pulse"
id = "alone"
mesh = ["web-1"]
"""


# ---------------------------------------------------------------------------------------------- values, pure


def mesh_of(*names: str) -> MeshInSight:
    (entry,) = read('[[assign]]\ncheck = "ping"\nmesh = "*"').entries
    return MeshInSight(entry, {name: f"10.0.0.{number}" for number, name in enumerate(names, 1)}, 0)


def test_what_is_not_known_is_never_good() -> None:
    """A state that is missing, unknown, or of an agent that is away is hatched, and not counted as ok."""
    seen = [[None, "ok", "unknown"], ["critical", None, None], ["ok", "ok", None]]
    lines = lines_of(mesh_of("a", "b", "c"), seen, {"c"})
    assert [cell and cell.is_hatched for line in lines for cell in line.cells] == [
        None, False, True, False, None, True, True, True, None
    ]  # fmt: skip
    assert tally_of(lines) == {"critical": 1, "unknown": 1, "warning": 0, "none": 3, "ok": 1}
    assert badly_of(lines) == [SeenBadly("a", [("critical", ["b"])]), SeenBadly("c", [("unknown", ["a"])])]


def test_rows_and_columns_of_those_that_are_not_well() -> None:
    """The short table keeps agents that see badly or are seen badly, with their numbers, and leaves out the others."""
    seen = [[None, "ok", "ok", "ok"], ["ok", None, "ok", "warning"], ["ok", "ok", None, "ok"], ["ok", "ok", "ok", None]]
    lines = bad_lines(lines_of(mesh_of("a", "b", "c", "d"), seen, set()))
    assert [(line.number, line.name) for line in lines] == [(2, "b"), (4, "d")]
    assert [line.cells for line in lines] == [(None, Cell("d", "warning", False)), (Cell("b", "ok", False), None)]
    assert bad_lines(lines_of(mesh_of("a", "b"), [[None, "ok"], ["ok", None]], set())) == []


def test_the_table_of_a_mesh_has_states_that_were_confirmed_or_seen() -> None:
    """A mesh's table has confirmed or seen states, and none for a check that waits for its first result."""
    critical, pending = State(Condition(2, 1.0), Condition(2, 1.0)), Condition(3, 1.0, PENDING)
    states = {("a", "ping@b"): critical, ("b", "ping@a"): State(pending, pending)}
    parts: Any = SimpleNamespace(evaluator=SimpleNamespace(timeline=SimpleNamespace(states=states)))
    assert who_sees_whom(parts, mesh_of("a", "b")) == [[None, "critical"], [None, None]]


def test_an_agent_that_counts_as_away_sees_nobody() -> None:
    """The checks of an agent that counts as away have no state in the table, and make no other agent badly seen."""
    gone, heard, chosen = Condition(3, 60.0, AWAY), Condition(3, 60.0), mesh_of("a", "b", "c")
    states = {
        ("a", "ping@b"): State(gone, gone),
        ("a", "ping@c"): State(gone, gone),
        ("b", "ping@a"): State(heard, heard),
    }
    roster = SimpleNamespace(agents={name: SimpleNamespace(link=object()) for name in "bc"})
    parts: Any = SimpleNamespace(
        evaluator=SimpleNamespace(timeline=SimpleNamespace(states=states)), sessions=SimpleNamespace(roster=roster)
    )
    assert who_sees_whom(parts, chosen) == [[None, None, None], ["unknown", None, None], [None, None, None]]
    shown = mesh_pages._shown(parts, chosen, "")
    assert shown["badly"] == [SeenBadly("a", [("unknown", ["b"])])]
    assert shown["tally"] == {"critical": 0, "unknown": 1, "warning": 0, "none": 5, "ok": 0}
    text = "".join(pieces_of(chosen, shown))
    assert 'title="a is away: nobody knows what it sees of b"' in text
    assert 'title="c has not said yet what it sees of b"' in text
    assert "before it went away" not in text


def pieces_of(chosen: MeshInSight, shown: dict[str, Any]) -> list[str]:
    template = environment().get_template("mesh.html")
    values = {"chosen": chosen, "most": MOST_MEMBERS, "most_in_words": 8, "which": "", "is_limited": False}
    values |= {"cells_of": mesh_pages.cells_of, **shown}
    return list(template.blocks["part_table"](template.new_context(values)))


def test_200_agents_are_a_table_of_50_in_pieces() -> None:
    """A mesh of 200 agents is a table of 50, made in pieces so that the reactor has its turn after any row."""
    agents = first_of({f"edge-{number:03}": f"10.0.1.{number}" for number in range(200)})
    chosen = mesh_of(*agents)
    states: dict[tuple[str, str], State] = {}
    for watcher in agents:
        states |= {(watcher, f"ping@{peer}"): State(Condition(0, 1.0), Condition(0, 1.0)) for peer in agents}
    roster = SimpleNamespace(agents={name: SimpleNamespace(link=object()) for name in agents})
    parts: Any = SimpleNamespace(
        evaluator=SimpleNamespace(timeline=SimpleNamespace(states=states)), sessions=SimpleNamespace(roster=roster)
    )
    shown = mesh_pages._shown(parts, chosen, "")
    assert shown["tally"]["ok"] == MOST_MEMBERS * (MOST_MEMBERS - 1)
    pieces = pieces_of(chosen, shown)
    assert len(pieces) > MOST_MEMBERS and max(map(len, pieces)) < 400 * MOST_MEMBERS
    assert "".join(pieces).count('<a class="state s-ok"') == MOST_MEMBERS * (MOST_MEMBERS - 1)


def test_rows_that_stay_are_not_made_again() -> None:
    """After a change of one of 50 agents only its row is made anew, for any number of tabs and callers."""
    chosen = mesh_of(*(f"kept-{number}" for number in range(MOST_MEMBERS)))
    names = list(chosen.members)
    seen: list[list[str | None]] = [[None if one == other else "ok" for other in names] for one in names]

    def made(which: str = "") -> int:
        before = mesh_pages.cells_of.cache_info().misses
        lines = lines_of(chosen, seen, set())
        shown = {"tally": tally_of(lines), "badly": badly_of(lines), "lines": lines if not which else bad_lines(lines)}
        texts.append("".join(pieces_of(chosen, shown)))
        return mesh_pages.cells_of.cache_info().misses - before

    texts = list[str]()
    assert (made(), made(), made()) == (MOST_MEMBERS, 0, 0)
    seen[7][9] = "critical"
    assert (made(), made()) == (1, 0)
    assert texts[0] == texts[1] and texts[3] == texts[4]
    rows = [re.findall(r'<tr data-agent="([^"]+)" data-same="([0-9a-f]{16})">', text) for text in (texts[2], texts[3])]
    assert [one[0] for one, other in zip(*rows, strict=True) if one != other] == ["kept-7"]
    assert 'title="kept-7 sees kept-9: critical"' in texts[3] and "critical" not in texts[2]
    assert mesh_pages.cells_of.cache_info().maxsize == mesh_pages.MOST_KEPT


@pytest.mark.parametrize(("agents", "more"), [(8, ""), (9, "1 more agent is"), (12, "4 more agents are")])
def test_many_that_are_seen_badly_leave_the_table_in_sight(agents: int, more: str) -> None:
    """The first eight agents seen badly are named above the table, and the others can be unfolded."""
    names = [f"bad-{number:02}" for number in range(agents)]
    seen: list[list[str | None]] = [[None if one == other else "critical" for other in names] for one in names]
    lines = lines_of(mesh_of(*names), seen, set())
    values = {"tally": tally_of(lines), "badly": badly_of(lines), "lines": lines}
    text = "".join(pieces_of(mesh_of(*names), values))
    above, _, hidden = text.partition("<details")
    assert above.partition("<table")[0].count("is seen badly:") == 8
    assert hidden.partition("</details>")[0].count("is seen badly:") == agents - 8
    assert (f"<summary>{more} seen badly</summary>" in hidden) == bool(more)


# ---------------------------------------------------------------------------------------------- in a browser


class Stage:
    """Run a Helen with four agents of a mesh, of which web-2 is seen badly, and web-3 unknown."""

    def __init__(self, helen: Running, browser: Browser) -> None:
        self.helen, self.browser = helen, browser
        self.agents = {name: helen.agent(name, "role=web") for name in NAMES}

    def start_again(self, name: str) -> None:
        """Start an agent that was ended, with what it has kept."""
        words = [*EQUUS, "--server", self.helen.run["agents"], "--state", str(self.helen.folder / name), "--name", name]
        self.agents[name] = Program(words, self.helen.folder / f"{name}.log")

    def read(self, path: str, *on: str) -> tuple[int, str]:
        """Return the status of a page and its text, as a token sees it that is limited to some agents."""
        name = f"t{len(on)}{sum(map(ord, path + ''.join(on)))}"
        made = self.helen.client.post("/api/v1/web-tokens", {"name": name, "scopes": ["read"], "on": list(on)})
        asked = {"authorization": f"Bearer {made['token']}", "accept": "text/html"}
        answer = Web(self.helen).ask("GET", path, **asked)
        return answer.status, answer.raw.decode()

    def tab(self, *scopes: str, **options: Any) -> Any:
        return signed_in(self.browser, self.helen, scopes or ("read",), **options)

    def seen(self) -> list[list[str | None]]:
        """Return the table of the first mesh by the API."""
        meshes = self.helen.client.get("/api/v1/mesh")["meshes"]
        found: list[list[str | None]] = meshes[0]["seen"] if meshes else []
        return found


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> Iterator[Stage]:
    """Provide one stage for all tests of this file."""
    folder = tmp_path_factory.mktemp("mesh")
    (folder / "checks").mkdir()
    (folder / "checks" / "peer.lua").write_text(PEER)
    (folder / "checks" / "pulse.lua").write_text(pulse())
    helen = Running(folder).up()
    made = None
    try:
        helen.client.put("/api/v1/assignments", {"text": MESHES})
        made = Stage(helen, browser)
        wait_until(lambda: made.seen() == WHOLE, "whole mesh")
        yield made
    finally:
        for agent in made.agents.values() if made else ():
            agent.end()
        helen.end()


WHOLE = [
    [None, "critical", "unknown", "ok"], ["ok", None, "unknown", "ok"], ["ok", "critical", None, "ok"],
    ["ok", "critical", "unknown", None],
]  # fmt: skip


def cells(tab: Tab) -> list[list[str]]:
    """Return the words of the cells by rows."""
    rows = tab.page.locator("#mesh tbody tr").all()
    found = [[" ".join((each.text_content() or "").split()) for each in row.locator("td").all()] for row in rows]
    return [[each.lstrip("\u2013") for each in row] for row in found]


@pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "none"])
def test_who_sees_whom(stage: Stage, scripts: bool) -> None:
    """The page shows the API's table with a link to each cell's check, also without scripts, and hatches unknown
    cells."""
    with stage.tab(viewport=WIDE, java_script_enabled=scripts) as tab:
        tab.open("/mesh")
        assert cells(tab) == [[each or "itself" for each in row] for row in WHOLE]
        assert tab.page.locator("#mesh td.hatch").all_inner_texts() == ["unknown"] * 3
        assert tab.page.locator("#mesh td:not(.hatch) .state").count() == 9
        badly = [" ".join(each.split()) for each in tab.page.locator(".badly li").all_inner_texts()]
        assert badly == [
            f"web-2 is seen badly: critical by web-1, web-3, {LONG}",
            f"web-3 is seen badly: unknown by web-1, web-2, {LONG}",
        ]
        assert [" ".join(each.split()) for each in tab.page.locator("main .chips li").all_inner_texts()] == [
            "3 critical", "3 unknown", "6 ok"
        ]  # fmt: skip
        tab.page.click("tr[data-agent=web-3] td:nth-of-type(2) a")
        tab.page.wait_for_url("**/checks/web-3/peer%40web-2")
        assert HOSTILE in tab.page.inner_text("main .lead")
        tab.page.click("main a[href='/mesh?mesh=peer']")
        tab.page.wait_for_url("**/mesh?mesh=peer")


def test_a_mesh_of_one_and_one_that_is_not_there(stage: Stage) -> None:
    """A mesh is chosen by its id in the address, and an unknown id is a page that says so."""
    with stage.tab() as tab:
        tab.open("/mesh")
        assert tab.page.locator("select[name=mesh] option").all_inner_texts() == ["peer (4 agents)", "alone (1 agent)"]
        tab.page.select_option("select[name=mesh]", "alone")
        tab.page.click("form.filter button")
        tab.page.wait_for_url("**/mesh?mesh=alone*")
        assert "there is nobody whom it could see" in tab.page.inner_text(".empty")
        tab.expected = ("404",)
        assert tab.open("/mesh?mesh=none-like-it").status == 404
        assert "none-like-it" in tab.page.inner_text("main")


def test_it_is_live(stage: Stage) -> None:
    """An agent that is killed is shown away on the open page, and its former states are hatched.

    It counts as away after an hour alone (`away` of MESHES): until then a cell shows what it said before. Rows that
    come as they were are left alone: what somebody else has written into one stays.
    """
    with stage.tab(viewport=WIDE) as tab:
        tab.open("/mesh?mesh=peer")
        expect(tab.page.locator("#fresh")).to_have_attribute("data-state", "live")
        row = tab.page.locator("#mesh tr[data-agent=web-3]")
        expect(row.locator("td.hatch")).to_have_count(0)
        others = tab.page.locator("#mesh tr[data-agent=web-1] .number")
        others.evaluate("each => { each.textContent = 'left'; }")
        stage.agents["web-3"].end()
        expect(row.locator("th")).to_contain_text("away")
        expect(row.locator("td.hatch")).to_have_count(3)
        assert row.locator("td.hatch .state").first.inner_text().split() == ["ok,", "before"]
        assert others.inner_text() == "left"
        stage.start_again("web-3")
        expect(row.locator("th")).not_to_contain_text("away")
        expect(row.locator("td.hatch")).to_have_count(0)


def test_a_limited_caller_sees_no_hidden_agent(stage: Stage) -> None:
    """A limited caller sees no hidden agent in the page of a mesh, and no mesh without agents in sight."""
    status, text = stage.read("/mesh", "web-[13]")
    assert status == 200 and "web-1" in text and "web-3" in text
    assert "web-2" not in text and "role=web" not in text
    status, text = stage.read("/mesh", "db-*")
    assert status == 200 and "No mesh has agents that you may see." in text
    assert "web-" not in text.partition("<main")[2] and "peer" not in text
    assert [stage.read(f"/mesh?mesh=peer&part={part}", "db-*")[0] for part in ("table", "other")] == [404, 404]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
@pytest.mark.parametrize("path", ["/mesh", "/mesh?which=bad", "/mesh?mesh=alone", "/mesh?mesh=not-there"])
def test_axe_finds_nothing(stage: Stage, path: str, size: dict[str, int], scheme: str) -> None:
    """axe finds no violation on the page of meshes, and nothing is wider than the screen."""
    with stage.tab(viewport=size, color_scheme=scheme) as tab:
        tab.expected = ("404",)
        tab.open(path)
        assert tab.violations() == []
        assert tab.page.evaluate("document.documentElement.scrollWidth") <= size["width"]


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
def test_without_a_mesh(browser: Browser, fleet: Running, size: dict[str, int]) -> None:
    """Without a mesh the page says how one is made, and the list of agents leads to it."""
    with signed_in(browser, fleet, ("read",), viewport=size) as tab:
        tab.open("/agents")
        tab.page.click("main a[href='/mesh']")
        tab.page.wait_for_url("**/mesh")
        assert tab.page.inner_text(".empty .lead") == "There is no mesh yet."
        assert "helen assign ping --mesh role=edge" in tab.page.inner_text(".empty pre")
        assert tab.violations() == []
