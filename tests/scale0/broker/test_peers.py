"""Tests the directory of peer brokers, rule by rule: which of them serves, which is asked first, and
what clients hear.
"""

from __future__ import annotations

from typing import Any

import pytest
from scale0_stage import broker_config, member

from scale0.broker.context import Context
from scale0.broker.peers import MAX_PATH, Peers
from scale0.broker.requests.queues import PendingRequest
from scale0.broker.requests.worker_pool import Worker
from scale0.broker.session import Session
from scale0.config.schema import BrokerConfig, GroupConfig
from scale0.wire import options as opt
from scale0.wire.frames import S0
from scale0.wire.options import Fault
from scale0.wire.zap import NO_ORIGIN

EAST = GroupConfig("east", (member("b1", frontend="tcp://1"), member("b2", frontend="tcp://2"), member("b3")))
WEST = GroupConfig("west", (member("w1", backend="tcp://w"), member("w2")))


def peers_of(config: BrokerConfig | None = None) -> Peers:
    config = config or broker_config(group="east", fallback_groups=("west",), group_config=(EAST, WEST))
    context = Context(config, 7, None, lambda: b"t", None)  # type: ignore[arg-type]
    context.state = "active"
    return Peers(context)


def join(peers: Peers, identity: str, state: str = "active", **table: list[int]) -> Session:
    """Open a channel to a peer with this table, and return its session."""
    session = Session(("peer", identity.encode()), NO_ORIGIN, S0, "peer", identity, 1.0, 0.0, since=0.0)
    session.worker = Worker(session.address, S0, concurrency=9, peer=identity)
    peers.add(session)
    peers.all[identity].state = state
    for service, entry in table.items():
        peers.all[identity].table.set(service, entry)
    return session


def request(service: str = "tea", path: tuple[str, ...] = ()) -> PendingRequest:
    return PendingRequest(b"r", ("frontend", b"c"), S0, service, "1", (), 4, True, None, path)


def asked_first(peers: Peers, wanted: PendingRequest | None = None) -> str | None:
    channel = peers.channel_for(wanted or request())
    return channel.peer if channel else None


@pytest.mark.parametrize(
    "state, entry, serves, is_idle",
    [("active", [1, 1, 0], True, True), ("active", [1, 0, 0], True, False), ("active", [0, 0, 4], False, False),
     ("disabled", [1, 1, 0], False, False)],
)  # fmt: skip
def test_who_serves_and_who_is_idle(state: str, entry: list[int], serves: bool, is_idle: bool) -> None:
    peers = peers_of()
    join(peers, "b2", state, tea=entry)
    assert (peers.serve("tea"), peers.any_idle("tea"), peers.serve("milk"), peers.any_idle("milk")) == (
        serves, is_idle, False, False,
    )  # fmt: skip
    assert asked_first(peers) == ("b2" if is_idle else None)


def test_the_own_group_is_asked_before_fallbacks_and_the_most_idle_before_others() -> None:
    peers = peers_of()
    join(peers, "w1", tea=[9, 9, 0])
    assert asked_first(peers) == "w1"
    join(peers, "b2", tea=[3, 1, 0])
    assert asked_first(peers) == "b2"
    full = join(peers, "b3", tea=[3, 2, 0])
    assert asked_first(peers) == "b3"
    for number in range(9):
        full.worker.inflight[b"%d" % number] = 0.0
    assert asked_first(peers) == "b2"
    assert asked_first(peers, request(path=("b2", "b3"))) == "w1"
    barred = request()
    barred.refused_by.add("b2")
    assert asked_first(peers, barred) == "w1"


@pytest.mark.parametrize("length, passes", [(MAX_PATH - 1, True), (MAX_PATH, False)])
def test_a_request_passes_three_brokers_at_most(length: int, passes: bool) -> None:
    peers = peers_of()
    join(peers, "b2", tea=[1, 1, 0])
    path = tuple(f"x{number}" for number in range(length))
    assert (asked_first(peers, request(path=path)) is not None) is passes


@pytest.mark.parametrize(
    "group, groups, peer, is_asked",
    [("", (), "any", True), ("", (WEST,), "w1", False), ("", (WEST,), "other", True), ("east", (EAST,), "b2", True),
     ("east", (EAST,), "other", False), ("east", (EAST, WEST), "w1", False)],
)  # fmt: skip
def test_which_peers_are_of_the_network(group: str, groups: Any, peer: str, is_asked: bool) -> None:
    """A peer without a group is of the own one, unless the configuration puts it into another."""
    peers = peers_of(broker_config(group=group, group_config=groups))
    join(peers, peer, tea=[1, 1, 0])
    assert (asked_first(peers) is not None, peers.serve("tea")) == (is_asked, is_asked)


