"""Tests names of clients and nodes: what a key may be called."""

from __future__ import annotations

import pytest

from zerotask import errors
from zerotask.errors import RpcError
from zerotask.tasks import connections
from zerotask.tasks.connections import CLIENTS, LEASE, NODES, Caller, Leases, Names


@pytest.mark.adversary(62)
@pytest.mark.parametrize(
    ("name", "bound", "may"),
    [
        ("n1", "n1", True), ("n1:2", "n1", True), ("n1.push", "n1", True), ("helen.n1", "n1", True),
        ("helen.n1.push", "n1", True), ("0123456789abcdef" * 2, "n1", True), ("boss", "n1", False),
        ("n10", "n1", False), ("helen.n10", "n1", False), ("helen", "n1", False), ("n1", "N1", False),
        ("boss", None, True),
    ],
)  # fmt: skip
def test_a_key_may_use_its_own_names(name: str, bound: str | None, may: bool) -> None:
    """A name that is the key's own is granted to clients and to nodes; any other one is refused as
    UNAUTHORISED (F68).
    """
    caller = Caller("line", "K", bound=bound)
    for codes in (CLIENTS, NODES):
        if may:
            assert Names(codes).check(name, caller, 0.0) == (name, None)
            continue
        with pytest.raises(RpcError) as refused:
            Names(codes).check(name, caller, 0.0)
        assert refused.value.code == errors.UNAUTHORISED


# ------------------------------------------------------------------------------- who holds which name


ONE, TWO = Caller("line1", "K1"), Caller("line2", "K2")


def error_of(call, *given) -> tuple[int, str]:
    with pytest.raises(RpcError) as refused:
        call(*given)
    return refused.value.code, refused.value.message


@pytest.mark.parametrize("name", ["", "x" * 129, "a b", "\u00e9", 5])
def test_what_is_no_name(name) -> None:
    for codes in (CLIENTS, NODES):
        code, message = error_of(Names(codes).check, name, ONE, 0.0)
        assert code == codes.invalid and message == f"a {codes.kind} id is 1 to 128 characters of A-Za-z0-9._:-"
    assert Names(NODES).check("x" * 128, ONE, 0.0) == ("x" * 128, None)


def test_who_asks_for_no_name_gets_a_new_one() -> None:
    names = {Names(CLIENTS).check(None, ONE, 0.0)[0] for _ in range(3)}
    assert len(names) == 3 and all(connections.RANDOM.fullmatch(name) for name in names)


def test_a_task_id_begins_with_its_time() -> None:
    first, second = connections.new_task_id(1_700_000_000.5), connections.new_task_id(1_700_000_000.5)
    assert first[:12] == second[:12] == f"{1_700_000_000_500:012x}" and first != second and len(first) == 32


def test_a_name_is_held_by_its_connection_its_key_or_nobody_after_a_lease() -> None:
    names = Names(NODES)
    holder = names.grant("n", ONE, 10.0, lease=4)
    assert (holder.name, holder.connection, holder.key, holder.last_call, holder.lease, holder.wants_results) == (
        "n", "line1", "K1", 10.0, 4, False,
    )  # fmt: skip
    assert len(names) == 1 and list(names) == [holder] and names.get("n") is holder and names.get("x") is None
    assert names.check("n", ONE, 10.0) == ("n", holder) == names.check("n", Caller("other", "K1"), 10.0)
    for caller in (TWO, Caller("line3"), Caller("line3", "")):
        text = f"node id n is in use; wait {LEASE:g} s or choose another"
        assert error_of(names.check, "n", caller, 10.0 + LEASE - 0.01) == (errors.NODE_TAKEN, text)
        assert names.check("n", caller, 10.0 + LEASE) == ("n", holder)


