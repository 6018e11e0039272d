"""Tests peers that speak no ZeroMQ, announce what nobody could keep, or want to hear of everything."""

from __future__ import annotations

import os
import socket
import struct
from pathlib import Path

import pytest
import zmq
from twisted.internet.defer import maybeDeferred

from scale0.client import Client
from scale0.worker import Worker

GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x00NULL" + bytes(16) + bytes(32)  # of ZMTP 3.0, a client's
READY = b"\x04\x26\x05READY\x0bSocket-Type\x00\x00\x00\x06DEALER\x08Identity\x00\x00\x00\x00"
NOISE = {
    "garbage": os.urandom(4_096),
    "http": b"GET / HTTP/1.1\r\nhost: x\r\n\r\n",
    "tls": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500),
    "a greeting cut short": GREETING[:20],
    "a command of 2^63 bytes": GREETING + b"\x06" + struct.pack(">Q", 2**63 - 1) + b"READY",
    "no security that we know": GREETING.replace(b"NULL", b"EVIL"),
    "a frame of 300 MiB": GREETING + READY + b"\x02" + struct.pack(">Q", 300 << 20),
}
TOPICS = int(os.environ.get("SCALE0_TOPICS", "50000"))  # by hand: 1000000


def memory() -> int:
    pages = Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def connected_to(endpoint: str) -> socket.socket:
    host, _, port = endpoint.removeprefix("tcp://").rpartition(":")
    return socket.create_connection((host, int(port)), timeout=60)


@pytest.fixture
def echo(pump, brokers):
    """Return a broker, and a function that has it pass on a request to a worker and back."""
    broker = brokers.start()
    ends = broker.sockets.endpoints
    worker = Worker(pump.reactor, "worker", [ends["backend"]], lambda request: request.body, interval=1.0)
    worker.offer("echo")
    client = Client(pump.reactor, "client", [ends["frontend"]], interval=1.0)
    for each in (worker, client):
        each.startService()
    yield broker, lambda: pump.result(client.request("echo", b"still here")).body
    for each in (client, worker):
        pump.result(maybeDeferred(each.stopService))


@pytest.mark.adversary(65)
@pytest.mark.parametrize("port", ["frontend", "backend", "peer", "config_pub"])
def test_a_broker_that_gets_nonsense_serves_on(pump, echo, port):
    """A broker serves on after nonsense on each port; an announced frame takes no memory, and is cut off."""
    broker, ask = echo
    assert ask() == [b"still here"]
    before = memory()
    held = [connected_to(broker.sockets.endpoints[port]) for _ in NOISE]
    for peer, noise in zip(held, NOISE.values(), strict=True):
        peer.sendall(noise)
    with pytest.raises(ConnectionError):  # libzmq hangs up at the head of the frame: MAXMSGSIZE
        for _ in range(300 << 4):
            held[-1].sendall(bytes(65_536))
            pump.sit(0.001)
    assert memory() - before < 64 << 20
    assert ask() == [b"still here"]
    for peer in held:
        peer.close()


@pytest.mark.adversary(65)
def test_a_broker_with_a_subscriber_to_all_topics_there_are(pump, echo):
    """A subscriber to very many topics costs the broker nothing: it serves others meanwhile and afterwards."""
    broker, ask = echo
    ask()
    with zmq.Context() as context, context.socket(zmq.SUB) as subscriber:
        subscriber.linger = 0
        subscriber.connect(broker.sockets.endpoints["config_pub"])
        for number in range(TOPICS):
            subscriber.setsockopt(zmq.SUBSCRIBE, b"%07d" % number)
            if number % (TOPICS // 10) == 0:
                assert ask() == [b"still here"]
    assert ask() == [b"still here"]
