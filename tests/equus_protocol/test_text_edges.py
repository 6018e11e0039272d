"""Test results and plugin text at their edges: limits of numbers, words and lists, cuts, and defaults."""

from __future__ import annotations

import json
from typing import Any

import pytest

from equus_protocol import plugin_text, results
from equus_protocol.plugin_text import (
    _decimal,
    _perfdata,
    _split_nagios,
    _whole_words,
    _without_empty_lines,
    contradicts,
    parse_plugin,
    read_agent_plugin,
    read_plugin,
)
from equus_protocol.ranges import MAX_RANGE, Range
from equus_protocol.result_fields import METRIC_COLUMNS, RESULT_COLUMNS, RESULT_FIELDS, Column, Metric, ResultDocument
from equus_protocol.results import MAX_DEPTH, MAX_METRICS, parse, to_json

OK, WARNING, CRITICAL, UNKNOWN = range(4)


def of_json(**fields: Any) -> ResultDocument:
    return parse(json.dumps(fields).encode())


# ------------------------------------------------------------------------------------------------ numbers


@pytest.mark.parametrize(("text", "value"), [
    ("1", 1.0), ("-1.5", -1.5), ("+.5", 0.5), ("1.", 1.0), ("1e3", 1_000.0), ("", None), ("x", None),
    ("1,5", None), ("1e999", None),
    ("9" * 300, float("9" * 300)), ("9" * 301, None), ("1" + "0" * 299, 1e299), ("-1e999", None), ("nan", None),
    ("inf", None),
])  # fmt: skip
def test_decimals(text: str, value: float | None) -> None:
    """A decimal that a float can hold is read, up to three hundred characters."""
    assert _decimal(text) == value


@pytest.mark.parametrize(("raw", "value", "text"), [
    ("1", 1.0, None), ("1.5", 1.5, None), ("true", ..., None), ('"x"', None, "x"), ('""', None, ""),
    ("null", None, None),
    ("[1]", ..., None), ("1e999", None, "1e999"), ("-1e999", None, "-1e999"), ("NaN", None, "NaN"),
    ("Infinity", None, "Infinity"),
    ("9" * 300, float("9" * 300), None), ("9" * 310, None, "9" * 310), ("9" * 5_000, None, "9" * 5_000),
    ("-0", 0.0, None),
])  # fmt: skip
def test_values_of_metrics(raw: str, value: Any, text: str | None) -> None:
    """The value of a metric is a number, a text for one, or null, and a metric with another value is counted as
    lost.
    """
    document = parse(b'{"status": "ok", "metrics": [{"name": "m", "value": %b}]}' % raw.encode())
    if value is ...:
        assert (document.metrics, document.truncated) == ((), {"metrics": 1})
        return
    [metric] = document.metrics
    assert (metric.value, metric.text, document.status) == (value, text, OK)


@pytest.mark.parametrize(("raw", "kept"), [
    ("5", "5"), ("5.0", "5"), ("5.5", "5.5"), ('"@1:2"', "@1:2"), ("true", None),
    ("9007199254740991", "9007199254740991"),
    ("9007199254740992", "9007199254740992.0"), ("-9007199254740992", "-9007199254740992.0"), ("1e300", "1e+300"),
    ("[]", None),
])  # fmt: skip
def test_thresholds(raw: str, kept: str | None) -> None:
    """A threshold may be a number, and a whole one is written without its point as long as it is exact."""
    [metric] = parse(b'{"status": "ok", "metrics": [{"name": "m", "value": 1, "warn": %b}]}' % raw.encode()).metrics
    assert metric.warn == kept


# ------------------------------------------------------------------------------------------------ documents


