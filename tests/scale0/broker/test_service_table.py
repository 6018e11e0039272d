"""Tests the table that brokers exchange: a digest that tells each change, and parts that fit into a message."""

from __future__ import annotations

from scale0.broker import service_table
from scale0.broker.service_table import Table, parts


def test_the_digest_is_that_of_the_protocol() -> None:
    """The digest has the value that is written down here, since two versions of the broker must agree on it."""
    table = Table()
    assert (table.digest, table.seq) == ("0" * 16, 0)
    table.set("tea", [2, 1, 0])
    assert table.digest == "652025e4dcf6d005"
    table.set("milk", [1, 0, 3])
    assert table.digest == "49c74b5b5a3c7073"


def test_the_order_of_changes_leaves_no_trace_and_each_change_is_seen() -> None:
    one, other = Table(), Table()
    assert one.set("a", [1, 1, 0]) and one.set("b", [2, 0, 5]) and not one.set("b", [2, 0, 5])
    assert other.set("b", [9, 9, 9]) and other.set("a", [1, 1, 0]) and other.set("b", [2, 0, 5])
    assert one.digest == other.digest and one.matches(other.digest) and one.entries == other.entries
    seen = {one.digest}
    for entry in ([3, 0, 5], [2, 1, 5], [2, 0, 6]):
        assert one.set("b", entry)
        seen.add(one.digest)
    assert len(seen) == 4 and not one.matches(other.digest) and not one.matches("no hex") and not one.matches("")


def test_an_entry_of_zeros_is_removed() -> None:
    table = Table()
    assert not table.set("a", [0, 0, 0])
    table.set("a", [1, 0, 0])
    assert table.set("a", [0, 0, 0]) and table.entries == {} and table.digest == "0" * 16
    for entry in ([0, 0, 1], [0, 1, 0]):
        assert table.set("a", entry) and table.entries == {"a": entry}
    table.clear()
    assert table.entries == {} and table.digest == "0" * 16


def test_an_entry_is_a_copy() -> None:
    table, entry = Table(), [1, 1, 1]
    table.set("a", entry)
    entry[0] = 5
    assert table.entries == {"a": [1, 1, 1]}


def test_parts_are_as_large_as_they_may_be_and_no_larger(monkeypatch) -> None:
    assert (service_table.PART_BYTES, service_table.ENTRY_BYTES) == (16_384, 48)
    assert list(parts([])) == [{}]
    entries = [(name, [1, 1, 1]) for name in ("aa", "bb", "\u00e9", "dd", "ee")]  # 2 bytes each, 52 with the counts
    monkeypatch.setattr(service_table, "PART_BYTES", 104)
    assert [list(piece) for piece in parts(entries)] == [["aa", "bb"], ["\u00e9", "dd"], ["ee"]]
    monkeypatch.setattr(service_table, "PART_BYTES", 103)
    assert [list(piece) for piece in parts(entries)] == [["aa"], ["bb"], ["\u00e9"], ["dd"], ["ee"]]
    monkeypatch.setattr(service_table, "PART_BYTES", 1)
    assert [list(piece) for piece in parts(entries[:1])] == [["aa"]]
