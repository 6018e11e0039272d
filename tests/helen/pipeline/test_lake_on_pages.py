"""Tests the longer spans of a check's page, from a lake that the pipeline has made of Helen's history."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from browser import a_browser
from helen_running import Running, wait_until
from playwright.sync_api import Browser, expect
from signing_in import signed_in

from helen.pipeline.lake.lake import Lake
from helen.pipeline.rollup.following import cascade

pytestmark = pytest.mark.integration
VALUES = (40.0, 41.0, 97.0, 42.0)
SPANS = {"24h": ("m5", "5 min"), "30d": ("h1", "1 h"), "1y": ("d1", "24 h")}  # level, and its step in words
PASSIVE = '[hosts.nas]\n[[check]]\nhost = "nas"\nid = "*"\nattempts = 1\n'


def report(helen: Running, check: str, value: float) -> None:
    listed = [{"name": "used", "value": value, "unit": "%", "warn": "80", "crit": "90"}]
    body = {"host": "nas", "check": check, "status": "ok", "summary": f"{value} % used", "metrics": listed}
    helen.client.post("/api/v1/passive/results", body)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with a_browser() as running:
        yield running


@pytest.fixture(scope="module")
def helen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Provide a Helen whose results of `disk` are in sealed segments; `late` came after them."""
    folder = tmp_path_factory.mktemp("pages")
    (folder / "state").mkdir(mode=0o700)
    (folder / "state" / "passive.toml").write_text(PASSIVE)
    made = Running(folder).up()
    try:
        for value in VALUES:
            report(made, "disk", value)
        wait_until(lambda: len(made.client.get("/api/v1/recent?agent=nas&check=disk")["results"]) == 4, "results")
        made.end()
        made = Running(folder).up()  # which seals what the one before has left
        wait_until(lambda: list((made.state / "history" / "segments").glob("seg-*.parquet")), "segment of results")
        report(made, "late", 5.0)
        yield made
    finally:
        made.end()


def test_spans_of_a_check_out_of_a_lake(
    browser: Browser, helen: Running, take_in: Any, spark: Any
) -> None:  # fmt: skip
    """Each span of a check's page shows a spike and the lake's sums, and says when a level is not made yet."""
    lake = Lake(helen.state / "history" / "lake")
    take_in(lake, helen.state)
    with signed_in(browser, helen, ("read",)) as tab:
        tab.expected = ("404",)
        for span, words in (("30d", "adds hours up every five minutes"), ("1y", "adds days up every hour")):
            tab.open(f"/checks/nas/disk?span={span}")
            expect(tab.page.locator("#plot-note")).to_contain_text(words)
        lake.lock()
        cascade(spark, lake)
        lake.unlock()
        for span, (resolution, step) in SPANS.items():
            tab.open(f"/checks/nas/disk?span={span}")
            plot = tab.page.locator(".plot").first
            expect(plot.locator("figcaption")).to_contain_text("between 40 % and 97 %")
            assert f"one point is {step}" in tab.page.inner_text("#step")
            plot.locator("summary").click()
            asked = f"/api/v1/history?agent=nas&check=disk&from=2d&resolution={resolution}"
            [points] = [each["points"] for each in helen.client.get(asked)["metrics"] if each["metric"] == "used"]
            assert sum(each["n"] for each in points) == len(VALUES)
            assert (min(each["min"] for each in points), max(each["max"] for each in points)) == (40.0, 97.0)
            assert plot.locator("tbody tr").count() == len(points)
        tab.open("/checks/nas/late?span=24h")
        expect(tab.page.locator("#plot-note")).to_contain_text("The hour works without it.")
        tab.page.click("[data-span='1h']")
        expect(tab.page.locator(".plot figcaption")).to_contain_text("used: now 5 %")