@pytest.mark.parametrize(("fields", "expected"), [
    ({"status": "ok"}, {"status": OK}), ({"status": "OK"}, {"status": UNKNOWN}), ({}, {"status": UNKNOWN}),
    ({"status": 0}, {"status": UNKNOWN}),
    ({"status": ["ok"]}, {"status": UNKNOWN}), ({"summary": 7}, {"summary": ""}), ({"summary": "x"}, {"summary": "x"}),
    ({"reason": "r" * 65}, {"reason": "r" * 64}), ({"reason": ""}, {"reason": None}), ({"reason": 7}, {"reason": None}),
    ({"output": ""}, {"output": ""}), ({"output": 7}, {"output": None}), ({"started": 1.5}, {"started": 1.5}),
    ({"started": "1"}, {"started": None}),
    ({"took_ms": True}, {"took_ms": None}), ({"truncated": {"a": 0, "b": -1, "c": 2**63, "d": 2**63 - 1, "e": True}},
     {"truncated": {"a": 0, "d": 2**63 - 1}}), ({"truncated": []}, {"truncated": {}}),
     ({"metrics": {}}, {"metrics": ()}),
    ({"metrics": [{"name": ""}]}, {"truncated": {"metrics": 1}}), ({"metrics": [7]}, {"truncated": {"metrics": 1}}),
    ({"metrics": [{"name": "m", "value": 1}, 7], "truncated": {"metrics": 9}}, {"truncated": {"metrics": 2}}),
    ({"metrics": [{"name": "m"}]}, {"metrics": (Metric("m"),)}),
    ({"metrics": [{"name": "m", "value": 1, "kind": "x", "unit": 7, "labels": {"a": "b", "c": 7}, "min": "x",
                   "max": 2}]},
     {"metrics": (Metric("m", 1.0, labels={"a": "b"}, max=2.0),)}),
    ({"metrics": [{"name": "m", "value": 1, "kind": "counter", "labels": []}]},
     {"metrics": (Metric("m", 1.0, kind="counter"),)}),
])  # fmt: skip
def test_fields_of_the_wrong_type(fields: dict[str, Any], expected: dict[str, Any]) -> None:
    """A field of the wrong type keeps its default, and nothing else of the document is lost."""
    document = of_json(**fields)
    assert {name: getattr(document, name) for name in expected} == expected


def test_lists_at_their_limits() -> None:
    """A document keeps a thousand metrics, 64 true lengths and 64 levels, and no more."""
    for count, kept in ((MAX_METRICS, {}), (MAX_METRICS + 1, {"metrics": MAX_METRICS + 1})):
        document = of_json(metrics=[{"name": "m", "value": 1}] * count)
        assert (len(document.metrics), document.truncated) == (MAX_METRICS, kept)
    assert len(of_json(truncated={str(at): 1 for at in range(70)}).truncated) == MAX_DEPTH == 64
    for depth, reason in ((63, None), (64, "opaque-result")):
        inner: Any = 1
        for _ in range(depth):
            inner = [inner]
        assert of_json(status="ok", x=inner).reason == reason
    wide = of_json(status="ok", x=[[] for _ in range(100)])
    assert (wide.status, wide.reason) == (OK, None)


@pytest.mark.parametrize(("blob", "reason"), [
    (b"", "opaque-result"), (b"[]", "opaque-result"), (b"{", "opaque-result"), (b"{}", None),
    (b' \n{"status": "ok"}', None),
    (b'{"a": 1, "a": 2}', "opaque-result"), (b"\xff{}", "opaque-result"), (b"plain", "opaque-result"),
    (b"x | a=1", None),
    (b"x | y", "opaque-result"), (b"status ok fine", None), (b'{"x": {"a": 1, "a": 2}}', "opaque-result"),
    (b"7", "opaque-result"),
])  # fmt: skip
def test_what_is_read_at_all(blob: bytes, reason: str | None) -> None:
    """A blob is read as JSON or as plugin text, and any other is kept as output."""
    document = parse(blob)
    assert document.reason == reason
    if reason is not None:
        assert (document.status, document.output) == (UNKNOWN, blob.decode("utf-8", "backslashreplace"))


def test_a_document_as_json() -> None:
    """A document as JSON has only the fields that have a value."""
    metric = Metric("m", None, text="1e999", labels={"a": "b"}, warn="1", min=0.0)
    document = ResultDocument(WARNING, "s", (metric,), "o", "r", 0.0, 0.0, None, 5.0, "c", "x", {"output": 9})
    assert to_json(document) == {
        "status": "warning", "summary": "s", "metrics": [
            {"name": "m", "value": "1e999", "unit": "", "kind": "gauge", "labels": {"a": "b"}, "warn": "1",
             "min": 0.0}],
        "output": "o", "reason": "r", "started": 0.0, "took_ms": 0.0, "peak_kib": 5.0, "check": "c", "code": "x",
        "truncated": {"output": 9},
    }  # fmt: skip
    assert to_json(ResultDocument(OK)) == {"status": "ok", "summary": ""}
    assert results._is_deep([]) is False


def test_places_of_columns() -> None:
    """Places of columns never change, because older files are read by them."""
    assert {name: column.place for name, column in RESULT_COLUMNS.items()} == {
        "at": 1, "series_id": 2, "received": 3, "started": 4, "took_ms": 5, "cpu_ms": 6, "peak_kib": 7, "status": 8,
        "origin": 9, "reason": 10, "code": 11, "spool": 12, "sequence": 13, "summary": 14, "metrics": 15,
        "raw": 16, "truncated": 17, "clock_offset_ms": 18,
    }  # fmt: skip
    assert [*METRIC_COLUMNS] == ["name", "value", "unit", "kind", "labels", "warn", "crit", "min", "max"]
    required = {
        "at",
        "series_id",
        "received",
        "status",
        "origin",
        "spool",
        "sequence",
        "summary",
        "metrics",
        "raw",
        "truncated",
    }
    assert {name for name, column in RESULT_COLUMNS.items() if not column.nullable} == required
    assert {name for name, column in METRIC_COLUMNS.items() if not column.nullable} == {
        "name",
        "unit",
        "kind",
        "labels",
    }
    assert Column(1, "string").nullable and [each.name for each in RESULT_FIELDS if each.is_required] == ["status"]


