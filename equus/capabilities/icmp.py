"""Perform the capability `icmp`: ping without root, through the kernel's own ping sockets."""

import os
import socket
import struct
import time
from typing import Any

from equus.capabilities.address import Endpoint, endpoints, host_argument
from equus.capabilities.calls import CallFailed, Context, Fields, Perform
from equus.capabilities.machine import percent
from equus.capabilities.streams.stream import faults

_ECHO = {socket.AF_INET: 8, socket.AF_INET6: 128}
_HEADER = struct.Struct("!BBHHH")
MOST_PINGS = 20
DATAGRAM = 65_535
# The marker in the payload tells these answers from those to another ping with the same identifier.
_MARKER_BYTES = 8


def icmp(args: list[Any], policy: Any, context: Context) -> dict[str, Any]:
    """Perform host.icmp: send pings, wait for each answer, and return the sums."""
    fields = Fields("host.icmp", args)
    host, count = host_argument("host.icmp", fields.text("host")), fields.whole("count", 4, 1, MOST_PINGS)
    interval, timeout = fields.number("interval", 0.2, 0.05, 1.0), fields.number("timeout", 1.0, 0.01, 10.0)
    size = fields.whole("size", 56, _MARKER_BYTES, 1400)
    fields.done()
    endpoint = endpoints("icmp", host, None, policy, context)[0]
    times = []
    with _ping_socket(endpoint) as connection, faults(endpoint.address, timeout):
        connection.connect((endpoint.address, 0))
        for sequence in range(1, count + 1):
            began = time.monotonic()
            taken = _ping(connection, endpoint, sequence, size, context.seconds_left(timeout))
            if taken is not None:
                times.append(taken)
            if sequence < count:
                time.sleep(max(0.0, min(interval - (time.monotonic() - began), context.seconds_left(interval))))
    return _summary(endpoint, count, times)


def _summary(endpoint: Endpoint, count: int, times: list[float]) -> dict[str, Any]:
    answer: dict[str, Any] = {
        "address": endpoint.address, "sent": count, "received": len(times),
        "lost_percent": percent(count - len(times), count),
    }  # fmt: skip
    if times:
        answer |= {
            "minimum_seconds": min(times),
            "average_seconds": round(sum(times) / len(times), 6),
            "maximum_seconds": max(times),
        }
    return answer


def _ping_socket(endpoint: Endpoint) -> socket.socket:
    protocol = socket.IPPROTO_ICMP if endpoint.family == socket.AF_INET else socket.IPPROTO_ICMPV6
    try:
        return socket.socket(endpoint.family, socket.SOCK_DGRAM, protocol)
    except PermissionError:
        text = "this host allows this user no ping: widen the sysctl net.ipv4.ping_group_range"
        raise CallFailed("unsupported", text) from None


def _ping(connection: socket.socket, endpoint: Endpoint, sequence: int, size: int, seconds: float) -> float | None:
    """Send one ping. Return the seconds until its answer, or None."""
    marker = os.urandom(_MARKER_BYTES)
    # The kernel fills in identifier and checksum.
    packet = _HEADER.pack(_ECHO[endpoint.family], 0, 0, 0, sequence) + marker.ljust(size, b"\0")
    began = time.monotonic()
    connection.send(packet)
    while (left := began + seconds - time.monotonic()) > 0:
        connection.settimeout(left)
        try:
            answer = connection.recv(DATAGRAM)
        except TimeoutError:
            return None
        if answer[_HEADER.size : _HEADER.size + _MARKER_BYTES] == marker:
            return round(time.monotonic() - began, 6)
    return None


CALLS: dict[str, Perform] = {"icmp": icmp}
