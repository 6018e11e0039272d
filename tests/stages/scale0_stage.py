"""Drives a broker under a fake clock, with peers that are lists of frames. Shared by the pure tests of this folder."""

from __future__ import annotations

import itertools
import random
from collections import defaultdict
from typing import Any

from scale0.broker.broker import Broker
from scale0.broker.context import Effect, Probe, Reload, Send, Store, Verify
from scale0.broker.requests.queues import RequestState
from scale0.config.schema import BrokerConfig, Credential, Member
from scale0.wire import frames as wire
from scale0.wire import options as opt
from scale0.wire.frames import D1, D2, S0, Dialect
from scale0.wire.zap import Origin

Address = tuple[str, bytes]
BEAT = 1.0
WALL = 1_700_000_000.0
PASSWORD_RECORD = "scrypt$2$1$1$" + "00" * 8 + "$" + "00" * 16
COMMANDS1 = {b"\2": "REQUEST", b"\4": "HEARTBEAT", b"\5": "DISCONNECT"}
COMMANDS2 = {b"\2": "REQUEST", b"\5": "HEARTBEAT", b"\6": "DISCONNECT"}


def broker_config(**changes: Any) -> BrokerConfig:
    config = {"identity": "b1", "frontend_port": 0, "backend_port": 0, "default_heartbeat_interval": BEAT}
    return BrokerConfig(**config | {"management": (Credential("op", PASSWORD_RECORD),)} | changes)


class Stage:
    """Drives a Broker; messages to vanished peers fail as a ROUTER's do, unless a case holds its effects back."""

    def __init__(self, config: BrokerConfig | None = None, version: int = 7, start: bool = True) -> None:
        counter = itertools.count(1)
        self.now = 1000.0
        self.broker = Broker(
            config or broker_config(), version, random.Random(1), lambda: next(counter).to_bytes(16, "big")
        )
        self.sent: dict[Address, list[list[bytes]]] = defaultdict(list)
        self.gone: set[Address] = set()
        self.full: set[Address] = set()
        self.effects: list[Effect] = []  # other than messages
        self.right_password = "secret"
        if start:
            self.run(self.broker.start(self.now, self.wall))

    @property
    def wall(self) -> float:
        return WALL + self.now

    def run(self, effects: list[Effect]) -> None:
        """Carry effects out as the service does, without threads."""
        pending = list(effects)
        while pending:
            effect = pending.pop(0)
            if isinstance(effect, Send):
                if effect.address in self.gone:
                    pending += self.broker.undelivered(effect, True, self.now, self.wall)
                elif effect.token and effect.address in self.full:
                    pending += self.broker.undelivered(effect, False, self.now, self.wall)
                else:
                    self.sent[effect.address].append(list(effect.frames))
                continue
            self.effects.append(effect)
            if isinstance(effect, Probe):
                pending += self.broker.probed(effect.claim, effect.address in self.gone, self.now, self.wall)
            elif isinstance(effect, Verify):
                right = effect.password == self.right_password
                pending += self.broker.verified(effect.ticket, right, self.now, self.wall)
            elif isinstance(effect, Store):
                pending += self.broker.stored(effect.ticket, "", self.now, self.wall)
            elif isinstance(effect, Reload):
                pending += self.broker.reloaded(effect.ticket, "no file here", self.now, self.wall)

    def hear(self, address: Address, *frames: bytes, origin: Origin | None = None) -> None:
        origin = origin or Origin(f"127.0.{len(address[1])}.{sum(address[1]) % 256}", "")
        self.run(self.broker.received(address, list(frames), origin, self.now, self.wall))

    def wait(self, seconds: float, step: float = 0.05) -> None:
        """Let time pass, with the timers firing when they are due."""
        end = self.now + seconds
        while self.now < end:
            self.now = min(end, self.now + step)
            if (due := self.broker.due) is not None and due <= self.now:
                self.run(self.broker.tick(self.now, self.wall))

    def take(self, address: Address) -> list[list[bytes]]:
        """Return what it was sent since the last time."""
        sent, self.sent[address] = self.sent[address], []
        return sent

    # ------------------------------------------------------------------------------------ peers

    def scale0(self, address: Address, command: str, /, *body: bytes, **options: Any) -> None:
        self.hear(address, *wire.scale0(S0, command, opt.encode(options), body))

    def told(self, address: Address, beats: bool = False) -> list[tuple[str, dict[str, Any], list[bytes]]]:
        """Return the Scale0 commands that a peer was sent; heartbeats are left out unless `beats` asks for them."""
        messages = [wire.parse(frames) for frames in self.take(address)]
        read = [(m.command, opt.decode_any(m.options), list(m.body)) for m in messages]
        return [message for message in read if beats or message[0] != "HEARTBEAT"]

    def client(self, name: bytes, **changes: Any) -> Address:
        """Return the address of a Scale0 frontend that has negotiated."""
        address = ("frontend", name)
        named = {"identity": name.decode(), "services": [], "config_type": "JSON"} | changes
        self.scale0(address, "CHECKCONFIG", **named)
        self.take(address)
        return address

    def worker(self, name: bytes, *services: str, **changes: Any) -> Address:
        """Return the address of a Scale0 backend that is ready."""
        address = ("backend", name)
        self.scale0(address, "CHECKCONFIG", identity=name.decode(), services=list(services), config_type="JSON")
        self.ready(address, *services, **changes)
        self.take(address)
        return address

    def ready(self, address: Address, *services: str, **changes: Any) -> None:
        options = {"services": list(services), "heartbeat": True, "time": self.wall, "config_version": "7"}
        self.scale0(address, "READY", **options | changes)

    def plain_worker(self, name: bytes, service: str, dialect: Dialect = D2) -> Address:
        address = ("backend", name)
        lead, header = ([b""], b"MDPW01") if dialect is D1 else ([], b"MDPW02")
        self.hear(address, *lead, header, b"\1", service.encode())
        self.take(address)
        return address

    def ask(self, address: Address, service: str, *body: bytes, **options: Any) -> None:
        self.scale0(address, "REQUEST", *body, **{"id": "1", "service": service} | options)

    def jobs(self, address: Address) -> list[tuple[str, list[bytes]]]:
        """Return (id, body) of each request that a Scale0 worker was sent."""
        return [(options["id"], body) for command, options, body in self.told(address) if command == "REQUEST"]

    def plain_jobs(self, address: Address) -> list[tuple[bytes, list[bytes]]]:
        found = []
        for frames in self.take(address):
            rest = frames[2:] if frames[0] == b"" else frames[1:]
            names = COMMANDS1 if frames[0] == b"" and frames[1] == b"MDPW01" else COMMANDS2
            if names.get(rest[0]) == "REQUEST":
                found.append((rest[1], rest[3:]))
        return found

    def finals(self, address: Address) -> list[tuple[str, int, list[bytes]]]:
        return [(o["id"], o["code"], body) for command, o, body in self.told(address) if command == "FINAL"]

    def beat_all(self, *addresses: Address) -> None:
        for address in addresses:
            self.scale0(address, "HEARTBEAT", time=self.wall, config_version="7")

    # ------------------------------------------------------------------------------- invariants

    def check(self) -> None:
        """Check what holds at every moment, whatever happened."""
        routing, sessions = self.broker.routing, self.broker.sessions
        workers = {id(s.worker): s.worker for s in sessions.all.values() if s.worker is not None}
        queued = {request.token for service in routing.queues for request in routing.queues[service] or ()}
        held = [token for worker in workers.values() for token in worker.inflight]
        assert len(held) == len(set(held)), "a request is with two workers"
        assert not queued & set(held), "a request is in a queue and with a worker"
        for token, request in routing.requests.items():
            assert request.token == token
            assert (request.state is RequestState.QUEUED) == (token in queued), (
                "a request is in no queue, or in one that it left"
            )
            if request.state is RequestState.RUNNING:
                assert request.worker is not None and id(request.worker) in workers and token in request.worker.inflight
                assert ("running", token) in self.broker.context.timers
            else:
                assert ("request", token) in self.broker.context.timers, "nothing would ever end this request"
        assert queued <= set(routing.requests)
        for worker in workers.values():
            assert worker.credit >= 0 and worker.free == (worker.alive and not worker.slow and worker.credit > 0)
            for token in worker.inflight:
                assert token in routing.requests or token in routing.table.orphans
        for service in routing.pool.services():
            for worker in routing.pool.workers(service):
                assert worker.alive and id(worker) in workers and service in worker.services
        for service in routing.queues:
            assert routing.pool.next(service) is None, f"{service} waits while a worker is free"
            self._check_none_waits_for_an_idle_peer(service)
        assert routing.queues.bytes == sum(routing.requests[token].size for token in queued)
        assert set(routing.table.orphans) <= set(held)
        tokens = {key[1] for key in self.broker.context.timers._when if key[0] in ("running", "request")}
        assert tokens <= set(routing.requests) | set(routing.table.orphans), "a timer of a request that has ended"

    def _check_none_waits_for_an_idle_peer(self, service: str) -> None:
        routing, context = self.broker.routing, self.broker.context
        patience = context.config.spill_ms / 1000 if service in routing.pool else 0.0
        first = next(iter(routing.queues[service] or ()))
        if context.state == "active" and self.now >= first.waiting_since + patience + 0.5:
            assert self.broker.peers.channel_for(first) is None, f"{service} waits while a peer has an idle worker"


