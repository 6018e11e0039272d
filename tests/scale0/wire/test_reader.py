"""Tests the socket reader against real sockets on loopback: nothing stalls, nothing is lost, everything is bounded."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from scale0.wire import read_turns, reader, unsent, zmq_options, zmq_socket
from scale0.wire.reader import CurveClient, CurveServer, Kind, Network, Sent, SocketError, new_keys
from scale0.wire.zap import NO_ORIGIN, Origin

ANY_PORT = "tcp://127.0.0.1:0"
PATIENCE = 60.0  # seconds for what must come, as in conftest.py


class Ends:
    """Holds a ROUTER and DEALERs that call at it, with all that each has received."""

    def __init__(self, network: Network, **options: Any) -> None:
        self.network = network
        self.heard: list[tuple[list[bytes], Origin]] = []
        self.router = network.socket(Kind.ROUTER, lambda f, o: self.heard.append((f, o)), **options)
        self.endpoint = self.router.bind(ANY_PORT)

    def dealer(self, address: str = "127.0.0.1", **options: Any) -> tuple[reader.Socket, list[list[bytes]]]:
        got: list[list[bytes]] = []
        dealer = self.network.socket(Kind.DEALER, lambda f, o: got.append(f), **options)
        dealer.connect(f"tcp://{address}:0;{self.endpoint.removeprefix('tcp://')}")
        return dealer, got


@pytest.fixture
def ends(network):
    return Ends(network)


def test_frames_arrive_whole_with_the_address_of_the_peer(pump, ends):
    """Frames come unchanged, empty and binary ones too, with the sender's address on the first message and on later
    ones.
    """
    dealer, _ = ends.dealer("127.3.2.1")
    for _ in range(2):
        dealer.send([b"", b"\x00\xff", b"end"])
    pump.until(lambda: len(ends.heard) == 2)
    assert [frames[1:] for frames, _ in ends.heard] == [[b"", b"\x00\xff", b"end"]] * 2
    assert [origin for _, origin in ends.heard] == [Origin("127.3.2.1", "")] * 2


def test_a_socket_without_a_peer_identity_says_nobody(pump, ends):
    got: list[Origin] = []
    dealer, _ = ends.dealer()
    dealer._received = lambda frames, origin: got.append(origin)
    dealer.send([b"?"])
    pump.until(lambda: ends.heard)
    ends.router.send([ends.heard[0][0][0], b"!"])
    pump.until(lambda: got)
    assert got == [NO_ORIGIN]


def test_20000_messages_in_lock_step_never_stall(pump, ends):
    """Messages in lock step are all read: a send may eat the edge of the reply that just came in, so a drain follows
    it.
    """
    count = 20_000
    ends.router._received = lambda frames, origin: ends.router.send(frames)
    dealer, got = ends.dealer()

    def next_one(frames: list[bytes], origin: Origin) -> None:
        got.append(frames)
        if len(got) + 8 <= count:
            dealer.send([b"%d" % len(got)])

    dealer._received = next_one
    for _ in range(8):
        dealer.send([b"start"])
    pump.until(lambda: len(got) >= count)


def test_a_turn_receives_no_more_than_its_budget(pump, ends):
    """A flood gives way to the reactor's other work after TURN_BUDGET messages."""
    dealer, _ = ends.dealer()
    for _ in range(1000):
        dealer.send([b"flood"])
    pump.until(lambda: ends.heard)
    most, last = 0, len(ends.heard)
    while len(ends.heard) < 1000:
        pump.reactor.runUntilCurrent()
        pump.reactor.doIteration(0)
        most, last = max(most, len(ends.heard) - last), len(ends.heard)
    assert 0 < most <= 2 * read_turns.TURN_BUDGET  # a timer's turn and a descriptor's turn in one iteration


def test_a_vanished_peer_is_told_to_the_sender(pump, ends):
    dealer, _ = ends.dealer()
    dealer.send([b"hello"])
    pump.until(lambda: ends.heard)
    peer = ends.heard[0][0][0]
    assert ends.router.send([peer, b"x"]) is Sent.OK
    dealer.close()
    pump.until(lambda: ends.router.send([peer, b"x"]) is Sent.GONE)
    assert ends.router.send([b"stranger", b"x"]) is Sent.GONE


def test_a_closed_socket_says_that_its_peer_is_gone(network):
    socket = network.socket(Kind.DEALER)
    socket.close()
    assert [socket.send([b"x"]), socket.send([b"x"], hold=True)] == [Sent.GONE, Sent.GONE]