def test_the_guess_stays_within_the_workers_that_there_are() -> None:
    peers = peers_of()
    channel = join(peers, "b2", tea=[2, 1, 0]).worker
    peer = peers.all["b2"]
    found = []
    for change in (-1, -1, 1, 1, 1, 1):
        peers.used(channel, "tea", change)
        found.append(peer.idle("tea"))
    assert found == [0, 0, 1, 2, 2, 2]
    peers.used(channel, "unknown", 1)
    assert peer.guess == {"tea": 2}
    peers.used(Worker(("peer", b"x"), S0, peer="gone"), "tea", 1)
    assert peer.guess == {"tea": 2}


def test_a_peer_is_there_as_long_as_it_has_a_channel() -> None:
    peers = peers_of()
    one = join(peers, "b2", tea=[1, 1, 0])
    two = Session(("tcp://2", b""), NO_ORIGIN, S0, "peer", "b2", 1.0, 0.0, since=0.0)
    peers.links.add(two.address)
    peers.add(two)
    assert peers.main_channels() == [two]
    peers.remove(two)
    assert peers.main_channels() == [one] and ("check", two.address) in peers._c.timers
    peers.remove(one)
    assert peers.all == {} and ("check", one.address) not in peers._c.timers
    peers.remove(one)


# ------------------------------------------------------------------------------- what a client is told


def find(peers: Peers, **options: Any) -> str | int:
    try:
        return peers.find_broker(opt.NeedBroker(**options))["identity"]
    except Fault as fault:
        return fault.code


@pytest.mark.parametrize(
    "options, state, found",
    [({"services": ["tea"]}, "active", "b1"), ({"services": ["tea"]}, "disabled", "b2"),
     ({"failed": ["b1"]}, "active", "b2"), ({"failed": ["b1", "b2"]}, "active", "w1"),
     ({"failed": ["b1", "b2", "w1"]}, "active", 503)],
)  # fmt: skip
def test_this_broker_comes_first_then_its_group_then_fallbacks(options: Any, state: str, found: str | int) -> None:
    """b3 and w2 have no endpoint that is known, so that nobody is sent there."""
    peers = peers_of()
    peers._c.state = state
    for name in ("b2", "b3", "w1", "w2"):
        join(peers, name)
    assert find(peers, **options) == found


def test_a_peer_that_is_away_or_disabled_is_not_named() -> None:
    peers = peers_of()
    assert find(peers, failed=["b1"]) == 503
    join(peers, "b2", "disabled")
    assert find(peers, failed=["b1"]) == 503
    peers.all["b2"].state = "active"
    assert find(peers, failed=["b1"]) == "b2"


def test_this_broker_comes_first_wherever_its_group_lists_it() -> None:
    group = GroupConfig("east", (member("b2", frontend="tcp://2"), member("b1", frontend="tcp://1")))
    peers = peers_of(broker_config(group="east", group_config=(group,)))
    join(peers, "b2")
    assert find(peers) == "b1"


@pytest.mark.parametrize("services, wanted, found", [(("tea",), "tea", "b1"), (("tea",), "milk", 503)])
def test_a_broker_that_no_group_describes_is_known_by_its_own_services(services: Any, wanted: str, found: Any) -> None:
    assert find(peers_of(broker_config(services=services)), services=[wanted]) == found


def test_a_description_in_another_group_counts_for_this_broker_too() -> None:
    other = GroupConfig("north", (member("b1", frontend="tcp://far"),))
    peers = peers_of(broker_config(services=("tea",), group_config=(other,)))
    assert find(peers, services=["milk"]) == "b1"


def test_a_broker_that_its_group_does_not_list_still_comes_first() -> None:
    peers = peers_of(broker_config(group="east", group_config=(GroupConfig("east", EAST.brokers[1:]),)))
    join(peers, "b2")
    assert find(peers) == "b1"


def test_a_client_is_told_the_endpoints_that_are_bound_where_none_are_described() -> None:
    peers = peers_of()
    peers._c.endpoints.frontend, peers._c.endpoints.backend = "tcp://bound:1", "tcp://bound:2"
    peers._c.endpoints.public_key = "p" * 40
    join(peers, "b2")
    peers.all["b2"].version = 9
    own = {"identity": "b1", "config_version": "7", "frontend": "tcp://1", "backend": "tcp://bound:2"}
    assert peers.find_broker(opt.NeedBroker()) == own | {"public_key": "p" * 40}
    other = {"identity": "b2", "config_version": "9", "frontend": "tcp://2", "backend": "", "public_key": ""}
    assert peers.find_broker(opt.NeedBroker(failed=["b1"])) == other