# ------------------------------------------------------------------------------------------------ plugins


@pytest.mark.parametrize(("text", "exit_status", "status"), [
    ("x", 0, OK), ("x", 1, WARNING), ("x", 2, CRITICAL), ("x", 3, UNKNOWN), ("x", 4, UNKNOWN), ("x", -9, UNKNOWN),
    ("x", None, UNKNOWN),
    ("status ok", 0, OK), ("status ok", None, OK), ("status ok", 1, WARNING), ("status ok", 3, UNKNOWN),
    ("status warn", 0, WARNING),
    ("status warn", 3, WARNING), ("status err", 1, CRITICAL), ("status warn", 2, CRITICAL), ("status success", 0, OK),
    ("status critical", 0, CRITICAL), ("status fail", 0, CRITICAL), ("status warning", 0, WARNING),
    ("status error", 0, CRITICAL),
    ("status okay", 0, OK), ("status okay", 2, CRITICAL),
])  # fmt: skip
def test_the_status_of_a_plugin(text: str, exit_status: int | None, status: int) -> None:
    """The status of a plugin is the worse of its word and its exit status, or the exit status alone."""
    assert parse_plugin(text.encode(), exit_status).status == status


@pytest.mark.parametrize(("text", "status", "is_other"), [
    ("OK - fine", 0, False), ("OK - fine", 2, True), ("fine", 2, False), ("x\nstatus ok", 2, True),
    ("x\nstatus ok", 0, False),
    ("CRITICAL: x", 2, False), ("UNKNOWN", 3, False), ("WARNING", 3, True), ("BOOK", 2, False), ("| OK", 2, False),
])  # fmt: skip
def test_a_text_that_contradicts(text: str, status: int, is_other: bool) -> None:
    """A text contradicts a status by a word in its summary or by a line of its status."""
    assert contradicts(text.encode(), status) is is_other


@pytest.mark.parametrize(("text", "found"), [
    ("s|a=1", ("s", "", ["a"], {})), ("s", ("s", "", [], {})), ("s|a=1\nmore|b=2", ("s", "more", ["a", "b"], {})),
    ("\n \ns|a=1\nmore\nlast", ("s", "more\nlast", ["a"], {})), ("|a=1\nnext\nrest", ("next", "rest", ["a"], {})),
    ("s|a=x b=1", ("s", "", ["b"], {"metrics": 2})), ("s|a=1 = b=2", ("s", "", ["a", "b"], {"metrics": 3})),
    ("s|words only", ("s", "", [], {})), (" s | a=1 ", ("s", "", ["a"], {})),
])  # fmt: skip
def test_the_parts_of_a_nagios_plugin(text: str, found: Any) -> None:
    """A plugin's text is split into summary, long output and metrics, and the number of metrics if some cannot
    be read.
    """
    summary, output, metrics, dropped = _split_nagios(text)
    assert (summary, output, [each.name for each in metrics], dropped) == found


@pytest.mark.parametrize(("text", "metric"), [
    ("a=1", Metric("a", 1.0)), ("a=1c", Metric("a", 1.0, "c", "counter")),
    ("'a b'=1ms;2;3;4;5", Metric("a b", 1.0, "ms", warn="2", crit="3", min=4.0, max=5.0)),
    ("'it''s'=1", Metric("it's", 1.0)), ("a=1,5%", Metric("a", 1.5, "%")), ("a=U", Metric("a", None)),
    ("a=1;;3", Metric("a", 1.0, crit="3")),
    ("a=1;2", Metric("a", 1.0, warn="2")), ("a=1;;;4", Metric("a", 1.0, min=4.0)),
    ("a=1;;;;5;", Metric("a", 1.0, max=5.0)),
    ("a=-.5", Metric("a", -0.5)), ("a=1e999", Metric("a", None, text="1e999")),
])  # fmt: skip
def test_a_figure(text: str, metric: Metric) -> None:
    """A figure has a label, a value, a unit and four limits."""
    assert _perfdata(text) == ((metric,), 0)


