"""Makes the four dashboards for Grafana, on the query API of Helen: a fleet, a host, a check, and service levels.

    python deploy/grafana/dashboards.py

writes them beside this file. A test asks each of their queries, and compares the files with what is made here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
SOURCE = {"type": "prometheus", "uid": "${source}"}
STATES = {"0": ("ok", "green"), "1": ("warning", "yellow"), "2": ("critical", "red"), "3": ("unknown", "purple")}
WIDTH = 24  # columns of a row
NOW = "1h"  # a check counts as it was at its last result, if that is no older
Json = dict[str, Any]


def panel(
    kind: str, title: str, *queries: str, width: int = 12, height: int = 8, unit: str = "short", legend: str = "",
    is_instant: bool = False, about: str = "",
) -> Json:  # fmt: skip
    """Return a panel with these queries; `unit` is Grafana's, `legend` names a series by its labels."""
    targets = [
        {"refId": chr(ord("A") + at), "datasource": SOURCE, "expr": query, "legendFormat": legend or "__auto",
         "instant": is_instant, "range": not is_instant, "format": "table" if kind == "table" else "time_series"}
        for at, query in enumerate(queries)
    ]  # fmt: skip
    made: Json = {"type": kind, "title": title, "description": about, "datasource": SOURCE, "targets": targets,
                  "gridPos": {"w": width, "h": height, "x": 0, "y": 0}, "options": _OPTIONS.get(kind, {}),
                  "fieldConfig": {"defaults": {"unit": unit}, "overrides": []}}  # fmt: skip
    return made


def of_state(made: Json) -> Json:
    """Return the panel with words and colours for the numbers of states."""
    options = {number: {"text": word, "color": color} for number, (word, color) in STATES.items()}
    thresholds = [{"value": None if number == "0" else int(number), "color": color}
                  for number, (_, color) in STATES.items()]  # fmt: skip
    made["fieldConfig"]["defaults"] |= {
        "mappings": [{"type": "value", "options": options}],
        "thresholds": {"mode": "absolute", "steps": thresholds}, "color": {"mode": "thresholds"},
    }  # fmt: skip
    return made


def as_rows(made: Json) -> Json:
    """Return a table without the columns of times and names."""
    hidden = {"excludeByName": {"Time": True, "__name__": True}}
    return made | {"transformations": [{"id": "organize", "options": hidden}]}


def variable(name: str, query: str, has_all: bool = True) -> Json:
    """Return a variable with the values of a label."""
    made: Json = {"type": "query", "name": name, "label": name, "datasource": SOURCE, "query": query, "refresh": 2,
                  "sort": 1, "multi": has_all, "includeAll": has_all}  # fmt: skip
    return made | ({"allValue": ".*", "current": {"text": "All", "value": "$__all"}} if has_all else {})


def dashboard(uid: str, title: str, variables: Sequence[Json], panels: Sequence[Json], begin: str) -> Json:
    """Return a dashboard; panels stand side by side, as many as fit into a row."""
    source = {"type": "datasource", "name": "source", "label": "source", "query": "prometheus"}
    return {
        "uid": uid, "title": title, "tags": ["helen"], "schemaVersion": 39, "version": 1, "editable": True,
        "time": {"from": begin, "to": "now"}, "refresh": "1m", "templating": {"list": [source, *variables]},
        "panels": [each | {"id": at} for at, each in enumerate(_placed(panels), 1)],
    }  # fmt: skip


def _placed(panels: Sequence[Json]) -> Iterator[Json]:
    x = y = tallest = 0
    for each in panels:
        width, height = each["gridPos"]["w"], each["gridPos"]["h"]
        if x + width > WIDTH:
            x, y, tallest = 0, y + tallest, 0
        yield each | {"gridPos": {"w": width, "h": height, "x": x, "y": y}}
        x, tallest = x + width, max(tallest, height)


def fleet() -> Json:
    """Return the dashboard of all agents."""
    chosen = '{agent=~"$agent",check=~"$check"}'
    newest = f"last_over_time(helen_state{chosen}[{NOW}])"
    share = f"avg_over_time(helen_ok{chosen}[$__rate_interval])"
    counts = [
        panel("stat", word, f"count({newest} == {number}) or vector(0)", width=4, height=4, is_instant=True)
        for number, (word, _) in STATES.items()
    ]
    return dashboard("helen-fleet", "Helen: fleet", [
        variable("agent", "label_values(helen_state, agent)"), variable("check", "label_values(helen_state, check)"),
    ], [
        *counts,
        panel("stat", "agents that report", f"count(count by (agent) ({newest}))", width=4, height=4, is_instant=True),
        panel("stat", "results that are ok", f"avg({newest} == bool 0)", width=4, height=4, unit="percentunit",
              is_instant=True),
        of_state(as_rows(panel("table", "What is not well", f"sort_desc({newest} > 0)", is_instant=True, height=10))),
        panel("timeseries", "Checks that are not well", f"count by (check) (helen_state{chosen} > 0)", height=10,
              legend="{{check}}"),
        panel("bargauge", "Agents with most of them", f"topk(10, count by (agent) ({newest} > 0))", is_instant=True,
              legend="{{agent}}"),
        panel("timeseries", "Share of results that are ok", f"avg by (check) ({share})", unit="percentunit",
              legend="{{check}}"),
    ], "now-6h")  # fmt: skip


