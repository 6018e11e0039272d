"""Tests two brokers under one fake clock, joined by a connection that breaks: every request still ends exactly once."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from scale0_stage import BEAT, Address, Stage, broker_config, member

from scale0.broker.context import PEER
from scale0.broker.requests.queues import QUEUE_EXPIRY
from scale0.config.schema import GroupConfig
from scale0.wire.zap import NO_ORIGIN, Origin

LINK: Address = ("tcp://b", b"")  # what a calls b
SERVICES = ("tea", "coffee")


class Pair:
    """Joins the brokers a and b; a dials b. Frames cross the connection in order, one at a time, so that anything may
    happen in between.
    """

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        group = (GroupConfig("east", (member("a"), member("b"))),)
        self.a, self.b = (Stage(broker_config(identity=i, group="east", group_config=group)) for i in "ab")
        self.calls = 0
        self.up = False
        self.asked: dict[tuple[str, Address, str], None] = {}
        self.answers: Counter[tuple[str, Address, str]] = Counter()
        self.jobs: list[tuple[Stage, Address, str]] = []
        self.connect()

    @property
    def far_end(self) -> Address:
        """Return what b calls a on the present connection; each has a routing id of its own."""
        return (PEER, b"a%d" % self.calls)

    def connect(self) -> None:
        if not self.up:
            self.up, self.calls = True, self.calls + 1
            self.a.run(self.a.broker.link("tcp://b", True, self.a.now, self.a.wall))

    def cut(self) -> None:
        """Lose what was on its way: a is told by its monitor, b finds out by sending."""
        if self.up:
            self.up = False
            self.b.gone.add(self.far_end)
            self.a.take(LINK)
            self.b.take(self.far_end)
            self.a.run(self.a.broker.link("tcp://b", False, self.a.now, self.a.wall))

    def settle(self) -> None:
        """Deliver until nothing is on its way."""
        while self.up and (self.a.sent[LINK] or self.b.sent[self.far_end]):
            if self.a.sent[LINK]:
                self.b.hear(self.far_end, *self.a.sent[LINK].pop(0), origin=Origin("127.0.0.1", ""))
            if self.b.sent[self.far_end]:
                frames = self.b.sent[self.far_end].pop(0)
                self.a.run(self.a.broker.received(LINK, frames, NO_ORIGIN, self.a.now, self.a.wall))
        for name, stage in (("a", self.a), ("b", self.b)):
            for address in list(stage.sent):
                if address[0] == "backend":
                    self.jobs += [(stage, address, job) for job, _ in stage.jobs(address)]
                elif address[0] == "frontend":
                    self.answers.update((name, address, number) for number, _, _ in stage.finals(address))

    def wait(self, seconds: float, beats: bool) -> None:
        for _ in range(round(seconds / 0.25)):
            for stage in (self.a, self.b):
                if beats:
                    stage.beat_all(*[s for s in stage.broker.sessions.all if s[0] in ("frontend", "backend")])
                stage.wait(0.25, step=0.25)
            self.settle()

    def step(self, number: int) -> None:
        dice, stage = self.dice, self.dice.choice([self.a, self.b])
        match dice.choices(["ask", "work", "answer", "die", "link", "wait"], [5, 5, 9, 2, 1, 5])[0]:
            case "ask":
                address = ("frontend", dice.choice([b"one", b"two"]))
                self.asked[("a" if stage is self.a else "b", address, str(number))] = None
                idempotent = dice.random() < 0.8
                stage.ask(address, dice.choice(SERVICES), b"?", id=str(number), idempotent=idempotent)
            case "work":
                address = ("backend", b"w%d" % dice.randrange(2))
                stage.gone.discard(address)
                chosen = dice.sample(SERVICES, dice.randrange(3))
                claim = {"identity": address[1].decode(), "services": chosen, "config_type": "JSON"}
                stage.scale0(address, "CHECKCONFIG", **claim)
                stage.ready(address, *chosen, concurrency=dice.randrange(1, 4))
            case "answer" if self.jobs:
                holder, address, job = self.jobs.pop(dice.randrange(len(self.jobs)))
                holder.scale0(address, dice.choice(["FINAL", "FINAL", "PARTIAL"]), b"!", id=job)
            case "die":
                stage.gone.add(("backend", b"w%d" % dice.randrange(2)))
            case "link":
                self.cut()
                self.connect() if dice.random() < 0.8 else None
            case "wait":
                self.wait(dice.choice([0.25, 0.25, 1.0, 4 * BEAT]), beats=dice.random() < 0.8)
        if dice.random() < 0.7:
            self.settle()


@pytest.mark.parametrize("seed", range(12))
def test_each_request_ends_once_over_two_brokers_and_a_breaking_link(seed):
    pair = Pair(seed)
    forwarded = set()
    for number in range(300):
        pair.step(number)
        for stage in (pair.a, pair.b):
            stage.check()
            forwarded |= {request.token for request in stage.broker.routing.requests.values() if request.forwarded}
    assert forwarded, "nothing ever went to the other broker"
    pair.connect()
    pair.wait(8 * BEAT, beats=True)
    for stage in (pair.a, pair.b):  # all workers die at last, and what they held is tried, expires, ends
        stage.gone |= {address for address in stage.broker.sessions.all if address[0] == "backend"}
    pair.wait(2 * QUEUE_EXPIRY, beats=False)
    assert {key: pair.answers[key] for key in pair.asked if pair.answers[key] != 1} == {}
    assert set(pair.answers) == set(pair.asked)
    for stage in (pair.a, pair.b):
        stage.check()
        assert not stage.broker.routing.requests and not stage.broker.routing.table.orphans
    assert pair.a.broker.peers.all["b"].table.digest == pair.b.broker.peers.own.digest
    assert pair.b.broker.peers.all["a"].table.digest == pair.a.broker.peers.own.digest
