"""Tests that a broker which stood still, or whose clock is wrong, judges no peer for it. Under a fake clock, and once
stopped.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time

import msgspec
import pytest
from patience import Patience
from scale0_stage import BEAT, Stage, broker_config

from scale0 import ctl
from scale0.broker.context import Log
from scale0.config.schema import ServicePolicy
from scale0.wire import frames as wire
from scale0.wire import options as opt
from scale0.wire.frames import S0
from scale0.wire.reader import Kind, Network, Socket
from scale0.wire.zap import Caller, Origin

INTERVAL = 0.8  # seconds between beats of a broker in a process; a peer is silent after three of them
PATIENCE = 60.0  # seconds for a process that starts or ends on a busy machine
# Times of a stop, in intervals; each is longer than the silence that ends a session.
STOPS = [4.0, 7.3, 100.0, 5000.0]


@pytest.fixture
def stage():
    return Stage()


def wake(stage: Stage, seconds: float) -> None:
    """Let the broker stand still, and fire its timers before anything is read."""
    stage.now += seconds
    stage.run(stage.broker.tick(stage.now, stage.wall))


@pytest.mark.parametrize("seconds", STOPS)
@pytest.mark.parametrize("first", ["a tick", "a message"])
def test_after_a_stall_nobody_is_silent_whose_messages_wait(stage, seconds, first):
    """Clients, workers of both kinds and brokers are there still, and silence ends them later, as ever (F5)."""
    worker, client, plain = stage.worker(b"w", "tea"), stage.client(b"c"), stage.plain_worker(b"p", "beer")
    fellow = ("peer", b"b2")
    stage.scale0(fellow, "CHECKCONFIG", identity="b2", services=["all"], config_type="JSON", role="peer")
    for _ in range(5):
        stage.wait(BEAT)
        stage.beat_all(worker, client, fellow)
        stage.hear(plain, b"MDPW02", b"\5")
    if first == "a tick":
        wake(stage, seconds)
    else:
        stage.now += seconds
        stage.beat_all(client)
    stage.wait(0.9 * BEAT)
    assert {worker, client, plain, fellow} <= set(stage.broker.sessions.all)
    stage.beat_all(client)
    stage.wait(3.1 * BEAT)
    assert set(stage.broker.sessions.all) == set(), "silence ends each of them"


@pytest.mark.parametrize("seconds", STOPS)
@pytest.mark.parametrize(
    "asked", [{"timeout_ms": 2500}, {"idempotent": False}, {"idempotent": False, "timeout_ms": 50}]
)
def test_answers_that_wait_in_the_socket_count(seconds, asked):
    """An answer that waits in the socket counts, although worker, deadline or busy_timeout would have ended the request
    (F5).
    """
    stage = Stage(broker_config(service_config=(ServicePolicy("tea", True, 3.0),)))
    worker, client = stage.worker(b"w", "tea", concurrency=5), stage.client(b"c")
    for number in range(4):
        stage.ask(client, "tea", b"?", id=str(number), **asked)
    jobs = [job for job, _ in stage.jobs(worker)]
    wake(stage, seconds)
    stage.check()
    for job in jobs:
        stage.scale0(worker, "FINAL", b"!", id=job)
    assert stage.finals(client) == [(str(number), 200, [b"!"]) for number in range(4)]
    stage.check()


def test_a_request_that_waited_meanwhile_is_served_by_the_next_worker(stage):
    """A request that waited keeps its place in the queue as before the stall (F5)."""
    client = stage.client(b"c")
    stage.ask(client, "tea", b"1", id="1", timeout_ms=900)
    stage.ask(client, "tea", b"2", id="2")
    wake(stage, 300.0)
    worker = stage.worker(b"w", concurrency=2)
    stage.ready(worker, "tea", concurrency=2)
    assert [body for _, body in stage.jobs(worker)] == [[b"1"], [b"2"]]
    stage.check()


def test_time_between_events_is_no_stall(stage):
    """A broker that has nothing to do for hours sleeps until something is due, and counts no stall (F5)."""
    client = stage.client(b"c", hbeatinterval=600.0)
    stage.wait(599.0, step=1.0)
    stage.beat_all(client)
    assert stage.broker.context.counts["stalls"] == 0
    stage.wait(1700.0, step=1.0)
    assert client in stage.broker.sessions.all
    stage.wait(200.0, step=1.0)
    assert client not in stage.broker.sessions.all


def test_heartbeats_that_waited_say_nothing_about_clocks(stage):
    """Heartbeats that waited are as old as the stall, and no peer is refused for them (F5)."""
    worker = stage.worker(b"w", "tea")
    stamps = [stage.wall + number for number in range(5)]
    wake(stage, 90.0)
    for stamp in stamps:
        stage.scale0(worker, "HEARTBEAT", time=stamp, config_version="7")
    assert worker in stage.broker.sessions.all and not stage.broker.context.alarms
    stage.wait(3 * BEAT)
    for _ in range(3):
        stage.scale0(worker, "HEARTBEAT", time=stage.wall - 90, config_version="7")
    assert worker not in stage.broker.sessions.all, "a clock that is late is found as ever"


def test_a_stall_is_logged_and_counted(stage):
    stage.worker(b"w", "tea")
    stage.effects.clear()
    wake(stage, 30.0)
    [line] = [e.text for e in stage.effects if isinstance(e, Log) and "stood still" in e.text]
    assert "30.0 s" in line and stage.broker.context.counts["stalls"] == 1


# -------------------------------------------------------------------------------------- wrong clocks


class Skewed(Stage):
    """Drives a broker whose wall clock is `off` seconds ahead of that of everybody else."""

    off = 0.0

    @property
    def wall(self) -> float:
        return super().wall + self.off

    @property
    def right(self) -> float:
        return super().wall

    def beat_right(self, *addresses: tuple[str, bytes], origin: Origin | None = None) -> None:
        for address in addresses:
            options = opt.encode({"time": self.right, "config_version": "7"})
            self.hear(address, *wire.scale0(S0, "HEARTBEAT", options), origin=origin)


LOCAL = Origin("127.0.0.1", "")


@pytest.mark.parametrize("off", [-60.0, 60.0, 86_400.0, -3e6])
@pytest.mark.parametrize("peers", [1, 2, 8])
def test_a_broker_whose_clock_steps_refuses_nobody(off, peers):
    """A broker whose clock steps knows of it, tells it at most once, and refuses nobody, however few peers there are
    (F9).
    """
    stage = Skewed()
    workers = [stage.worker(b"w%d" % number, "tea") for number in range(peers)]
    for wrong in (off, 0.0):
        stage.off = wrong
        for _ in range(6):
            stage.wait(BEAT)
            stage.beat_right(*workers)
    assert set(stage.broker.sessions.all) == set(workers)
    assert [stage.told(worker) for worker in workers] == [[]] * peers
    assert len(stage.broker.context.alarms) == 2 + (peers >= 3), "one for each step, and one that most peers differ"
    assert "clock" in stage.broker.context.alarms[0]


@pytest.mark.parametrize("off", [-45.0, 700.0])
def test_a_broker_that_starts_with_a_wrong_clock_believes_most_of_its_peers(off):
    """The first peers may be refused; from the third on they outvote the broker, and the refused ones
    come back (F9).
    """
    stage = Skewed(start=False)
    stage.off = off
    stage.run(stage.broker.start(stage.now, stage.wall))
    names = [("backend", b"w%d" % number) for number in range(7)]
    for _ in range(2):
        for address in names:
            if address not in stage.broker.sessions.all:
                named = {"identity": address[1].decode(), "services": ["tea"], "config_type": "JSON"}
                stage.scale0(address, "CHECKCONFIG", **named)
                stage.ready(address, "tea", time=stage.right)
        for _ in range(4):
            stage.wait(BEAT)
            stage.beat_right(*[a for a in names if a in stage.broker.sessions.all])
    assert set(stage.broker.sessions.all) == set(names)
    [alarm] = stage.broker.context.alarms
    assert "is the clock of this machine right?" in alarm


@pytest.mark.parametrize("wrong, right, refused", [(2, 0, True), (2, 3, True), (3, 3, True), (4, 3, False)])
def test_only_a_majority_of_three_or_more_outvotes_the_broker(wrong, right, refused):
    """A broker doubts its own clock if at least three and the majority differ in one direction; no others add to it
    (F9).
    """
    stage = Stage()
    good = [stage.worker(b"good%d" % number, "tea") for number in range(right)]
    bad = [stage.worker(b"bad%d" % number, "tea") for number in range(wrong)]
    stage.beat_all(*good)
    for _ in range(8):
        stage.wait(BEAT)
        stage.beat_all(*good)
        for address in bad:
            if address not in stage.broker.sessions.all:
                stage.worker(address[1], "tea")
            stage.scale0(address, "HEARTBEAT", time=stage.wall - 31.0, config_version="7")
    told = [name for address in bad for name, _, _ in stage.told(address)]
    assert (stage.broker.context.counts["refused_422"] > 0) == refused, told
    assert set(good) <= set(stage.broker.sessions.all)
    assert bool(stage.broker.context.alarms) != refused


def test_a_wrong_clock_is_no_misdeed(stage):
    """An address is heard however often its clock is refused, since other programs share it (F9)."""
    for number in range(12):
        address = ("backend", b"w%d" % number)
        for command, more in (
            ("CHECKCONFIG", {"identity": "slow", "services": ["tea"], "config_type": "JSON"}),
            ("READY", {"services": ["tea"], "heartbeat": True, "time": stage.wall + 40, "config_version": "7"}),
        ):
            stage.hear(address, *wire.scale0(S0, command, opt.encode(more)), origin=LOCAL)
        assert stage.told(address)[-1][1]["code"] == 422
    assert not stage.broker.context.failures.banned(LOCAL.name, stage.now)
    stage.hear(("frontend", b"c"), b"MDPC02", b"\1", b"mmi.x", b"?", origin=LOCAL)
    assert stage.take(("frontend", b"c"))


def ask_management(stage: Stage, origin: Origin, command: str = "errors", password: str = "secret", **more: str) -> int:
    admin = ("frontend", b"admin" + origin.name.encode())
    asked = opt.encode({"auth_id": "op", "auth_password": password, "command": command} | more)
    stage.hear(admin, *wire.scale0(S0, "MANAGEMENTREQ", asked), origin=origin)
    return next((told["code"] for name, told, _ in stage.told(admin) if name == "MANAGEMENTREP"), 0)


@pytest.mark.parametrize("address", ["127.0.0.1", "127.3.4.5", "::1"])
def test_management_passes_the_ban_of_an_address(stage, address):
    """The operator of this machine passes the ban of an address and can end it; nobody else does (F9)."""
    origin = Origin(address, "")
    for _ in range(5):
        stage.hear(("frontend", b"bad"), b"garbage", origin=origin)
    stage.hear(("frontend", b"bad"), b"MDPC02", b"\1", b"mmi.x", b"?", origin=origin)
    assert stage.take(("frontend", b"bad")) == []
    assert ask_management(stage, origin) == 200
    assert ask_management(stage, origin, "clear_errors", key=address) == 200
    stage.hear(("frontend", b"bad"), b"MDPC02", b"\1", b"mmi.x", b"?", origin=origin)
    assert len(stage.take(("frontend", b"bad"))) == 1


@pytest.mark.parametrize("origin", [Origin("127.0.0.1", "KEY"), Origin("10.0.0.1", "KEY"), Origin("10.0.0.1", "")])
def test_other_bans_hold_for_management_too(stage, origin):
    for _ in range(5):
        stage.hear(("frontend", b"bad"), b"garbage", origin=origin)
    assert ask_management(stage, origin) == 0


def test_management_is_reached_by_socket_from_a_banned_address(pump, brokers, tmp_path):
    """The handshake is admitted on the frontend, and refused on all other ports (F9)."""
    broker = brokers.start(
        management=[{"auth_id": "op", "auth_password": "scrypt$2$8$1$" + "ab" * 16 + "$" + "00" * 64}]
    )
    for _ in range(5):
        broker.broker.context.failures.add("127.0.0.1", "for this test", time.monotonic())
    settings = {"broker": broker.sockets.endpoints["frontend"], "auth_id": "op", "password": "?", "timeout": 5.0}
    answer = pump.result(ctl.ask(pump.reactor, settings | {"curve_key": None, "server_key": ""}, "errors"))
    assert answer["code"] == 401, "it is answered"
    for domain in ("backend", "peer", "config"):
        assert not broker.sockets._admits(Caller(domain, "127.0.0.1", "NULL", ""))


# ------------------------------------------------------------------------------------ a real process


# A wall clock that is set: read by each Python that finds this on its path.
SHIFTING = """
import os, time
real, path = time.time, os.environ["SHIFT_FILE"]
time.time = lambda: real() + float(open(path).read() or 0)
"""


@pytest.fixture
def alone(tmp_path):
    """Run a broker in a process of its own, with a file by which its wall clock is wrong, and return
    (pid, run.json).
    """
    tree = {"identity": "b", "frontend_port": 0, "backend_port": 0, "default_heartbeat_interval": INTERVAL}
    (tmp_path / "b.json").write_bytes(msgspec.json.encode(tree))
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(SHIFTING)
    (tmp_path / "shift").write_text("0")
    paths = [str(tmp_path / "site"), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths), "SHIFT_FILE": str(tmp_path / "shift")}
    twistd = [sys.executable, "-c", "from twisted.scripts.twistd import run; run()", "-n", "--pidfile="]
    command = [*twistd, "scale0", "--config", "b.json", "--state", "state"]
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=log, stderr=log)
    run = tmp_path / "state" / "run.json"
    try:
        deadline = time.monotonic() + PATIENCE
        while not run.exists():
            assert time.monotonic() < deadline and process.poll() is None, (tmp_path / "log").read_text()
            time.sleep(0.05)
        yield process.pid, msgspec.json.decode(run.read_bytes())
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGCONT)
        process.terminate()
        process.wait(PATIENCE)


class RawPeers:
    """Plays peers of a broker by socket: they beat, whatever they hear, and keep what they are sent."""

    def __init__(self, pump, run) -> None:
        self._pump, self._run = pump, run
        self._sockets: list[Socket] = []
        self.heard: list[tuple[int, wire.Message]] = []

    def say(self, at: int, command: str, *body: bytes, **options: object) -> None:
        self._sockets[at].send(wire.scale0(S0, command, opt.encode(options), body))

    def come(self, identity: str, *services: str) -> int:
        at = len(self._sockets)
        socket = Network.of(self._pump.reactor).socket(
            Kind.DEALER, lambda frames, _: self.heard.append((at, wire.parse(frames)))
        )
        socket.connect(self._run["backend" if services else "frontend"])
        self._sockets.append(socket)
        self.say(at, "CHECKCONFIG", identity=identity, services=list(services), config_type="JSON")
        if services:
            self.say(at, "READY", services=list(services), heartbeat=True, time=time.time(), config_version="9" * 18)
        return at

    def live(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._beat()

    def live_until(self, condition) -> None:
        bound = Patience(PATIENCE)
        while not condition():
            assert bound.lasts(), self.heard
            self._beat()

    def _beat(self) -> None:
        for at in range(len(self._sockets)):
            self.say(at, "HEARTBEAT", time=time.time(), config_version="9" * 18)
        self._pump.sit(0.2)

    def told(self, command: str) -> list[tuple[int, dict]]:
        return [(at, opt.decode_any(m.options)) for at, m in self.heard if m.command == command]


def test_answers_given_while_the_broker_was_stopped_arrive(pump, alone):
    """Requests that must not be tried twice, in a broker that is stopped for seven intervals (F5)."""
    pid, run = alone
    peers = RawPeers(pump, run)
    for number in range(8):
        peers.come(f"w{number}", "tea")
    clients = [peers.come(f"c{number}") for number in range(8)]
    peers.live(0.5)
    for client in clients:
        peers.say(client, "REQUEST", b"?", id=str(client), service="tea", idempotent=False)
    pump.until(lambda: len(peers.told("REQUEST")) == 8)
    os.kill(pid, signal.SIGSTOP)
    peers.live(INTERVAL)
    for worker, job in peers.told("REQUEST"):
        peers.say(worker, "FINAL", b"!", id=job["id"], code=200)
    peers.live(6 * INTERVAL)
    os.kill(pid, signal.SIGCONT)
    pump.until(lambda: sum(at in clients for at, _ in peers.told("FINAL")) == 8)
    assert [told["code"] for _, told in peers.told("FINAL")] == [200] * 8
    peers.live(1.5 * INTERVAL)
    assert not peers.told("DISCONNECTERROR")


@pytest.mark.parametrize("shift", [-3600, -5, 3600])
def test_a_broker_goes_on_beating_whatever_its_wall_clock_does(pump, alone, tmp_path, shift):
    """Timeouts of requests fire, and no peer is dropped (F2)."""
    peers = RawPeers(pump, alone[1])
    for number in range(3):
        peers.come(f"w{number}", "tea")
    client = peers.come("c")
    peers.live(0.5)
    (tmp_path / "shift").write_text(str(shift))
    peers.live(0.5)
    peers.heard.clear()
    peers.say(client, "REQUEST", b"?", id="1", service="tea", timeout_ms=700)

    def least_beats() -> int:
        return min(sum(at == each for at, _ in peers.told("HEARTBEAT")) for each in range(4))

    peers.live_until(lambda: least_beats() >= 3 and peers.told("FINAL"))
    assert [(at, told["code"]) for at, told in peers.told("FINAL")] == [(client, 504)]
    assert not peers.told("DISCONNECTERROR") and not peers.told("FORCENEGOTIATE")


@pytest.mark.parametrize("seconds", STOPS)
def test_a_request_has_one_interval_after_a_stall_however_little_it_had_before(stage, seconds):
    """A request has one interval after a stall to read an answer that came meanwhile; then its time is over."""
    worker, client = stage.worker(b"w", "tea"), stage.client(b"c")
    stage.ask(client, "tea", b"cup", timeout_ms=int(BEAT * 300))
    wake(stage, seconds * BEAT)
    stage.beat_all(worker, client)
    stage.wait(0.8 * BEAT)
    assert stage.finals(client) == []
    stage.beat_all(worker, client)
    stage.wait(0.7 * BEAT)
    assert [code for _, code, _ in stage.finals(client)] == [504]
