"""Tests the order of workers: least recently used first, none beyond its credit, and heaps that stay small."""

from __future__ import annotations

import random

from scale0.broker.requests import worker_pool
from scale0.broker.requests.worker_pool import Worker, WorkerPool


def worker(name: str, concurrency: int = 1) -> Worker:
    return Worker(("backend", name.encode()), concurrency=concurrency)


def pool_of(*workers: Worker, services: tuple[str, ...] = ("tea",)) -> WorkerPool:
    pool = WorkerPool()
    for each in workers:
        pool.offer(each, services)
        pool.freed(each)
    return pool


def given(pool: WorkerPool, service: str = "tea") -> str:
    """Return the name of the worker that gets the next request."""
    found = pool.next(service)
    return found.address[1].decode() if found else ""


def test_a_new_worker_takes_one_request_and_beats_while_busy() -> None:
    fresh = worker("a")
    assert (fresh.concurrency, fresh.beats_while_busy, fresh.credit, fresh.free, fresh.turn) == (1, True, 1, True, 0)
    assert (fresh.peer, fresh.alive, fresh.slow) == ("", True, False)


def test_credit_is_what_is_left_and_never_less_than_none() -> None:
    a = worker("a", 2)
    pool = pool_of(a)
    for number, left in ((b"1", 1), (b"2", 0)):
        pool.take(a, number, 9.0)
        assert (a.credit, a.free) == (left, left > 0)
    a.concurrency = 1
    assert (a.credit, a.free, a.inflight) == (0, False, {b"1": 9.0, b"2": 9.0})
    assert pool.release(a, b"1") and not a.free
    assert pool.release(a, b"2") and a.free and a.credit == 1
    assert not pool.release(a, b"2")


def test_the_least_recently_used_is_next() -> None:
    a, b, c = worker("a"), worker("b"), worker("c")
    pool = pool_of(a, b, c)
    assert given(pool) == "a"
    pool.take(a, b"1", 1.0)
    assert given(pool) == "b"
    pool.take(b, b"2", 1.0)
    pool.release(b, b"2")
    pool.release(a, b"1")
    order = []
    for number in range(3):
        found = pool.next("tea")
        assert found is not None
        order.append(found.address[1].decode())
        pool.take(found, b"%d" % number, 1.0)
    assert order == ["c", "b", "a"] and given(pool) == "" and given(pool, "unknown") == ""


def test_a_worker_with_credit_keeps_its_place() -> None:
    pool = pool_of(worker("a", 2), worker("b"))
    first = pool.next("tea")
    assert first is not None
    pool.take(first, b"1", 1.0)
    assert given(pool) == "a"


def test_counts_and_services_tell_what_is_offered() -> None:
    a, b = worker("a"), worker("b")
    pool = pool_of(a, b)
    pool.offer(b, ["milk"])
    assert pool.counts("tea") == (2, 2) and pool.counts("milk") == (1, 1) and pool.counts("none") == (0, 0)
    pool.take(a, b"1", 1.0)
    assert pool.counts("tea") == (2, 1)
    assert set(pool.services()) == {"tea", "milk"} and set(pool.workers("tea")) == {a, b}
    assert list(pool.workers("none")) == [] and "milk" in pool and "none" not in pool


def test_a_withdrawn_service_leaves_nothing() -> None:
    a, b = worker("a"), worker("b")
    pool = pool_of(a, b, services=("tea", "milk"))
    a.epochs["tea"], a.seals["tea"] = 5, "seal"
    a.parked.add("tea")
    pool.changed.clear()
    pool.withdraw(a, ["unknown", "tea"])
    assert pool.changed == {"tea"} and set(a.services) == {"milk"}
    assert (a.epochs, a.seals, a.parked) == ({}, {}, set())
    assert given(pool) == "b" and set(pool.workers("tea")) == {b} and given(pool, "milk") == "a"
    pool.remove(b)
    assert "tea" not in pool and not b.alive and "tea" not in pool._heaps and given(pool) == ""
    assert given(pool, "milk") == "a"


