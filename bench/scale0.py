"""Scale0 side by side: what a request costs the process that passes it on, in CPU time.

    python bench/scale0.py cost [--requests 20000] [--rounds 3]      the ratios; two to three minutes
    python bench/scale0.py storm [--peers 1000]                      a broker restarts: how long until all are back
    python bench/scale0.py soak [--services 10000] [--bounces 5]     three brokers, each minute a Helen is bounced:
                                [--every 60]                         digests, memory

`cost` runs four brokers in turn, interleaved, each in a process of its own, over loopback, RFC 18 frames and 256 bytes
of body, 8 clients with a window of 16, 16 workers:

    poller    bare pyzmq, one Poller, a least-recently-used list in thirty lines
    asyncio   the same on zmq.asyncio
    reader    the same on scale0/wire/reader.py and Twisted's epoll reactor
    broker    the Scale0 broker itself, with tokens, sessions, timers and tables

CPU of the whole process, I/O thread included, from /proc: a busy machine spoils it less than wall time does. The least
of all rounds is compared. Bars: reader at most 1.5 of poller and 0.65 of asyncio; CURVE at most 1.3 of NULL.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.pop(0)  # this folder, where a file is named as the package is

import zmq
import zmq.asyncio
from twisted.internet import reactor, task
from twisted.internet.defer import Deferred, inlineCallbacks, maybeDeferred

from scale0.broker.service import BrokerService
from scale0.broker.sockets import Security
from scale0.config.keys import AuthorizedKeys, Pair, text_of
from scale0.endpoint.negotiation import State
from scale0.wire.reader import CurveServer, Kind, Network, new_keys
from scale0.worker import Worker

BODY = b"x" * 256
CLIENTS, WINDOW, WORKERS = 8, 16, 16
WARM = 1000  # requests before the meter runs
VARIANTS = ("poller", "asyncio", "reader", "broker")
TICK = os.sysconf("SC_CLK_TCK")
PORTS = dict.fromkeys(("frontend_port", "backend_port", "peer_port", "config_pub_port"), 0)


# -------------------------------------------------------------------- the thirty lines of three variants


class Queue:
    """Least recently used, one service, one request at a time for each worker: frames in, (socket, frames) out."""

    def __init__(self) -> None:
        self.idle: OrderedDict[bytes, None] = OrderedDict()
        self.waiting: deque[list[bytes]] = deque()

    def front(self, frames: list[bytes]) -> Iterator[tuple[int, list[bytes]]]:
        client, _, _, service, *body = frames
        self.waiting.append([client, service, *body])
        return self._match()

    def back(self, frames: list[bytes]) -> Iterator[tuple[int, list[bytes]]]:
        worker, _, command, *rest = frames
        self.idle[worker] = None
        if command == b"\4":
            client, _, *body = rest
            yield 0, [client, b"MDPC02", b"\3", b"svc", *body]
        yield from self._match()

    def _match(self) -> Iterator[tuple[int, list[bytes]]]:
        while self.idle and self.waiting:
            worker, _ = self.idle.popitem(last=False)
            client, _, *body = self.waiting.popleft()
            yield 1, [worker, b"MDPW02", b"\2", client, b"", *body]


def serve_poller(secret: str | None) -> None:
    context, queue = zmq.Context(), Queue()
    sockets = [_bare(context, secret) for _ in range(2)]
    _announce(*(s.get(zmq.LAST_ENDPOINT).rstrip(b"\0").decode() for s in sockets))
    poller = zmq.Poller()
    for socket in sockets:
        poller.register(socket, zmq.POLLIN)
    steps = dict(zip(sockets, (queue.front, queue.back), strict=True))
    while True:
        for socket, _ in poller.poll():
            for to, frames in steps[socket](socket.recv_multipart()):
                sockets[to].send_multipart(frames)


def serve_asyncio(secret: str | None) -> None:
    async def pump(socket: Any, step: Callable[[list[bytes]], Any]) -> None:
        while True:
            for to, frames in step(await socket.recv_multipart()):
                await sockets[to].send_multipart(frames)

    async def main() -> None:
        _announce(*(s.get(zmq.LAST_ENDPOINT).rstrip(b"\0").decode() for s in sockets))
        await asyncio.gather(pump(sockets[0], queue.front), pump(sockets[1], queue.back))

    context, queue = zmq.asyncio.Context(), Queue()
    sockets = [_bare(context, secret) for _ in range(2)]
    asyncio.run(main())


def _bare(context: Any, secret: str | None) -> Any:
    socket = context.socket(zmq.ROUTER)
    socket.hwm = 10_000
    if secret:
        socket.curve_server, socket.curve_secretkey = True, secret.encode()
    socket.bind("tcp://127.0.0.1:0")
    return socket


def serve_reader(secret: str | None) -> None:
    network, queue = Network.of(reactor), Queue()
    security = CurveServer(secret) if secret else None

    def step(react: Callable[[list[bytes]], Any]) -> Callable[[list[bytes], Any], None]:
        def received(frames: list[bytes], origin: Any) -> None:
            for to, message in react(frames):
                sockets[to].send(message)

        return received

    sockets = [network.socket(Kind.ROUTER, step(r), security=security) for r in (queue.front, queue.back)]
    _announce(*(s.bind("tcp://127.0.0.1:0") for s in sockets))
    reactor.run()


def serve_broker(secret: str | None) -> None:
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        folder = Path(name)
        security = None
        if secret:
            pair = Pair(os.environ["BENCH_PUBLIC"], secret)
            (folder / "keys").mkdir()
            shared = Pair(os.environ["BENCH_CLIENT"], "")
            (folder / "keys" / "client.key").write_text(text_of(shared, "*", with_secret=False))
            security = Security(pair, AuthorizedKeys(folder / "keys"))
        broker = _broker(folder, "bench", security, address="127.0.0.1")
        ends = broker.sockets.endpoints
        _announce(ends["frontend"], ends["backend"])
        reactor.run()


def _broker(folder: Path, identity: str, security: Security | None = None, **config: Any) -> BrokerService:
    file = folder / f"{identity}.json"
    file.write_text(json.dumps({"identity": identity} | PORTS | config))
    service = BrokerService(reactor, file, folder / identity, security, is_open=True)
    service.startService()
    return service


def _announce(frontend: str, backend: str) -> None:
    print(json.dumps([frontend, backend]), flush=True)


# ------------------------------------------------------------------------------------------- cost


def drive(ends: list[str], curve: tuple[str, str, str] | None, requests: int, warm: Callable[[], None]) -> None:
    """Runs all clients and workers in one process and one Poller; `warm` is called once WARM requests were answered."""
    context, poller = zmq.Context(), zmq.Poller()

    def connect(end: str) -> zmq.Socket:
        socket = context.socket(zmq.DEALER)
        socket.linger = 0
        if curve:
            socket.curve_publickey, socket.curve_secretkey, socket.curve_serverkey = (k.encode() for k in curve)
        socket.connect(end)
        poller.register(socket, zmq.POLLIN)
        return socket

    workers = {connect(ends[1]) for _ in range(WORKERS)}
    for worker in workers:
        worker.send_multipart([b"MDPW02", b"\1", b"svc"])
    clients = {connect(ends[0]) for _ in range(CLIENTS)}
    left, done = requests, 0
    for client in clients:
        for _ in range(WINDOW):
            client.send_multipart([b"MDPC02", b"\1", b"svc", BODY])
            left -= 1
    deadline = time.monotonic() + 60
    while done < requests:
        if time.monotonic() > deadline:
            raise SystemExit(f"stuck after {done} of {requests} requests")
        for socket, _ in poller.poll(1000):
            frames = socket.recv_multipart()
            if socket in workers:
                if frames[1] == b"\2":
                    socket.send_multipart([b"MDPW02", b"\4", frames[2], b"", *frames[4:]])
            else:
                done += 1
                if done == WARM:
                    warm()
                if left > 0:
                    left -= 1
                    socket.send_multipart([b"MDPC02", b"\1", b"svc", BODY])
    context.destroy(0)


def cpu_of(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICK


@contextmanager
def serving(variant: str, curve: bool) -> Iterator[tuple[int, list[str], tuple[str, str, str] | None]]:
    server, client = new_keys(), new_keys()
    environment = os.environ | {"BENCH_PUBLIC": server[0], "BENCH_CLIENT": client[0]}
    command = [sys.executable, __file__, "serve", variant, *([server[1]] if curve else [])]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True)
    try:
        ends = json.loads(process.stdout.readline())
        yield process.pid, ends, ((*client, server[0]) if curve else None)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


def cost_of(variant: str, curve: bool, requests: int) -> tuple[float, float]:
    """Microseconds of CPU for each request, and requests a second."""
    with serving(variant, curve) as (pid, ends, keys):
        began: list[float] = []
        drive(ends, keys, WARM + requests, lambda: began.extend((cpu_of(pid), time.monotonic())))
        cpu, start = began
        return (cpu_of(pid) - cpu) / requests * 1e6, requests / (time.monotonic() - start)


def cost(requests: int, rounds: int) -> None:
    least: dict[tuple[str, bool], float] = {}
    best: dict[tuple[str, bool], float] = {}
    for _ in range(rounds):
        for curve in (False, True):
            for variant in VARIANTS:
                spent, rate = cost_of(variant, curve, requests)
                key = variant, curve
                least[key], best[key] = min(spent, least.get(key, spent)), max(rate, best.get(key, rate))
    print(f"{'':10}{'NULL us/req':>12}{'req/s':>9}{'CURVE us/req':>14}{'req/s':>9}")
    for variant in VARIANTS:
        null, curve = (variant, False), (variant, True)
        print(f"{variant:10}{least[null]:12.1f}{best[null]:9.0f}{least[curve]:14.1f}{best[curve]:9.0f}")
    bars = [
        ("reader / poller", least["reader", False] / least["poller", False], 1.5),
        ("reader / asyncio", least["reader", False] / least["asyncio", False], 0.65),
        ("reader CURVE / NULL", least["reader", True] / least["reader", False], 1.3),
        ("broker CURVE / NULL", least["broker", True] / least["broker", False], 1.3),
    ]
    for name, ratio, bar in bars:
        print(f"{name:22}{ratio:6.2f}  at most {bar}  {'ok' if ratio <= bar else 'MISSED'}")


# ----------------------------------------------------------------------------------- storm and soak


def until(condition: Callable[[], Any], within: float) -> Deferred[float]:
    """Seconds until the condition holds; looked at every 20 ms."""
    start, done = time.monotonic(), Deferred()

    def look() -> None:
        if condition():
            done.callback(time.monotonic() - start)
        elif time.monotonic() - start > within:
            done.errback(SystemExit(f"not within {within:g} s"))
        else:
            reactor.callLater(0.02, look)

    look()
    return done


@inlineCallbacks
def storm(peers: int) -> Any:
    """Measure one broker with many workers, which is stopped and started again on the same ports."""
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        broker = _broker(Path(name), "storm")
        ends = broker.sockets.endpoints
        workers = [Worker(reactor, f"w{n}", [ends["backend"]], lambda r: r.body) for n in range(peers)]
        for number, worker in enumerate(workers):
            worker.offer(f"equus.agent-{number}")
            worker.startService()
        took = yield until(lambda: all(w.state is State.ACTIVE for w in workers), 120)
        print(f"{peers} peers: first negotiation {took:.1f} s")
        yield maybeDeferred(broker.stopService)
        yield until(lambda: not any(w.state is State.ACTIVE for w in workers), 30)
        ports = {f"{n}_port": int(ends[n].rpartition(":")[2]) for n in ("frontend", "backend")}
        broker = _broker(Path(name), "storm", **ports)
        took = yield until(lambda: len(broker.broker.sessions.all) == peers, 120)
        took += yield until(lambda: all(w.state is State.ACTIVE for w in workers), 120)
        print(f"{peers} peers: back {took:.1f} s after the restart; at most 10  {'ok' if took <= 10 else 'MISSED'}")
        for worker in workers:
            yield maybeDeferred(worker.stopService)
        yield maybeDeferred(broker.stopService)


@inlineCallbacks
def soak(services: int, bounces: int, every: float) -> Any:
    """Three brokers that know each other, three Helens with a third of the services each; one is bounced at a time."""
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        brokers: list[BrokerService] = []
        for identity in "abc":
            peers = [b.sockets.endpoints["peer"] for b in brokers]
            brokers.append(_broker(Path(name), identity, group="", peers=peers))
        third = services // 3
        helens = [_helen(n, brokers[n], range(n * third, (n + 1) * third)) for n in range(3)]
        for helen in helens:
            helen.startService()
        took = yield until(lambda: agree(brokers, 3 * third), 60)
        print(f"{3 * third} services known everywhere after {took:.1f} s; RSS {rss()} MiB")
        first, worst = rss(), 0.0
        for _ in range(bounces):
            yield task.deferLater(reactor, every, lambda: None)
            number = random.randrange(3)
            yield maybeDeferred(helens[number].stopService)
            gone = yield until(lambda: agree(brokers, 2 * third), 60)
            helens[number] = _helen(number, brokers[number], range(number * third, (number + 1) * third))
            helens[number].startService()
            back = yield until(lambda: agree(brokers, 3 * third), 60)
            worst = max(worst, gone, back)
            print(f"bounced: gone everywhere after {gone:.2f} s, back after {back:.2f} s; RSS {rss()} MiB")
        verdict = "ok" if worst <= 2 else "MISSED"
        print(f"digests agree within {worst:.2f} s; at most 2  {verdict}; RSS {first} -> {rss()} MiB")
        for service in (*helens, *brokers):
            yield maybeDeferred(service.stopService)


def _helen(number: int, broker: BrokerService, agents: range) -> Worker:
    helen = Worker(
        reactor, f"helen-{number}", [broker.sockets.endpoints["backend"]], lambda r: r.body, concurrency=1000
    )
    helen.offer(*(f"equus.agent-{agent}" for agent in agents))
    return helen


def agree(brokers: list[BrokerService], total: int) -> bool:
    """Return True if each sees of each other what that one says of itself, and together they know all services."""
    known = 0
    for one in brokers:
        peers = one.broker.peers
        known += len(peers.own.entries)
        others = [o for o in brokers if o is not one]
        if len(peers.all) < len(others):
            return False
        for other in others:
            seen = peers.all.get(other.broker.config.identity)
            if seen is None or seen.table.digest != other.broker.peers.own.digest:
                return False
    return known == total


def rss() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    actions = parser.add_subparsers(dest="action", required=True)
    figures = actions.add_parser("cost")
    figures.add_argument("--requests", type=int, default=20_000)
    figures.add_argument("--rounds", type=int, default=3)
    actions.add_parser("storm").add_argument("--peers", type=int, default=1000)
    long_run = actions.add_parser("soak")
    long_run.add_argument("--services", type=int, default=10_000)
    long_run.add_argument("--bounces", type=int, default=5)
    long_run.add_argument("--every", type=float, default=60.0, help="seconds between two bounces")
    server = actions.add_parser("serve")
    server.add_argument("variant", choices=VARIANTS)
    server.add_argument("secret", nargs="?")
    options = parser.parse_args()
    if options.action == "serve":
        serve = {"poller": serve_poller, "asyncio": serve_asyncio, "reader": serve_reader, "broker": serve_broker}
        serve[options.variant](options.secret)
    elif options.action == "cost":
        cost(options.requests, options.rounds)
    else:
        run = (
            storm(options.peers)
            if options.action == "storm"
            else soak(options.services, options.bounces, options.every)
        )
        run.addErrback(lambda failure: print(failure.getTraceback())).addBoth(lambda ignored: reactor.stop())
        reactor.run()


if __name__ == "__main__":
    main()
