"""Tests the broker's state machine under random events and frames: its invariants hold, nothing raises or grows."""

from __future__ import annotations

import os
import random
from collections import Counter

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from scale0_stage import BEAT, Address, Stage, broker_config, random_frames

from scale0.broker.requests.queues import QUEUE_EXPIRY
from scale0.documents.collection import MOST, MOST_TOTAL
from scale0.wire.zap import Origin

RANDOM_MESSAGES = int(os.environ.get("SCALE0_RANDOM_MESSAGES", "5000"))  # by hand: 100,000
NAMES = [b"one", b"two", b"three"]
SERVICES = ["tea", "coffee"]


class Network(RuleBasedStateMachine):
    """Clients ask, workers come, answer, fall silent, leave and die, pipes fill up, time passes."""

    @initialize()
    def begin(self) -> None:
        self.stage = Stage()
        self.asked: set[tuple[Address, str]] = set()
        self.answered: Counter[tuple[Address, str]] = Counter()
        self.number = 0
        self.jobs: list[tuple[Address, str]] = []

    def collect(self) -> None:
        """Collect what peers were sent since the last step: requests to workers, answers to clients."""
        for address in list(self.stage.sent):
            if address[0] == "backend" and address[1].startswith(b"plain"):
                self.jobs += [(address, token.hex()) for token, _ in self.stage.plain_jobs(address)]
            elif address[0] == "backend":
                self.jobs += [(address, job) for job, _ in self.stage.jobs(address)]
            else:
                self.answered.update((address, number) for number, _, _ in self.stage.finals(address))

    @rule(name=st.sampled_from(NAMES), service=st.sampled_from(SERVICES), data=st.data())
    def ask(self, name: bytes, service: str, data: st.DataObject) -> None:
        address = ("frontend", name)
        self.number += 1
        options = {"id": str(self.number), "priority": data.draw(st.integers(0, 9))}
        options["idempotent"] = data.draw(st.booleans())
        if (timeout := data.draw(st.sampled_from([None, 300, 5000]))) is not None:
            options["timeout_ms"] = timeout
        self.asked.add((address, options["id"]))
        self.stage.ask(address, service, b"body", **options)
        self.collect()

    @rule(name=st.sampled_from(NAMES), services=st.sets(st.sampled_from(SERVICES)), concurrency=st.integers(1, 3))
    def worker_comes(self, name: bytes, services: set[str], concurrency: int) -> None:
        self.stage.gone.discard(("backend", name))
        address = ("backend", name)
        chosen = {"identity": name.decode(), "services": sorted(services), "config_type": "JSON"}
        self.stage.scale0(address, "CHECKCONFIG", **chosen)
        self.stage.ready(address, *sorted(services), concurrency=concurrency)
        self.collect()

    @rule(name=st.sampled_from(NAMES), service=st.sampled_from(SERVICES))
    def plain_worker_comes(self, name: bytes, service: str) -> None:
        address = ("backend", b"plain" + name)
        self.stage.gone.discard(address)
        self.stage.hear(address, b"MDPW02", b"\1", service.encode())
        self.collect()

    @rule(
        name=st.sampled_from(NAMES), add=st.sets(st.sampled_from(SERVICES)), remove=st.sets(st.sampled_from(SERVICES))
    )
    def services_change(self, name: bytes, add: set[str], remove: set[str]) -> None:
        self.stage.scale0(("backend", name), "SERVICES", add=sorted(add), remove=sorted(remove))
        self.collect()

    @precondition(lambda self: self.jobs)
    @rule(data=st.data(), final=st.booleans(), intruder=st.sampled_from([*NAMES, None]))
    def reply(self, data: st.DataObject, final: bool, intruder: bytes | None) -> None:
        """Answer any job that was ever handed out, also twice, late, or as somebody else."""
        address, job = data.draw(st.sampled_from(self.jobs))
        if intruder is not None and data.draw(st.integers(0, 9)) == 0:
            address = ("backend", intruder)
        if address[1].startswith(b"plain"):
            self.stage.hear(address, b"MDPW02", b"\4" if final else b"\3", bytes.fromhex(job), b"", b"x")
        else:
            self.stage.scale0(address, "FINAL" if final else "PARTIAL", b"x", id=job)
        self.collect()

    @rule(name=st.sampled_from(NAMES), plain=st.booleans(), clean=st.booleans())
    def worker_goes(self, name: bytes, plain: bool, clean: bool) -> None:
        address = ("backend", b"plain" + name if plain else name)
        if not clean:
            self.stage.gone.add(address)
        elif plain:
            self.stage.hear(address, b"MDPW02", b"\6")
        else:
            self.stage.scale0(address, "DISCONNECT")
        self.collect()

    @rule(name=st.sampled_from(NAMES), full=st.booleans())
    def pipe_fills(self, name: bytes, full: bool) -> None:
        (self.stage.full.add if full else self.stage.full.discard)(("backend", name))

    @rule(name=st.sampled_from(NAMES), about=st.integers(1, 20))
    def cancel(self, name: bytes, about: int) -> None:
        address = ("frontend", name)
        before = len(self.stage.broker.routing.requests)
        self.stage.scale0(address, "CANCEL", id=str(about))
        if len(self.stage.broker.routing.requests) < before:
            self.asked.discard((address, str(about)))  # it is the client's wish that nothing is said of it
        self.collect()

    @rule(seconds=st.sampled_from([0.05, 0.5, BEAT, 4 * BEAT]), beats=st.booleans())
    def time_passes(self, seconds: float, beats: bool) -> None:
        if beats:
            self.stage.beat_all(*[s for s in self.stage.broker.sessions.all if not s[1].startswith(b"plain")])
        self.stage.wait(seconds, step=0.25)
        self.collect()

    @invariant()
    def holds(self) -> None:
        if hasattr(self, "stage"):
            self.stage.check()
            assert all(count == 1 for count in self.answered.values()), "a request was answered twice"
            assert set(self.answered) <= self.asked | set(self.answered)

    def teardown(self) -> None:
        """Everything ends that is left alone: each accepted request in exactly one FINAL, and nothing is remembered."""
        if not hasattr(self, "stage"):
            return
        self.stage.wait(QUEUE_EXPIRY + 5, step=1.0)
        for address in list(self.stage.broker.sessions.all):
            self.stage.gone.add(address)
        self.stage.wait(QUEUE_EXPIRY + 10, step=1.0)
        self.collect()
        self.stage.check()
        assert {key for key in self.asked if self.answered[key] != 1} == set()
        assert not self.stage.broker.routing.requests and not self.stage.broker.routing.table.orphans
        assert not self.stage.broker.routing.queues.bytes