def test_ready_replaces_all_services_and_keeps_the_place_of_those_that_stay() -> None:
    a, b = worker("a"), worker("b")
    pool = pool_of(a, b, services=("tea", "milk"))
    offer = a.services["tea"]
    pool.replace(a, ["tea", "cocoa"])
    assert set(a.services) == {"tea", "cocoa"} and a.services["tea"] == offer
    assert given(pool) == "a" and given(pool, "milk") == "b" and given(pool, "cocoa") == "a"


def test_an_offer_taken_back_and_made_again_counts_once() -> None:
    a = worker("a")
    pool = pool_of(a)
    pool.withdraw(a, ["tea"])
    pool.offer(a, ["tea"])
    pool.take(a, b"1", 1.0)
    assert given(pool) == ""
    pool.release(a, b"1")
    assert given(pool) == "a" and pool.counts("tea") == (1, 1)


def test_a_worker_that_does_not_read_is_passed_over_until_it_does() -> None:
    a, b = worker("a"), worker("b")
    pool = pool_of(a, b)
    pool.changed.clear()
    pool.set_slow(a, True)
    assert given(pool) == "b" and a.credit == 1 and not a.free and pool.changed == {"tea"}
    pool.take(b, b"1", 1.0)
    assert given(pool) == "" and a.parked == {"tea"}
    pool.changed.clear()
    pool.set_slow(a, False)
    assert given(pool) == "a" and a.parked == set() and pool.changed == {"tea"}


def test_only_a_change_between_free_and_busy_is_news() -> None:
    a = worker("a", 2)
    pool = pool_of(a)
    for step, news in (("take 1", set()), ("take 2", {"tea"}), ("release 2", {"tea"}), ("release 1", set())):
        pool.changed.clear()
        what, _, token = step.partition(" ")
        pool.take(a, token.encode(), 1.0) if what == "take" else pool.release(a, token.encode())
        assert pool.changed == news, step
    pool.freed(a)
    assert pool.changed == {"tea"}


def test_a_heap_without_requests_is_cleared_of_old_offers() -> None:
    """A heap keeps two entries for each worker and SLACK more; with one beyond that it is built anew."""
    assert worker_pool.SLACK == 16
    keeper, other = worker("keeper"), worker("other")
    pool = pool_of(keeper)
    for number in range(17):
        pool.offer(other, ["tea"])
        pool.withdraw(other, ["tea"])
        assert len(pool._heaps["tea"]) == number + 2
    pool.offer(other, ["tea"])
    pool.withdraw(other, ["tea"])
    assert len(pool._heaps["tea"]) == 1 and given(pool) == "keeper"


def test_the_order_agrees_with_a_plain_list() -> None:
    """The pool chooses the free worker with the least turn, as a plain list does, under random events."""
    dice, pool = random.Random(9), WorkerPool()
    workers = [worker(str(number), 1 + number % 3) for number in range(6)]
    for step in range(3000):
        each, service, chance = dice.choice(workers), dice.choice("xyz"), dice.random()
        if chance < 0.15:
            pool.offer(each, [service])
            pool.freed(each)
        elif chance < 0.25:
            pool.withdraw(each, [service])
        elif chance < 0.35:
            pool.set_slow(each, not each.slow)
        elif chance < 0.7 and (found := pool.next(service)) is not None:
            pool.take(found, b"%d" % step, 1.0)
        elif each.inflight:
            assert pool.release(each, dice.choice(list(each.inflight)))
        able = [w for w in workers if service in w.services and not w.slow and len(w.inflight) < w.concurrency]
        found = pool.next(service)
        assert (found is None) == (not able)
        assert found is None or found.turn == min(w.turn for w in able)
        assert pool.counts(service) == (sum(service in w.services for w in workers), len(able))
