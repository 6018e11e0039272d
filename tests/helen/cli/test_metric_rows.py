"""Tests rows of metrics in tables: values and limits in readable units, in the same columns as before."""

from __future__ import annotations

from typing import Any

import pytest

from helen.cli.base.metric_rows import HEADINGS, metric_rows


@pytest.mark.parametrize(
    ("value", "unit", "limits", "cells"),
    [
        (24_151_139_669.3333, "B", ("10737418240:", "1073741824:"), ["22.5", "GiB", "10 GiB:", "1 GiB:"]),
        (93, "%", ("80", "90"), ["93", "%", "80", "90"]),
        (0.000223, "s", ("0.5", None), ["223", "µs", "500 ms", ""]),
        (274.0, "s", (None, None), ["4 min 34 s", "", "", ""]),
        (17.0, "c", (None, None), ["17", "c", "", ""]),
        (12.53, "1/s", (None, "20"), ["12.53", "1/s", "", "20"]),
        (0.25, "", (None, None), ["0.25", "", "", ""]),
        (3.0, "agents", ("2", None), ["3", "agents", "2", ""]),
        (None, "B", (None, None), ["", "B", "", ""]),
        (5, None, (None, None), ["5", "", "", ""]),
    ],
)  # fmt: skip
def test_rows(value: float | None, unit: str | None, limits: tuple[Any, Any], cells: list[str]) -> None:
    """A metric is one row with value, unit and limits in readable units, and its labels last (J16)."""
    metric = {
        "name": "free",
        "value": value,
        "unit": unit,
        "warn": limits[0],
        "crit": limits[1],
        "labels": {"path": "/"},
    }
    assert metric_rows([metric]) == [["free", *cells, "path=/"]]
    assert len(HEADINGS) == len(metric_rows([metric])[0])
