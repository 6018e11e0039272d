"""Tests plain connections: a body counts as sent when the receiver has read it to its end, and not before."""

from __future__ import annotations

import socket

import pytest
from forward_stage import LineReceiver
from telling import Pump
from twisted.internet.defer import Deferred, maybeDeferred
from twisted.python.failure import Failure

from helen.forwards.formats.values import Body, Signal
from helen.forwards.runtime import Runtime
from helen.forwards.sending import OverTcp, Taken
from helen.forwards.stream import address_of
from helen.notify.attempt import SendFailed

SIGNAL = Signal("", {}, lambda records, labels: None)


def sent(pump: Pump, port: int, content: bytes = b"a 1 2\n", timeout: float = 20.0) -> str:
    way = OverTcp("127.0.0.1", port)
    runtime = Runtime(pump.reactor, defer=maybeDeferred)
    found = pump.run(Deferred.fromCoroutine(way.send(runtime, SIGNAL, Body(content, 1), timeout)))
    if isinstance(found, Failure):
        assert found.check(SendFailed), found.getTraceback()
        return str(found.value)
    assert found == Taken()
    return "taken"


def test_it_is_read_to_its_end(pump: Pump, lines: LineReceiver) -> None:
    """A body that is much larger than a socket's buffer is read to its end."""
    content = b"web.disk.used 1.5 1800000000\n" * 200_000
    assert sent(pump, lines.port, content) == "taken"
    assert lines.bodies == [content]


def test_it_dies_with_bytes_unread(pump: Pump, lines: LineReceiver) -> None:
    lines.manner = "reset"
    assert "no connection to 127.0.0.1 port" in sent(pump, lines.port, b"web.disk.used 1.5 1800000000\n" * 200_000)


def test_it_never_reads(pump: Pump, lines: LineReceiver) -> None:
    lines.manner = "silent"
    assert sent(pump, lines.port, timeout=0.2) == "not read to its end within 0.2 s"
    lines.manner = "whole"
    assert sent(pump, lines.port) == "taken"


def test_nobody_listens(pump: Pump) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    assert "refused" in sent(pump, port)


@pytest.mark.parametrize(("text", "address"), [
    ("tcp://graphite.example", ("graphite.example", 2003)), ("tcp://h:1", ("h", 1)), ("tcp://[::1]:7", ("::1", 7)),
    ("tcp://h:0", None), ("tcp://h:99999", None), ("udp://h", None), ("tcp://", None), ("h:2003", None),
    ("tcp://h:2003/x", None), ("tcp://u@h", None),
])  # fmt: skip
def test_addresses(text: str, address: tuple[str, int] | None) -> None:
    assert address_of(text) == address