def member(identity: str, **ends: str) -> Member:
    return Member(identity, **ends)


def random_frames(dice: random.Random) -> list[bytes]:
    """Return frames of which each looks half right."""
    words = [b"", b"SCALE0", b"MDPC01", b"MDPW01", b"MDPC02", b"MDPW02", b"\1", b"\2", b"\3", b"\4", b"\5", b"\6"]
    words += [name.encode() for name in opt.TO_BROKER]
    words += [b"{}", b"[1]", b"svc", b"mmi.service", b'{"id": "1", "service": "svc"}', b'{"since": -1}', b"[" * 2000]
    words += [
        b'{"identity": "x", "services": ["svc"], "config_type": "JSON"}',
        b'{"time": 1e308, "config_version": "1"}',
    ]
    words += [b'{"services": ["svc"], "heartbeat": true, "time": 1, "config_version": "7"}', b'{"id": "zz", "code": 1}']
    words += [b'{"seq": 1, "full": true, "digest": "x", "entries": {"svc": [1, 1, 0]}}', b'{"add": ["svc"], "seq": 1}']
    words += [b'{"name": "doc%d", "version": %d}' % (dice.randrange(400), dice.randrange(1, 9))]
    words += [b'{"have": {"doc1": [%d, "x"]}, "want": true}' % dice.randrange(1, 9)]
    noise = [dice.randbytes(dice.randrange(40)) for _ in range(4)]
    if dice.random() < 0.5:  # a whole Scale0 message more often than chance would make one
        command = dice.choice(list(opt.TO_BROKER)).encode()
        return [
            b"SCALE0",
            b"\1",
            command,
            dice.choice([w for w in words if w[:1] in b"{["]),
            *noise[: dice.randrange(3)],
        ]
    return [dice.choice(words + noise) for _ in range(dice.randrange(1, 8))]
