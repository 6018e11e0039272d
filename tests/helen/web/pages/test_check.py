"""Tests the page of a check in a real browser: true plots, results as they come, acts, and missing things."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from browser import NARROW, WIDE, Tab, a_tab
from helen_running import Running, wait_until
from playwright.sync_api import Browser, Route, expect

from helen.web.pages.assets import assets

pytestmark = pytest.mark.integration
PASSIVE = """
[hosts.nas]
[[check]]
host = "nas"
id = "*"
attempts = 1
"""
HOSTILE = "<script>document.title = 'x'</script> \x1b[31m \u202e" + "y" * 5_000


class Stage:
    """Hold a Helen with a host that reports figures chosen by the test."""

    def __init__(self, helen: Running) -> None:
        self.helen = helen

    def report(self, check: str, status: str, summary: str, **metrics: float) -> None:
        listed = [
            {"name": name, "value": value, "unit": "%", "warn": "80", "crit": "90"} for name, value in metrics.items()
        ]
        body = {"host": "nas", "check": check, "status": status, "summary": summary, "metrics": listed}
        self.helen.client.post("/api/v1/passive/results", body)


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    folder = tmp_path_factory.mktemp("figures")
    (folder / "state").mkdir(mode=0o700)
    (folder / "state" / "passive.toml").write_text(PASSIVE)
    helen = Running(folder).up()
    try:
        made = Stage(helen)
        for value in (40.0, 41.0, 97.0, 42.0):
            made.report("disk", "ok" if value < 80 else "critical", f"{value} % used", used=value, free=100 - value)
        made.report("disk", "critical", HOSTILE, used=95.0, free=5.0)
        made.report("a/b c", "ok", "an id with a slash")
        free = {"name": "free", "value": 19_998_455_424.0, "unit": "B", "warn": "2147483648:", "crit": "1073741824:"}
        used = {"name": "used", "value": None, "unit": "B"}
        memory = {"host": "nas", "check": "memory", "status": "ok", "summary": "bytes", "metrics": [free, used]}
        helen.client.post("/api/v1/passive/results", memory)
        made.report("plain", "warning", "no figures")
        wait_until(lambda: len(helen.client.get("/api/v1/states?all=true")["states"]) >= 3, "states")
        yield made
    finally:
        helen.end()


@pytest.fixture
def tab(browser: Browser, stage: Stage) -> Iterator[Tab]:
    with signed_in(browser, stage) as made:
        yield made


def signed_in(browser: Browser, stage: Stage, **options: Any) -> Any:
    link = stage.helen.client.post("/api/v1/sessions/links", {"name": "anna"})["url"]
    made = a_tab(browser, f"http://{stage.helen.run['web']}", **options)

    class Entered:
        def __enter__(self) -> Tab:
            tab = made.__enter__()
            tab.page.goto(link)
            tab.page.wait_for_url(lambda url: "/login" not in url)
            return tab

        def __exit__(self, *raised: Any) -> None:
            made.__exit__(*raised)

    return Entered()


def in_page(tab: Tab, source: str, *given: Any) -> Any:
    """Return what an expression gives in the page, `plot` being the module of plots."""
    body = f"async ([address, given]) => {{ const plot = await import(address); return {source}; }}"
    return tab.page.evaluate(body, [assets().path("plot.js"), list(given)])


# ---------------------------------------------------------------------------------------------- what plots say


def test_an_hour_of_results(tab: Tab) -> None:
    """An hour of results shows its spike in the sentence and the table, with thresholds."""
    tab.open("/checks/nas/disk")
    first = tab.page.locator(".plot").first
    expect(first.locator("figcaption")).to_contain_text("used: now 95 %, between 40 % and 97 %")
    first.locator("summary").click()
    cells = first.locator("tbody tr").all_inner_texts()
    assert [line.split("\t")[1] for line in cells] == ["95", "42", "97", "41", "40"]
    assert tab.page.locator(".plot canvas").count() == 2
    assert "hatched" in tab.page.inner_text("#step")


def test_the_cursor_is_read_out(tab: Tab) -> None:
    """The cursor reads the points out by arrow keys, and says where nothing is known."""
    tab.open("/checks/nas/disk")
    canvas = tab.page.locator(".plot .canvas").first
    canvas.focus()
    tab.page.keyboard.press("End")
    cursor = tab.page.locator(".plot .cursor").first
    expect(cursor).to_contain_text("95 %")
    said = []
    for _ in range(8):
        tab.page.keyboard.press("ArrowLeft")
        said.append(cursor.inner_text())
    values = [text.rpartition(": ")[2] for text in said if "nothing known" not in text]
    assert [value.split()[0] for value in values[:4]] == ["42", "97", "41", "40"]


@pytest.mark.parametrize(
    ("times", "span", "gaps"),
    [
        ([0, 60, 120], (0, 120), []),
        ([0, 60, 150], (0, 150), []),
        ([0, 60, 151], (0, 151), [[60, 151]]),
        ([60], (0, 600), [[60, 600]]),
        ([], (0, 600), [[0, 600]]),
        ([500, 560], (0, 600), [[0, 500]]),
    ],
)  # fmt: skip
def test_points_that_are_far_apart_are_not_joined(
    tab: Tab, times: list[int], span: tuple[int, int], gaps: list[list[int]]
) -> None:
    """Points more than a step and a half apart have a gap between them, at both ends as well."""
    tab.open("/about")
    points = [{"at": at, "mean": 1, "min": 1, "max": 1, "n": 1} for at in times]
    found = in_page(tab, "plot.withGaps(given[0], 60, given[1], given[2])", points, *span)
    assert found["gaps"] == gaps
    assert [at for at, value in zip(found["data"][0], found["data"][3], strict=True) if value is not None] == times


def test_figures_and_ranges(tab: Tab) -> None:
    tab.open("/about")
    ranges = ["80", "10:20", "~:5", "@1:2", "5:", "", None]
    edges = in_page(tab, "given[0].map((each) => plot.edgesOf(each))", ranges)
    assert edges == [[80], [10, 20], [5], [1, 2], [5], [], []]
    values = [[24151139669.3333, "B"], [0, "B"], [97.0, "%"], [0.00012, "s"], [None, "s"], [1234567, ""]]
    shown = in_page(tab, "given[0].map(([value, unit]) => plot.figure(value, unit))", values)
    assert shown == ["22.5 GiB", "0 B", "97 %", "1.20e-4 s", "-", "1.23e+6"]


@pytest.mark.parametrize(("unit", "step"), [("B", 2**30), ("bytes", 2**30), ("", 5 * 10**8)])
def test_the_ticks_of_bytes_are_binary(tab: Tab, unit: str, step: int) -> None:
    """An axis of bytes has ticks at whole GiB, and one of other units at round numbers."""
    tab.open("/about")
    tab.page.set_viewport_size({"width": 800, "height": 600})
    points = [{"at": at, "mean": at * 2**27, "min": at * 2**27, "max": at * 2**27, "n": 1} for at in (1, 64)]
    figure = {"name": "used", "unit": unit, "points": points, "step": 60}
    waiting = "while (!axis._splits) await new Promise((done) => setTimeout(done, 10))"
    drawn = "plot.draw(document.body, given[0], 1, 64, []).axes[1]"
    ticks = in_page(tab, f"(async (axis) => {{ {waiting}; return axis._splits; }})({drawn})", figure)
    assert len(ticks) > 2 and all(tick % step == 0 for tick in ticks)


@pytest.mark.parametrize(("span", "resolution", "step"), [("24h", "m5", 300), ("30d", "h1", 3600), ("1y", "d1", 86400)])
def test_longer_spans_show_band_and_gap(tab: Tab, span: str, resolution: str, step: int) -> None:
    """A spike of one step is in the sentence of each span, and a gap says how long nothing is known."""

    def answer(route: Route) -> None:
        assert f"resolution={resolution}" in route.request.url
        end = int(time.time()) // step * step
        points = [
            {"at": end - number * step, "mean": 10.0, "min": 9.0, "max": 77.0 if number == 20 else 11.0, "n": 5}
            for number in range(60) if number not in range(30, 40)
        ]  # fmt: skip
        metric = {"metric": "used", "unit": "%", "kind": "gauge", "points": points[::-1]}
        route.fulfill(json={"agent": "nas", "check": "disk", "step": step, "metrics": [metric], "next": None})

    tab.page.route("**/api/v1/history?*", answer)
    tab.open(f"/checks/nas/disk?span={span}")
    said = tab.page.locator(".plot figcaption").first
    expect(said).to_contain_text("between 9 % and 77 %")
    expect(said).to_contain_text("nothing known for")
    expect(tab.page.locator(f"[data-span='{span}']")).to_have_attribute("aria-pressed", "true")


def test_without_a_lake_the_hour_works(tab: Tab) -> None:
    """Without a lake the longer spans show Helen's sentence, and the hour works."""
    tab.expected = ("409", "404")
    tab.open("/checks/nas/disk?span=30d")
    expect(tab.page.locator("#plot-note")).to_contain_text(". The hour works without it.")
    tab.page.click("[data-span='1h']")
    expect(tab.page.locator(".plot").first).to_be_visible()
    assert "span=1h" in tab.page.url