def test_a_peer_that_does_not_read_is_full_and_what_is_held_follows_in_order(pump, network, ends):
    """Messages are held for such a peer beyond the pipe, in order; the sender is told FULL only beyond that."""
    dealer, got = ends.dealer()
    dealer.send([b"hello"])
    pump.until(lambda: ends.heard)
    peer = ends.heard[0][0][0]
    network.reactor.removeReader(dealer)
    network.turns.forget(dealer)
    sent = 0
    while ends.router.send([peer, b"%d" % sent, b"x" * 4096]) is Sent.OK:
        sent += 1
    for _ in range(3):
        assert ends.router.send([peer, b"%d" % sent, b"x"], hold=True) is Sent.OK
        sent += 1
    network.reactor.addReader(dealer)
    pump.until(lambda: len(got) == sent)
    assert [int(frames[0]) for frames in got] == list(range(sent))
    assert ends.router._held.count == ends.router._held.bytes == 0


def test_large_frames_are_counted_in_bytes(monkeypatch, pump, network, ends):
    """A peer that does not read has so many of them and no more, far below the mark of messages; they follow in
    order.
    """
    monkeypatch.setattr(zmq_socket, "UNREAD_BYTES", 40 * unsent.LARGE)
    monkeypatch.setattr(zmq_options, "HIGH_WATER", 4)  # of the one that does not read: the kernel's buffers are enough
    dealer, got = ends.dealer()
    dealer.send([b"hello"])
    pump.until(lambda: ends.heard)
    network.reactor.removeReader(dealer)
    peer, count = ends.heard[0][0][0], 0
    while ends.router.send([peer, str(count).encode().ljust(unsent.LARGE)]) is Sent.OK:
        count += 1
        assert count < 1_000
    assert ends.router.send([peer, b"small"]) is Sent.OK
    network.reactor.addReader(dealer)
    dealer.doRead()
    pump.until(lambda: len(got) == count + 1)
    assert [frames[0].strip() for frames in got] == [*(str(number).encode() for number in range(count)), b"small"]
    pump.until(lambda: ends.router._large.waiting(peer) == 0)
    assert ends.router.send([peer, bytes(unsent.LARGE)]) is Sent.OK


def test_what_is_held_is_bounded(monkeypatch, pump, network):
    """A DEALER that was never connected has no pipe, so everything is held, up to both limits."""
    monkeypatch.setattr(unsent, "HELD_MESSAGES", 2)
    dealer = network.socket(Kind.DEALER)
    assert [dealer.send([b"x"], hold=True) for _ in range(3)] == [Sent.OK, Sent.OK, Sent.FULL]
    monkeypatch.setattr(unsent, "HELD_BYTES", 10)
    assert network.socket(Kind.DEALER).send([b"x" * 11], hold=True) is Sent.FULL


@pytest.mark.adversary(65)
def test_a_message_beyond_the_limits_arrives_as_its_first_frame(monkeypatch, pump, ends):
    """A message with too many frames or bytes comes as its first frame; the next message is whole."""
    monkeypatch.setattr(zmq_socket, "MESSAGE_FRAMES", 4)
    monkeypatch.setattr(zmq_socket, "MESSAGE_BYTES", 100)
    dealer, _ = ends.dealer()
    address = 5  # bytes that libzmq calls a peer by; they are the first frame, and count
    whole = [b"x" * 50, b"x" * (50 - address)]
    for message in ([b"a"] * 4, [whole[0], whole[1] + b"x"], whole, [b"a"] * 3):
        dealer.send(message)
    pump.until(lambda: len(ends.heard) == 4)
    assert [len(frames) for frames, _ in ends.heard] == [1, 1, 3, 4]


def test_an_exception_costs_one_message(pump, ends):
    heard: list[bytes] = []

    def received(frames: list[bytes], origin: Origin) -> None:
        heard.append(frames[1])
        if frames[1] == b"bad":
            raise RuntimeError("no")

    ends.router._received = received
    dealer, _ = ends.dealer()
    for word in (b"bad", b"good"):
        dealer.send([word])
    pump.until(lambda: len(heard) == 2)


