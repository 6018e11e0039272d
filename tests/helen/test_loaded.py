"""What an agent says of itself: bounded, whatever it says."""

import json

import pytest

from helen.loaded import MAX_LABELS, LoadReport, read_loaded

GOOD = {
    "files": {"cpu.lua": {"sha256": "a" * 64, "state": "active"},
              "disk.lua": {"sha256": "b" * 64, "state": "kept-old", "error": "line 3: no"}},
    "labels": {"role": "web"},
    "host": {"os": "Linux", "cpus": 4, "memory": 8e9},
    "equus": "0.1.0",
    "isolation": "strong",
    "policy": "c" * 64,
    "spool": {"id": "s1", "depth": 3, "first": 17},
}  # fmt: skip


def test_a_good_one() -> None:
    """As docs/protocol.rst has it."""
    report = read_loaded(json.dumps(GOOD).encode())
    assert report == LoadReport(
        {"cpu.lua": {"sha256": "a" * 64, "state": "active", "error": None},
         "disk.lua": {"sha256": "b" * 64, "state": "kept-old", "error": "line 3: no"}},
        {"disk.lua": "line 3: no"}, {"role": "web"}, {"os": "Linux", "cpus": 4, "memory": 8e9}, "strong", "c" * 64,
        {"id": "s1", "depth": 3, "first": 17},
    )  # fmt: skip
    assert report.spool_begins == ("s1", 17)


@pytest.mark.parametrize(
    "blob", [b"", b"x", b"[]", b"1", b"[" * 100_000, b"\xff", b'{"files": 1, "labels": [], "host": "x", "spool": null}']
)
def test_what_is_none(blob: bytes) -> None:
    """An empty report; nothing is raised."""
    assert read_loaded(blob) == LoadReport()


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({"labels": {"a": 1, "": "x", "k" * 256: "v", "k": "v" * 256, "ok": ""}}, LoadReport(labels={"ok": ""})),
        ({"files": {"../x.lua": {}, "x.lua": 1, "y.lua": {"state": 5, "error": 6}}},
         LoadReport({"y.lua": {"sha256": None, "state": None, "error": None}}, {"y.lua": "None"})),
        ({"files": {"x.lua": {"state": "refused", "error": "e" * 999}}},
         LoadReport({"x.lua": {"sha256": None, "state": "refused", "error": "e" * 500}}, {"x.lua": "e" * 500})),
        ({"host": {"a": [], "b": {}, "c": None, "d": 10**30, "e": "x" * 999}}, LoadReport(host={"e": "x" * 255})),
        ({"spool": {"id": 5, "first": 2}}, LoadReport(spool={"first": 2})),
        ({"spool": {"id": "s", "first": True, "depth": -1}}, LoadReport(spool={"id": "s"})),
        ({"spool": {"id": "s", "first": 2**31}}, LoadReport(spool={"id": "s"})),
        ({"isolation": 1, "policy": "p" * 999}, LoadReport(policy="p" * 255)),
        ({"manifest": {"reason": "frozen", "text": "t" * 999}, "upgrade": {"reason": 1, "text": "x"}},
         LoadReport(troubles={"manifest": ("frozen: " + "t" * 999)[:500]})),
        ({"manifest": "x", "upgrade": {"reason": "undone", "text": "y"}, "schedule": ["entry 1: no", "entry 2: no"]},
         LoadReport(troubles={"upgrade": "undone: y", "schedule": "entry 1: no"})),
        ({"schedule": [1]}, LoadReport()),
    ],
)  # fmt: skip
def test_what_is_left_out(document: dict[str, object], expected: LoadReport) -> None:
    """Kinds and sizes that nobody should have to keep."""
    assert read_loaded(json.dumps(document).encode()) == expected


def test_numbers_that_json_cannot_say_again() -> None:
    """They would break every answer that shows them."""
    assert read_loaded(b'{"host": {"a": NaN, "b": Infinity, "c": -1e999, "d": 1}}').host == {"d": 1}


@pytest.mark.parametrize("first", [0, 1])
def test_a_spool_that_begins_at_the_beginning(first: int) -> None:
    """Nothing is below it."""
    assert read_loaded(json.dumps({"spool": {"id": "s", "first": first}}).encode()).spool_begins is None


def test_labels_are_bounded() -> None:
    """MAX_LABELS, the first ones by name: always the same."""
    labels = {f"k{n:03}": "v" for n in range(MAX_LABELS + 5)}
    assert list(read_loaded(json.dumps({"labels": labels}).encode()).labels) == sorted(labels)[:MAX_LABELS]