def test_fifty_figures_are_eight_plots(tab: Tab, stage: Stage) -> None:
    """Eight of fifty figures are plotted, and the others can be chosen by name in the address."""
    stage.report("many", "ok", "fifty", **{f"m{number:02}": float(number) for number in range(50)})
    tab.open("/checks/nas/many")
    expect(tab.page.locator(".plot")).to_have_count(8)
    expect(tab.page.locator("#plot-note")).to_contain_text("42 more figures")
    tab.page.get_by_role("link", name="m30", exact=True).click()
    tab.page.wait_for_url("**/checks/nas/many?*metric=m30")
    expect(tab.page.locator(".plot figcaption")).to_have_count(1)
    expect(tab.page.locator(".plot figcaption")).to_contain_text("m30")
    tab.open("/checks/nas/many?metric=m49")
    expect(tab.page.locator(".plot figcaption")).to_contain_text("m49: now 49 %")


# ---------------------------------------------------------------------------------------------- live, acts


def test_a_result_is_seen_as_it_comes(tab: Tab, stage: Stage) -> None:
    """A new result changes state, text, runs and plot without a reload."""
    stage.report("lag", "ok", "3 s behind", behind=3.0)
    tab.open("/checks/nas/lag")
    expect(tab.page.locator("#fresh")).to_have_attribute("data-state", "live")
    stage.report("lag", "critical", "900 s behind", behind=900.0)
    expect(tab.page.locator("h1")).to_contain_text("critical")
    expect(tab.page.locator(".lead")).to_have_text("900 s behind")
    expect(tab.page.locator(".plot figcaption").first).to_contain_text("between 3 % and 900 %")
    expect(tab.page.locator("#runs-part tbody tr")).to_have_count(2)
    expect(tab.page.locator("#change-list")).to_contain_text("ok to critical: the result says critical")