def test_how_many_figures_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only MAX_METRICS metrics and MAX_WORDS words are read, and the others are counted by their signs."""
    monkeypatch.setattr(plugin_text, "MAX_METRICS", 2)
    texts = ("a=1 b=2", "a=1 b=2 c=3", "a=1 b=2 c=3 d=4")
    assert [(len(metrics), lost) for metrics, lost in map(_perfdata, texts)] == [
        (2, 0), (2, 1), (2, 2),
    ]  # fmt: skip
    monkeypatch.setattr(plugin_text, "MAX_WORDS", 3)
    assert _perfdata("x y z a=1")[1] == 1 and len(_perfdata("x y a=1 b=2")[0]) == 1
    assert _perfdata("  ") == ((), 0) and _perfdata("") == ((), 0)


@pytest.mark.parametrize(("text", "whole", "cut"), [
    ("a=1 b=2", "a=1 ", "b=2"), ("a=1 b=2 ", "a=1 b=2 ", ""), ("a=1", "", "a=1"), ("a=1 'b c", "a=1 ", "'b c"),
    ("", "", ""),
    ("'a b'=1 'c", "'a b'=1 ", "'c"), ("x 'a b'=1", "x 'a ", "b'=1"), (" ", " ", ""),
])  # fmt: skip
def test_whole_words(text: str, whole: str, cut: str) -> None:
    """Words before the place where the end is lost are kept."""
    assert _whole_words(text) == (whole, cut)


@pytest.mark.parametrize(
    ("text", "rest"), [("a\nb", "a\nb"), ("\n\na", "a"), (" \n a", " a"), ("  a", "  a"), ("", ""), ("\n", "")]
)
def test_empty_lines(text: str, rest: str) -> None:
    """Empty lines at the beginning are left out, and blanks of the first other line are kept."""
    assert _without_empty_lines(text) == rest


def test_text_of_an_agent_plugin() -> None:
    """An agent plugin may write metrics before its status, and a figure at a cut is left out and counted."""
    text = (
        "metric a int 1\nstatus ok all fine \nmetric b double 1.5 ms\nmetric c string x\nmetric d counter 2\n"
        "metric e odd 1\n"
    )
    document = read_agent_plugin(text)
    assert document is not None
    assert (document.status, document.summary, document.output) == (OK, "all fine", text)
    assert document.metrics == (
        Metric("a", 1.0), Metric("b", 1.5, "ms"), Metric("c", None, text="x"), Metric("d", 2.0, kind="counter"),
    )  # fmt: skip
    assert document.truncated == {"metrics": 5}
    cut = read_agent_plugin("status ok\nmetric a int 1\nmetric b int 12", True)
    assert cut is not None and ([each.name for each in cut.metrics], cut.truncated) == (["a"], {"metrics": 2})
    assert read_agent_plugin("x\nstatus ok") is None and read_agent_plugin("status good") is None
    whole = read_agent_plugin("status ok\nmetric a int 1")
    assert whole is not None and whole.truncated == {}


@pytest.mark.parametrize(("text", "status"), [("OK x|a=1", OK), ("x|a=1", UNKNOWN), ("CRITICAL|a=1", CRITICAL),
                                              ("x|y", None), ("x", None), ("status warn", WARNING)])  # fmt: skip
def test_text_without_an_exit_status(text: str, status: int | None) -> None:
    """Text without an exit status is a plugin's if it has a status or figures, and its status is that of its word."""
    document = read_plugin(text)
    assert (None if document is None else document.status) == status


# ------------------------------------------------------------------------------------------------ ranges


@pytest.mark.parametrize(("text", "inside", "outside"), [
    ("10", [0, 10, 5], [-0.1, 10.1]), ("10:", [10, 1e9], [9.9]), ("~:10", [10, -1e9], [10.1]),
    ("10:20", [10, 20], [9.9, 20.1]),
    ("@10:20", [9.9, 20.1], [10, 20]), ("0:0", [0], [1, -1]), (" 5 ", [5], [6]), ("-5:-1", [-5, -1], [0]),
    ("~:", [], [float("nan")]),
])  # fmt: skip
def test_ranges(text: str, inside: list[float], outside: list[float]) -> None:
    """Both ends of a range are included, `@` turns it round, and a value that is no number is in none."""
    made = Range.parse(text)
    assert [value for value in inside if made.alerts(value)] == [] and all(map(made.alerts, outside))


@pytest.mark.parametrize(("text", "is_one"), [
    ("", False), (":", False), ("@", False), ("x", False), ("20:10", False), ("1e999", False), ("~:1e999", False),
    ("10:10", True),
    ("1".rjust(MAX_RANGE), True), ("1".rjust(MAX_RANGE + 1), False), ("1:2:3", False), ("~", False),
])  # fmt: skip
def test_what_is_no_range(text: str, is_one: bool) -> None:
    """A text that is no range raises ValueError that says how to write one."""
    if is_one:
        assert Range.parse(text).inside is False
        return
    with pytest.raises(ValueError, match="is no range: "):
        Range.parse(text)
