"""Tests the dashboards for Grafana: each query is asked of a history with the checks that they draw."""

from __future__ import annotations

import json
import random
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from written_history import Written

from helen.promql.archive import Archive, Facts
from helen.promql.parameters import Parameters
from helen.promql.questions import Question

FOLDER = Path(__file__).parents[3] / "deploy" / "grafana"
NAMES = ("check.json", "fleet.json", "host.json", "sla.json")
BEGIN = 1_790_000_000
END = BEGIN + 3_600
COUNTER = {"unit": "B", "kind": "counter"}
CHECKS: dict[str, list[dict[str, Any]]] = {
    "cpu": [{"name": "busy", "unit": "%"}],
    "load": [{"name": name} for name in ("load1", "load5", "load15")],
    "memory": [{"name": "used", "unit": "%"}], "swap": [{"name": "used", "unit": "%"}],
    "disk": [{"name": "used", "unit": "%", "labels": {"mount": "/"}}],
    "disk_io": [{"name": name, **COUNTER, "labels": {"device": "sda"}} for name in ("read", "written")],
    "network": [{"name": name, **COUNTER, "labels": {"interface": "e0"}} for name in ("received", "sent")],
}  # fmt: skip
# What Grafana puts in the place of its own names, and of variables of the dashboards.
VALUES = {"$__rate_interval": "5m", "$__range": "1h", "$target": "99.5", "$metric": "received"}
OF_ALL = {"$agent": ".*", "$check": ".*"}
OF_ONE = {"$agent": "web-1", "$check": "network"}


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("dashboards") / "helen"
    written, dice, records = Written(folder), random.Random(5), []
    for at in range(BEGIN, END, 60):
        for agent in ("web-1", "db-1"):
            for check, metrics in CHECKS.items():
                told = [{**metric, "value": float(at - BEGIN) + dice.random()} for metric in metrics]
                status = dice.choice(("ok", "warning", "critical")) if at < END - 60 else "critical"
                records.append(written.result(f"{agent}/{check}", at + dice.random(), status, metrics=told))
    written.segment(*records)
    yield folder


def ask(state: Path, path: str, **given: Any) -> Any:
    texts = {name: [str(value)] for name, value in given.items()}
    archive = Archive(Facts(state, state / "none", {}, lambda name: True))
    answer = json.loads(Question(Parameters(texts, END * 1_000), archive).answer(path)[1])
    assert answer["status"] == "success", (given, answer)
    return answer["data"]


def documents() -> dict[str, Any]:
    return {name: json.loads((FOLDER / name).read_text()) for name in NAMES}


def queries() -> list[tuple[str, str, str, bool]]:
    """Return each query: its file, its panel, its text, and whether it is asked for one time."""
    return [
        (name, panel["title"], target["expr"], target["instant"])
        for name, document in documents().items() for panel in document["panels"] for target in panel["targets"]
    ]  # fmt: skip


def filled(name: str, query: str) -> str:
    for word, value in (VALUES | (OF_ALL if name in ("fleet.json", "sla.json") else OF_ONE)).items():
        query = query.replace(word, value)
    assert "$" not in query
    return query


@pytest.mark.parametrize(("name", "title", "query", "is_instant"), queries())
def test_each_query_has_an_answer(state: Path, name: str, title: str, query: str, is_instant: bool) -> None:
    """A query has series in its answer: a name that no check has would draw an empty panel."""
    text = filled(name, query)
    if is_instant:
        found = ask(state, "query", query=text, time=END)
    else:
        found = ask(state, "query_range", query=text, start=BEGIN + 600, end=END, step=60)
    assert found["result"], text


def test_variables_have_values(state: Path) -> None:
    """A variable has values when the data source asks for them."""
    for name, document in documents().items():
        for variable in document["templating"]["list"]:
            if variable["type"] == "query":
                selector, label = variable["query"].removeprefix("label_values(").removesuffix(")").rsplit(", ", 1)
                found = ask(state, f"label/{label}/values", **{"match[]": filled(name, selector)}, start=BEGIN, end=END)
                assert found, variable


def test_the_files_are_what_is_made() -> None:
    """The files are those that deploy/grafana/dashboards.py makes; run it after a change."""
    made = runpy.run_path(str(FOLDER / "dashboards.py"))
    assert sorted(made["DASHBOARDS"]) == sorted(path.name for path in FOLDER.glob("*.json")) == sorted(NAMES)
    for name in NAMES:
        assert (FOLDER / name).read_text() == made["text"](name)


def test_what_grafana_wants_of_a_file() -> None:
    """A file has its own name, panels that do not lie on each other, and one data source for all, which is chosen."""
    found = documents()
    assert len({document["uid"] for document in found.values()}) == len(NAMES)
    for document in found.values():
        cells = [
            (x, y) for place in (panel["gridPos"] for panel in document["panels"])
            for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])
        ]  # fmt: skip
        assert len(cells) == len(set(cells)) and max(x for x, _ in cells) < 24
        assert document["templating"]["list"][0]["name"] == "source"
        sources = {panel["datasource"]["uid"] for panel in document["panels"]}
        assert sources == {"${source}"} and len({panel["id"] for panel in document["panels"]}) == len(
            document["panels"]
        )