def test_changes_are_those_of_this_check(tab: Tab, stage: Stage) -> None:
    """A check's changes show its own downtimes with times and author, and not those of other checks."""
    stage.report("own", "critical", "still broken")
    planned = {"kind": "downtime", "agents": ["n*"], "checks": ["own"], "begin": 2e9, "until": 2e9 + 7_200}
    stage.helen.client.post("/api/v1/windows", {**planned, "id": "mine", "comment": "a new fan", "author": "anna"})
    stage.helen.client.post("/api/v1/windows", {**planned, "id": "other", "checks": ["plain"], "comment": "elsewhere"})
    stage.helen.client.post("/api/v1/windows/mine/cancel", {"author": "bea"})
    stage.helen.client.post("/api/v1/windows/other/cancel", {})
    tab.open("/checks/nas/own?tz=UTC")
    changes = tab.page.locator("#change-list")
    expect(changes).to_contain_text("downtime cancelled by bea")
    said = changes.inner_text()
    assert "downtime planned from 2033-05-18 03:33:20 UTC until 2033-05-18 05:33:20 UTC by anna: a new fan" in said
    assert "no message: there is no notifications.toml" in said
    assert "elsewhere" not in said and said.count("cancelled") == 1


def test_it_is_acknowledged_here(tab: Tab, stage: Stage) -> None:
    stage.report("sick", "critical", "it is broken")
    tab.open("/checks/nas/sick")
    tab.page.keyboard.press("a")
    dialog = tab.page.locator("dialog[open]")
    expect(dialog.get_by_role("status")).to_have_text("Would be 1 check acknowledged.")
    dialog.get_by_label("Comment").fill("a new disk comes")
    dialog.get_by_role("button", name="Acknowledge").click()
    expect(tab.page.locator("[data-part=head]")).to_contain_text("Acknowledged by operator/anna: a new disk comes")


