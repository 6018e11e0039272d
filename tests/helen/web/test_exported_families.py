"""Tests metrics of checks as families: names with units, clashes and limits."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from equus_protocol.results import Metric
from helen.web.figures import exported_families as module
from helen.web.figures.exported_families import Exported, exported_families, family_name, label_name
from helen.web.figures.exposition import write


def exported(agent: str, check: str, *metrics: Metric, patterns: Sequence[str] = ("*",)) -> Exported:
    return Exported(agent, check, {"team": "shop"}, metrics, patterns)


def text(*checks: Exported, is_open: bool = True) -> list[str]:
    return "".join(write(exported_families(checks), is_open)).splitlines()


TOLD = "helen_exported_series_left_out"


def left_out(lines: Sequence[str]) -> list[str]:
    return [line for line in lines if line.startswith(TOLD)]


def test_open_metrics_have_help_type_and_unit() -> None:
    """OpenMetrics families have help, type and unit, a counter without its ending, and labels of the query API."""
    disk = exported(
        "web-1", "disk", Metric("used", 91.5, "%", labels={"path": "/"}), Metric("sent", 7.0, "B", "counter")
    )
    lines = text(disk, exported("db-1", "memory", Metric("used", 40.0, "%")))
    assert [line for line in lines if TOLD not in line] == [
        "# HELP check_sent_bytes Metric sent of disk.", "# TYPE check_sent_bytes counter",
        "# UNIT check_sent_bytes bytes",
        'check_sent_bytes_total{agent="web-1",check="disk",team="shop"} 7',
        "# HELP check_used_percent Metric used of disk, memory.", "# TYPE check_used_percent gauge",
        "# UNIT check_used_percent percent",
        'check_used_percent{agent="db-1",check="memory",team="shop"} 40',
        'check_used_percent{agent="web-1",check="disk",path="/",team="shop"} 91.5', "# EOF",
    ]  # fmt: skip
    assert left_out(lines) == [f'{TOLD}{{why="limit"}} 0', f'{TOLD}{{why="clash"}} 0']
    assert not any(line.startswith("# UNIT") for line in text(disk, is_open=False))


def test_only_what_an_entry_exports() -> None:
    """Only metrics with a value that fit an entry's patterns are exported."""
    metrics = Metric("load1", 1.0), Metric("load5", 2.0), Metric("running", 3.0), Metric("none", None)
    lines = text(exported("a", "load", *metrics, patterns=("load*", "none")))
    assert [line.split("{")[0] for line in lines if line.startswith("check_")] == ["check_load1", "check_load5"]
    assert not [line for line in text(exported("a", "load", *metrics, patterns=())) if line.startswith("check_")]


def test_what_clashes_is_counted() -> None:
    """Metrics of another kind under one name, or with names or labels that become equal, are left out and counted."""
    lines = text(
        exported("a", "x", Metric("sent", 1.0, "B", "counter"), Metric("sent", 2.0, "B")),
        exported("a", "y", Metric("a b", 1.0), Metric("a-b", 2.0)),
        exported("a", "z", Metric("c", 1.0, labels={"x.y": "1", "x-y": "2"})),
    )
    assert [line for line in lines if line.startswith("check_")] == [
        'check_a_b{agent="a",check="y",team="shop"} 1', 'check_sent_bytes_total{agent="a",check="x",team="shop"} 1'
    ]  # fmt: skip
    assert left_out(lines)[1] == f'{TOLD}{{why="clash"}} 3'


def test_too_many_are_left_out_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Metrics above the limit are all left out, and counted."""
    assert module.MOST_EXPORTED == 10_000
    monkeypatch.setattr(module, "MOST_EXPORTED", 3)
    few = [exported("a", str(n), Metric("x", 1.0)) for n in range(3)]
    assert sum(line.startswith("check_x{") for line in text(*few)) == 3
    lines = text(*few, exported("a", "b", Metric("x", 1.0), Metric("y", 1.0)))
    assert not [line for line in lines if line.startswith("check_")]
    assert left_out(lines)[0] == f'{TOLD}{{why="limit"}} 5'


@pytest.mark.parametrize(("metric", "unit", "name", "word"), [
    ("used", "%", "check_used_percent", "percent"), ("age", "s", "check_age_seconds", "seconds"),
    ("time_seconds", "s", "check_time_seconds", "seconds"), ("days_left", "d", "check_days_left", ""),
    ("forks", "c", "check_forks", ""), ("x", "", "check_x", ""), ("free", "inodes", "check_free_inodes", "inodes"),
    ("seen_total", "c", "check_seen", ""), ("C:\\ used %", "%", "check_C___used___percent", "percent"),
    ("read_rate", "B/s", "check_read_rate_bytes_per_second", "bytes_per_second"), ("t", "°C", "check_t_c", "c"),
])  # fmt: skip
def test_names_end_with_their_units(metric: str, unit: str, name: str, word: str) -> None:
    """A family's name ends with its unit, as OpenMetrics wants it, unless the name has the unit elsewhere."""
    assert family_name(metric, unit) == (name, word)


def test_names_of_labels() -> None:
    """Names of labels have letters, digits and underscores, and no digit first."""
    assert [label_name(each) for each in ("path", "rack.row", "9x", "", "é")] == ["path", "rack_row", "_9x", "_", "_"]