# Few examples in CI, each of many steps. Shrinking takes minutes here: add Phase.shrink when a failure is not plain.
TestNetwork = Network.TestCase
TestNetwork.settings = settings(
    max_examples=20,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
    database=None,
)


def sizes(stage: Stage) -> dict[str, int]:
    """Return the size of everything that could grow with what strangers send."""
    broker = stage.broker
    return {
        "sessions": len(broker.sessions.all),
        "requests": len(broker.routing.requests),
        "by_client": len(broker.routing.table.by_client),
        "orphans": len(broker.routing.table.orphans),
        "services": len(broker.routing.pool._heaps),
        "entries": sum(map(len, broker.routing.pool._heaps.values())),
        "peers": len(broker.peers.all),
        "timers": len(broker.context.timers),
        "pending": len(broker.management._pending),
        "claims": len(broker.negotiation._claims),
    }


@pytest.mark.parametrize("seed", range(2))
def test_random_messages_never_raise_or_grow_memory(seed):
    """Messages on all ports from many connections raise nothing; afterwards the broker has forgotten
    all, and serves.
    """
    dice, stage = random.Random(seed), Stage(broker_config(state="active"))
    for number in range(RANDOM_MESSAGES):
        address = (dice.choice(["frontend", "backend", "peer"]), b"%d" % dice.randrange(50))
        origin = Origin(f"10.{dice.randrange(256)}.{dice.randrange(256)}.{dice.randrange(256)}", "")
        stage.hear(address, *random_frames(dice), origin=origin)
        if number % 100 == 0:
            stage.wait(0.3, step=0.1)
            stage.sent.clear()
            stage.effects.clear()
    stage.check()
    sharing = stage.broker.sharing
    assert max(len(sharing.documents), len(sharing._refused)) <= MOST and sharing.documents._total <= MOST_TOTAL
    stage.gone.update(stage.broker.sessions.all)
    stage.wait(2 * QUEUE_EXPIRY, step=1.0)
    assert sizes(stage) == dict.fromkeys(sizes(stage), 0)
    worker, client = stage.worker(b"honest", "svc"), stage.client(b"asker")
    stage.ask(client, "svc", b"?")
    [(job, body)] = stage.jobs(worker)
    stage.scale0(worker, "FINAL", b"!", id=job)
    assert (body, stage.finals(client)) == ([b"?"], [("1", 200, [b"!"])])