def test_a_monitor_tells_of_handshakes_and_of_a_restart(pump, network, ends):
    """A broker's restart is invisible to a DEALER otherwise: it reconnects and says nothing."""
    events: list[str] = []
    dealer = network.socket(Kind.DEALER, lambda f, o: None)
    dealer.watch(lambda event, endpoint: events.append(event))  # before there is anything to see
    dealer.connect(ends.endpoint)
    pump.until(lambda: "handshake" in events)
    ends.router.close()
    pump.until(lambda: "disconnected" in events)
    events.clear()

    def bound() -> bool:
        try:
            network.socket(Kind.ROUTER).bind(ends.endpoint)
        except SocketError:
            return False
        return True

    pump.until(bound)  # the port is free only once the I/O thread has closed it
    pump.until(lambda: "handshake" in events, 3 * PATIENCE)  # libzmq may have come to wait RECONNECT_MAX


CLOSING = """
import socket, sys, threading, time
from twisted.internet import reactor
from scale0.wire.reader import Kind, Network, Socket

class MonitorsFirst(set):
    def __iter__(self):
        return iter(sorted(super().__iter__(), key=lambda each: "monitor" not in each.name))

def close_slowly(self, linger_ms=0, close=Socket.close):
    close(self, linger_ms)
    time.sleep(0.01)

Socket.close = close_slowly

def call_again(port, stop):
    while not stop.is_set():
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            pass

for _ in range(15):
    network, stop = Network.of(reactor), threading.Event()
    network.sockets = MonitorsFirst()
    for _ in range(3):
        router = network.socket(Kind.ROUTER)
        router.watch(lambda event, endpoint: None)
        port = int(router.bind("tcp://127.0.0.1:0").rpartition(":")[2])
        threading.Thread(target=call_again, args=(port, stop), daemon=True).start()
    for _ in range(3):
        reactor.iterate(0.01)
    network.close()
    stop.set()
print("closed")
"""


def test_a_network_closes_while_connections_come_and_go():
    """libzmq's thread waits for room in a monitor's pipe, and would wait for ever once nobody is at its other end."""
    done = subprocess.run([sys.executable, "-c", CLOSING], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("closed\n", "")


@pytest.mark.adversary(60)
def test_curve_tells_the_key_of_the_peer_and_strangers_stay_out(pump, network):
    """The rule of the domain decides, and the key it admitted is the origin of each message."""
    public, secret = new_keys()
    known, stranger = new_keys(), new_keys()
    network.admit("backend", lambda caller: caller.key == known[0])
    ends = Ends(network, domain="backend", security=CurveServer(secret))
    events: list[str] = []
    refused, _ = ends.dealer(security=CurveClient(*stranger, public))
    refused.watch(lambda event, endpoint: events.append(event))
    refused.send([b"let me in"])
    plain, _ = ends.dealer()
    plain.send([b"let me in"])
    admitted, _ = ends.dealer(security=CurveClient(*known, public))
    admitted.send([b"hello"])
    pump.until(lambda: ends.heard and "refused" in events)
    assert [(frames[1:], origin) for frames, origin in ends.heard] == [([b"hello"], Origin("127.0.0.1", known[0]))]


def test_a_domain_without_a_rule_is_shut(pump, network):
    ends = Ends(network, domain="nobody.thought.of.it")
    events: list[str] = []
    dealer, _ = ends.dealer()
    dealer.watch(lambda event, endpoint: events.append(event))
    dealer.send([b"hello"])
    pump.until(lambda: "refused" in events)
    assert ends.heard == []


@pytest.mark.parametrize("endpoint", ["tcp://127.0.0.1:eighty", "nonsense", "tcp://"])
def test_a_faulty_endpoint_is_named_in_the_error(network, endpoint):
    with pytest.raises(SocketError, match=endpoint):
        network.socket(Kind.ROUTER).bind(endpoint)


def test_a_taken_port_is_an_error_of_ours(network, ends):
    with pytest.raises(SocketError, match="in use"):
        network.socket(Kind.ROUTER).bind(ends.endpoint)


@pytest.mark.parametrize("make", [lambda: CurveServer("short"), lambda: CurveClient("a", "b", "c")])
def test_a_faulty_key_is_an_error_of_ours(network, make):
    with pytest.raises(SocketError):
        network.socket(Kind.ROUTER, security=make())


def test_a_reactor_has_one_network_until_it_is_closed(pump, network):
    assert Network.of(pump.reactor) is network
    pump.result(network.close())
    assert Network.of(pump.reactor) is not network


def test_public_key_belongs_to_the_secret():
    public, secret = new_keys()
    assert reader.public_key(secret) == public
    with pytest.raises(SocketError, match="40 characters"):
        reader.public_key("x")
