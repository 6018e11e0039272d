"""Test metrics, and the sentences that are written from them."""

# ruff: noqa: E501 - a table has a line for each case

import json
import math
from typing import Any

import pytest

from equus.sandbox.metrics import LABEL_VALUE, MOST_LABELS, number, read_metric, summary_of, worst_of

JUDGED = [
    (93.1, {"crit": 90, "unit": "%"}, "critical", "m 93.1 % is above critical 90"),
    (93.1, {"warn": 90, "unit": "%"}, "warning", "m 93.1 % is above warning 90"),
    (5, {"crit": "10:"}, "critical", "m 5 is below critical 10"),
    (-1, {"warn": "10"}, "warning", "m -1 is below warning 0"),
    (15, {"crit": "@10:20"}, "critical", "m 15 is inside critical 10:20"),
    (10, {"warn": "10", "crit": "10"}, "ok", "m 10"),
    (10.01, {"warn": "10", "crit": "20"}, "warning", "m 10.0 is above warning 10"),
    (1, {"labels": {"b": "x", "a": 2}, "crit": 0}, "critical", "m 1 is above critical 0 (a 2, b x)"),
    (math.nan, {"crit": 1}, "unknown", "m is not a number"),
    (math.nan, {}, "ok", "m nan"),
    (math.inf, {"crit": 1}, "critical", "m inf is above critical 1"),
    (1, {"warn": "", "crit": None}, "ok", "m 1"),
]


@pytest.mark.parametrize(("value", "options", "status", "why"), JUDGED)
def test_thresholds(value: float, options: dict[str, Any], status: str, why: str) -> None:
    """A value is judged by critical before warning, and the edge of a range is inside of it."""
    metric = read_metric("m", value, options)
    assert (metric.status, metric.why) == (status, why)


BAD = [
    ("", 1, None), ("1x", 1, None), ("a b", 1, None), (None, 1, None), ("n" * 129, 1, None),
    ("m", "1", None), ("m", None, None), ("m", True, None), ("m", {}, None),
    ("m", 1, "x"), ("m", 1, [1]), ("m", 1, {"units": "s"}), ("m", 1, {"unit": "a b"}), ("m", 1, {"unit": 1}), ("m", 1, {"unit": "u" * 33}),
    ("m", 1, {"kind": "rate"}), ("m", 1, {"labels": [1]}), ("m", 1, {"labels": {"a b": "x"}}), ("m", 1, {"labels": {"a": {}}}),
    ("m", 1, {"labels": {f"l{i}": "x" for i in range(MOST_LABELS + 1)}}),
    ("m", 1, {"warn": "x"}), ("m", 1, {"crit": True}), ("m", 1, {"crit": []}), ("m", 1, {"min": "0"}), ("m", 1, {"max": False}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value", "options"), BAD)
def test_bad_metrics(name: Any, value: Any, options: Any) -> None:
    """A bad metric raises a sentence that begins with the call, so that the author finds it."""
    with pytest.raises(ValueError, match=r"^host\.metric: "):
        read_metric(name, value, options)


def test_the_json_of_a_metric() -> None:
    """The JSON of a metric leaves out fields without a value, keeps an infinite value as text, and cuts and cleans
    label values.
    """
    metric = read_metric(
        "m.a-b_c", math.inf, {"labels": {"a": "x" * 600 + "y", "b": "\x1b", "c": True}, "max": math.inf}
    )
    assert json.loads(metric.json()) == {
        "name": "m.a-b_c",
        "value": "inf",
        "unit": "",
        "kind": "gauge",
        "labels": {"a": "x" * LABEL_VALUE, "b": "\\x1b", "c": "true"},
    }


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1, "1"),
        (1.0, "1"),
        (93.1, "93.1"),
        (93.16, "93.2"),
        (0.12345, "0.1235"),
        (1234567.5, "1.235e+06"),
        (123456.78, "123456.8"),
        (-0.5, "-0.5"),
        (10**20, "1" + "0" * 20),
        (1e20, "1e+20"),
    ],
)
def test_numbers_for_people(value: float, text: str) -> None:
    """Numbers in sentences are short, and whole ones have no fraction."""
    assert number(value) == text


def test_summaries() -> None:
    """A summary names the worst metrics, three at most, or the first three when all is well."""
    well = [read_metric(f"m{i}", i, None) for i in range(5)]
    assert (worst_of(well), summary_of(well)) == ("ok", "m0 0; m1 1; m2 2, and 2 more")
    ill = [*well, read_metric("w", 1, {"warn": 0}), read_metric("n", math.nan, {"warn": 0})]
    assert (worst_of(ill), summary_of(ill)) == ("warning", "w 1 is above warning 0")
    assert worst_of([read_metric("n", math.nan, {"warn": 0})]) == "unknown"
    assert worst_of([]) == "ok"