def host() -> Json:
    """Return the dashboard of one agent, by the checks that are shipped."""

    def of(name: str, check: str) -> str:
        return f'{name}{{agent="$agent",check=~"{check}"}}'

    agent = variable("agent", "label_values(helen_state, agent)", has_all=False)
    return dashboard("helen-host", "Helen: host", [agent], [
        of_state(panel("state-timeline", "States", 'helen_state{agent="$agent"}', width=24, legend="{{check}}")),
        panel("timeseries", "Processor", of("busy", "cpu.*"), unit="percent", legend="busy"),
        panel("timeseries", "Load", *(of(name, "load.*") for name in ("load1", "load5", "load15"))),
        panel("timeseries", "Memory and swap", of("used", "memory.*|swap.*"), unit="percent", legend="{{check}}"),
        panel("timeseries", "Filesystems", of("used", "disk.*"), unit="percent", legend="{{mount}}{{path}}"),
        panel("timeseries", "Disks", f"rate({of('read', 'disk_io.*')}[$__rate_interval])",
              f"-rate({of('written', 'disk_io.*')}[$__rate_interval])", unit="Bps",
              about="Read above, written below the line."),
        panel("timeseries", "Network", f"rate({of('received', 'network.*')}[$__rate_interval])",
              f"-rate({of('sent', 'network.*')}[$__rate_interval])", unit="Bps",
              about="Received above, sent below the line."),
    ], "now-6h")  # fmt: skip


def check() -> Json:
    """Return the dashboard of one check on one agent, with one of its metrics."""
    chosen = '{agent="$agent",check="$check"}'
    metric = '{__name__="$metric",agent="$agent",check="$check"}'
    return dashboard("helen-check", "Helen: check", [
        variable("agent", "label_values(helen_state, agent)", has_all=False),
        variable("check", 'label_values(helen_state{agent="$agent"}, check)', has_all=False),
        variable("metric", f"label_values({chosen}, __name__)", has_all=False),
    ], [
        of_state(panel("stat", "Newest status", f"last_over_time(helen_state{chosen}[1d])", width=6, height=4,
                       is_instant=True)),
        panel("stat", "Results", f"count_over_time(helen_state{chosen}[$__range])", width=6, height=4, is_instant=True),
        panel("stat", "Results that are ok", f"avg_over_time(helen_ok{chosen}[$__range])", width=6, height=4,
              unit="percentunit", is_instant=True),
        panel("stat", "Changes of status", f"changes(helen_state{chosen}[$__range])", width=6, height=4,
              is_instant=True),
        of_state(panel("state-timeline", "Status", f"helen_state{chosen}", width=24, height=4)),
        panel("timeseries", "$metric", metric),
        panel("timeseries", "$metric per second, of a counter", f"rate({metric}[$__rate_interval])"),
        panel("timeseries", "$metric: least, mean and most of an hour", f"min_over_time({metric}[1h])",
              f"avg_over_time({metric}[1h])", f"max_over_time({metric}[1h])"),
        panel("timeseries", "$metric: its spread within an hour", f"stddev_over_time({metric}[1h])"),
    ], "now-1d")  # fmt: skip


def sla() -> Json:
    """Return the dashboard of service levels: shares of results that were ok."""
    chosen = '{agent=~"$agent",check=~"$check"}'
    share = f"avg_over_time(helen_ok{chosen}[$__range])"
    every, good = (f"{word}_over_time(helen_ok{chosen}[$__range])" for word in ("count", "sum"))
    target: Json = {"type": "textbox", "name": "target", "label": "target in %", "query": "99.5",
                    "current": {"text": "99.5", "value": "99.5"}}  # fmt: skip
    about = "Shares of results. Downtimes and missing results count in `helen pipeline report sla`."
    return dashboard("helen-sla", "Helen: service levels", [
        variable("agent", "label_values(helen_ok, agent)"), variable("check", "label_values(helen_ok, check)"), target,
    ], [
        panel("stat", "All together", f"avg({share})", width=6, height=4, unit="percentunit", is_instant=True,
              about=about),
        panel("stat", "Series", f"count({share})", width=6, height=4, is_instant=True),
        panel("stat", "Below the target", f"count({share} * 100 < $target) or vector(0)", width=6, height=4,
              is_instant=True),
        panel("stat", "Bad results", f"sum({every} - {good})", width=6, height=4, is_instant=True),
        as_rows(panel("table", "Below the target", f"sort({share} * 100 < $target)", unit="percent", is_instant=True,
                      height=10)),
        panel("bargauge", "The worst", f"bottomk(10, {share})", unit="percentunit", legend="{{agent}}/{{check}}",
              is_instant=True, height=10),
        panel("timeseries", "Each day", f"avg by (check) (avg_over_time(helen_ok{chosen}[1d]))", width=24,
              unit="percentunit", legend="{{check}}"),
    ], "now-30d")  # fmt: skip


_OPTIONS: dict[str, Json] = {
    "stat": {"reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False}, "colorMode": "background"},
    "bargauge": {"orientation": "horizontal", "displayMode": "gradient"},
    "state-timeline": {"mergeValues": True, "showValue": "auto"},
    "timeseries": {"legend": {"showLegend": True, "displayMode": "list", "placement": "bottom"}},
}
DASHBOARDS = {"fleet.json": fleet, "host.json": host, "check.json": check, "sla.json": sla}


def text(name: str) -> str:
    """Return the text of one of the files."""
    return json.dumps(DASHBOARDS[name](), indent=2) + "\n"


if __name__ == "__main__":
    for each in DASHBOARDS:
        (FOLDER / each).write_text(text(each))
