"""Tests waiting requests: their order, the limits over all of them, and the counts that must come out even."""

from __future__ import annotations

import random

import pytest

from scale0.broker.requests import queues
from scale0.broker.requests.queues import PendingRequest, Queues, RequestState, ServiceQueue
from scale0.wire.frames import S0


def request(name: str, client: str = "c", priority: int = 4, service: str = "tea", size: int = 0) -> PendingRequest:
    found = PendingRequest(name.encode(), ("frontend", client.encode()), S0, service, name, [], priority, True, None)
    found.size = size
    return found


def names(queue: ServiceQueue) -> list[str]:
    return [each.correlation for each in queue]


def served(queue: ServiceQueue) -> list[str]:
    """Return the order in which workers get the requests."""
    found = []
    while (head := queue.head()) is not None:
        queue.remove(head, served=True)
        found.append(head.correlation)
    assert len(queue) == 0 and not queue._levels
    return found


def test_the_limits_are_those_of_the_documentation() -> None:
    assert (queues.PER_CLIENT, queues.PER_SERVICE, queues.QUEUED_BYTES) == (1_000, 100_000, 268_435_456)
    assert (queues.QUEUE_EXPIRY, queues.ATTEMPTS) == (60.0, 3)
    assert (queues.HELD_PARTS, queues.HELD_BYTES) == (1_000, 1_048_576)


def test_retried_first_then_by_priority_then_each_client_in_turn() -> None:
    queue = ServiceQueue()
    for name, client, priority in (
        ("a1", "a", 4), ("a2", "a", 4), ("a3", "a", 4), ("b1", "b", 4), ("b2", "b", 4), ("c1", "c", 9), ("d1", "d", 0),
    ):  # fmt: skip
        queue.append(request(name, client, priority))
    queue.push_front(request("r1", "d"))
    queue.push_front(request("r2", "a", 9))
    wanted = ["r1", "r2", "c1", "a1", "b1", "a2", "b2", "a3", "d1"]
    assert len(queue) == 9 and names(queue) == wanted and served(queue) == wanted


def test_a_withdrawn_request_does_not_cost_its_client_the_turn() -> None:
    queue = ServiceQueue()
    held = {name: request(name, name[0]) for name in ("a1", "a2", "b1", "b2")}
    for each in held.values():
        queue.append(each)
    queue.remove(held["a1"])
    assert names(queue) == ["a2", "b1", "b2"] and len(queue) == 3
    retried = request("r")
    queue.push_front(retried)
    queue.remove(retried)
    assert len(queue) == 3 and served(queue) == ["a2", "b1", "b2"]


def test_the_order_told_is_the_order_served_whatever_is_queued() -> None:
    dice = random.Random(3)
    for _ in range(50):
        queue = ServiceQueue()
        for number in range(dice.randrange(1, 30)):
            each = request(str(number), dice.choice("abc"), dice.randrange(10))
            (queue.push_front if dice.random() < 0.2 else queue.append)(each)
        told = names(queue)
        assert len(told) == len(queue) and served(queue) == told


def test_bytes_clients_and_changes_come_out_even() -> None:
    held = Queues()
    first, second, third = request("1", size=5), request("2", size=7), request("3", "d", service="milk", size=1)
    for each in (first, second, third):
        each.state, each.worker = RequestState.RUNNING, object()  # type: ignore[assignment]
        held.add(each)
        assert (each.state, each.worker) == (RequestState.QUEUED, None)
    assert (held.bytes, held.total(), len(held), list(held)) == (13, 3, 2, ["tea", "milk"])
    assert (held.length("tea"), held.length("milk"), held.length("none")) == (2, 1, 0)
    assert held.changed == {"tea", "milk"} and held["none"] is None
    held.to_end("tea")
    held.to_end("none")
    assert list(held) == ["milk", "tea"]
    held.changed.clear()
    held.remove(first, served=True)
    assert (held.bytes, held.total(), held.changed, held._of_client) == (
        8, 2, {"tea"}, {first.client: 1, third.client: 1},
    )  # fmt: skip
    held.add(first, front=True)
    head = held["tea"]
    assert head is not None and head.head() is first
    for each in (first, second, third):
        held.remove(each)
    assert (held.bytes, held.total(), len(held), held._of_client) == (0, 0, 0, {})


@pytest.mark.parametrize(
    "limit, value, filled, why",
    [
        ("PER_CLIENT", 2, [("1", "c", "tea"), ("2", "c", "milk")], "2 requests of this client are waiting already"),
        ("PER_SERVICE", 2, [("1", "x", "tea"), ("2", "y", "tea")], "2 requests for tea are waiting already"),
        ("QUEUED_BYTES", 29, [("1", "x", "milk"), ("2", "y", "milk")],
         "the broker holds as many waiting requests as it has memory for"),
    ],
)  # fmt: skip
def test_each_limit_takes_exactly_what_it_says(monkeypatch, limit, value, filled, why) -> None:
    held, new = Queues(), request("new", size=10)
    for name, client, service in filled:
        held.add(request(name, client, service=service, size=10))
    monkeypatch.setattr(queues, limit, value + 1)
    assert held.full(new) is None
    monkeypatch.setattr(queues, limit, value)
    assert held.full(new) == why


def test_parts_are_held_up_to_a_number_and_a_size(monkeypatch) -> None:
    held = request("1")
    monkeypatch.setattr(queues, "HELD_PARTS", 3)
    monkeypatch.setattr(queues, "HELD_BYTES", 10)
    assert held.hold([b"abc", b"d"]) and held.hold([b"efgh"]) and held.hold([b"ij"])
    assert held.parts == [b"abc", b"d", b"efgh", b"ij"]
    assert (held.parts_count, held.parts_bytes) == (3, 10)
    assert not held.hold([])
    small = request("2")
    assert small.hold([b"0123456789"]) and not small.hold([b"x"])
    assert small.parts == [b"0123456789"]


def test_a_request_that_came_by_a_broker_is_forwarded() -> None:
    own, passed = request("1"), request("2")
    passed.path = ("b2",)
    assert (own.forwarded, passed.forwarded) == (False, True)
    fresh = (own.attempt, own.waiting_since, own.passed_partial, own.parts_count, own.parts_bytes, request("3").size)
    assert fresh == (0, 0.0, False, 0, 0, 0)
