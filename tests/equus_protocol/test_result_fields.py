"""Test the table of a result's fields: the rules that follow from it, and the places that must never change."""

from __future__ import annotations

from equus_protocol.result_fields import (
    HELEN_COLUMNS,
    METRIC_COLUMNS,
    METRIC_FIELDS,
    RESULT_COLUMNS,
    RESULT_FIELDS,
    Form,
)

# Files on disk have the columns in this order; a new one is added at the end.
OF_RESULTS = ("at series_id received started took_ms cpu_ms peak_kib status origin reason code spool sequence summary"
              " metrics raw truncated clock_offset_ms")  # fmt: skip
OF_METRICS = "name value unit kind labels warn crit min max"


def test_columns_have_places_without_holes() -> None:
    for columns, names in ((RESULT_COLUMNS, OF_RESULTS), (METRIC_COLUMNS, OF_METRICS)):
        assert " ".join(columns) == names
        assert [column.place for column in columns.values()] == list(range(1, len(columns) + 1))


def test_each_form_has_one_meaning_of_null() -> None:
    """A column that cannot be null has a default, and only the status and a metric's name are required in JSON."""
    for each in (*RESULT_FIELDS, *METRIC_FIELDS):
        if each.column is not None:
            assert each.column.nullable == (each.default is None), each.name
        assert each.is_required == (each.form in (Form.STATUS, Form.NAME)), each.name


def test_columns_of_helen() -> None:
    """Helen's columns are fixed in place and type, and each record has them, because the history is read by them."""
    assert {name: (column.place, column.type, column.nullable) for name, column in HELEN_COLUMNS.items()} == {
        "at": (1, "int64", False), "series_id": (2, "int32", False), "received": (3, "time", False),
        "origin": (9, "int8", False), "spool": (12, "string", False), "sequence": (13, "int64", False),
        "raw": (16, "binary", False), "clock_offset_ms": (18, "int64", True),
    }  # fmt: skip