# ---------------------------------------------------------------------------------------------- text, ids, nothing


def test_what_an_agent_says_is_text(tab: Tab) -> None:
    """An agent's texts are neither script nor terminal codes, and do not widen the page."""
    tab.open("/checks/nas/disk")
    expect(tab.page.locator(".plot").first).to_be_visible()
    assert "<script>" in tab.page.inner_text(".lead")
    assert tab.page.title().endswith("Helen") and "critical" in tab.page.title()
    assert tab.page.locator("main script").count() == 0
    assert tab.page.evaluate("document.documentElement.scrollWidth") <= WIDE["width"]


def test_an_id_with_a_slash(tab: Tab) -> None:
    tab.open("/checks/nas/a%2Fb%20c")
    assert "a/b c" in tab.page.inner_text("h1")
    tab.open("/checks/nas/a/b%20c")
    assert "a/b c" in tab.page.inner_text("h1")


def test_a_check_that_is_not_there(tab: Tab) -> None:
    tab.expected = ("404",)
    assert tab.open("/checks/nas/nothing").status == 404
    assert "nothing is known of nas/nothing" in tab.page.inner_text("main")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
def test_axe_finds_nothing(browser: Browser, stage: Stage, size: dict[str, int], scheme: str) -> None:
    """axe finds no violation on the page of a check with figures, without any, and without a lake."""
    with signed_in(browser, stage, viewport=size, color_scheme=scheme) as tab:
        tab.expected = ("409", "404")
        for path in ("/checks/nas/disk", "/checks/nas/plain", "/checks/nas/disk?span=1y"):
            tab.open(path)
            expect(tab.page.locator("#fresh")).to_have_attribute("data-state", "live")
            assert tab.violations() == [], path
            assert tab.page.evaluate("document.documentElement.scrollWidth") <= size["width"], path


def test_it_is_read_without_a_script(browser: Browser, stage: Stage) -> None:
    with signed_in(browser, stage) as signed:
        cookies = signed.context.cookies()
    with a_tab(browser, f"http://{stage.helen.run['web']}", java_script_enabled=False) as tab:
        tab.context.add_cookies(cookies)
        tab.open("/checks/nas/disk")
        assert "critical" in tab.page.inner_text("h1")
        rows = [row.inner_text().split("\t") for row in tab.page.locator("#metrics tbody tr").all()]
        assert sorted(rows) == [["free", "5 %", "80", "90"], ["used", "95 %", "80", "90"]]
        assert tab.page.locator("#runs-part tbody tr").count() == 5
        tab.open("/checks/nas/memory")
        free, used = tab.page.locator("#metrics tbody tr").all()
        assert free.inner_text().split("\t") == ["free", "18.6 GiB", "2 GiB:", "1 GiB:"]
        assert free.locator("td.num").get_attribute("title") == "19998455424.0 B"
        assert used.locator("td.num").get_attribute("title") is None