def test_a_call_counts_as_a_beat() -> None:
    names = Names(CLIENTS)
    first, second = names.grant("a", ONE, 0.0), names.grant("b", TWO, 1.0)
    assert names.silent(LEASE - 0.01) == [] and names.silent(LEASE) == [first]
    assert names.require("a", ONE, 5.0) is first and first.last_call == 5.0
    assert names.silent(LEASE + 1.0) == [second] and names.silent(LEASE + 5.0) == [second, first]
    assert names.of_caller(TWO, 9.0) is second and second.last_call == 9.0
    assert names.of_caller(Caller("new line", "K1"), 9.5) is first
    for name in ("c", 5, None):
        assert error_of(names.require, name, ONE, 0.0) == (errors.CLIENT_UNKNOWN, f"no client {name}; connect first")
    text = "client id a belongs to another connection; connect under an id of your own"
    assert error_of(names.require, "a", TWO, 0.0) == (errors.UNAUTHORISED, text)
    assert error_of(names.of_caller, Caller("x"), 0.0)[1] == "no client on this connection; connect first"
    assert "give client_id by name" in error_of(names.of_caller, Caller("line1", "K1", shared=True), 0.0)[1]


def test_a_connection_without_a_key_is_no_other_without_one() -> None:
    names = Names(CLIENTS)
    names.grant("a", Caller("x"), 0.0)
    assert error_of(names.require, "a", Caller("y"), 0.0)[0] == errors.UNAUTHORISED
    assert error_of(names.of_caller, Caller("y"), 0.0)[0] == errors.CLIENT_UNKNOWN


def test_the_newest_name_of_a_connection_is_found() -> None:
    names = Names(CLIENTS)
    first = names.grant("a", ONE, 0.0)
    second = names.grant("b", ONE, 0.0)
    assert names.on_connection("line1") is second and names.on_connection("none") is None
    assert names.remove("a") is first and names.on_connection("line1") is second
    assert names.of_caller(Caller("other", "K1"), 0.0) is second
    assert names.remove("b") is second and names.remove("b") is None and names.on_connection("line1") is None
    assert error_of(names.of_caller, Caller("other", "K1"), 0.0)[0] == errors.CLIENT_UNKNOWN and len(names) == 0


def test_a_name_that_is_granted_again_leaves_its_former_connection() -> None:
    """The newly granted name is on its new connection alone, and is the last one to be silent."""
    names = Names(NODES)
    names.grant("a", ONE, 0.0)
    other = names.grant("b", TWO, 1.0)
    again = names.grant("a", Caller("line9", "K1"), 2.0, lease=5)
    assert names.on_connection("line1") is None and names.on_connection("line9") is again is names.get("a")
    assert (again.lease, list(names), len(names)) == (5, [other, again], 2)
    assert names.silent(LEASE + 1.0) == [other]


def test_who_comes_to_many_names_takes_the_place_of_the_most_silent(monkeypatch) -> None:
    monkeypatch.setattr(connections, "MOST_NAMES", 2)
    names = Names(NODES)
    for name, now in (("a", 0.0), ("b", 1.0)):
        names.grant(name, Caller(name), now)
    assert error_of(names.grant, "c", TWO, LEASE - 0.01) == (errors.OVERLOADED, "more than 2 nodes; try again later")
    names.grant("b", Caller("b"), LEASE - 0.01)
    names.grant("c", TWO, LEASE)
    assert [holder.name for holder in names] == ["b", "c"]


def test_leases_rise_and_orphans_lapse() -> None:
    leases = Leases(7)
    assert [leases.new() for _ in range(3)] == [7, 8, 9]
    leases.orphan(7, "a", 10.0)
    leases.orphan(8, "b", 11.0)
    leases.orphan(9, "a", 12.0)
    assert leases.orphans_of("a") == [7, 9] and leases.orphans_of("c") == []
    assert leases.lapsed(10.0 + LEASE - 0.01) == [] and leases.lapsed(11.0 + LEASE) == [(7, "a"), (8, "b")]
    assert leases.lapsed(11.0 + LEASE) == [] and leases.orphans_of("a") == [9]


def test_what_a_caller_may_do_is_said_by_its_roles() -> None:
    operator, shared = Caller("x", operator=True), Caller("x", shared=True)
    keyed = Caller("x", "K", roles=("read",), key_name="n")
    assert (shared.authority.entry, operator.authority.entry) == ("Scale0", "ZeroTask")
    assert (
        keyed.authority.actor == "the key of n" and shared.authority.actor == "a client without a key that has a role"
    )
