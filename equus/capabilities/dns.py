"""The capability `dns`: ask a name server one question. Its own client: the system's resolver has no time limit."""

import re
import secrets
import socket
import time
from typing import Any

from equus.capabilities.address import Endpoint, host_argument, literal
from equus.capabilities.calls import CallFailed, Context, Fields, Perform, bad
from equus.capabilities.dns_message import TYPES, Answer, BadMessage, parse_answer, question, reverse_name
from equus.capabilities.stream import Stream, faults

LONGEST_SECONDS = 60.0
# What resolvers read of resolv.conf.
MOST_SERVERS = 3
DATAGRAM = 65_535
# Datagrams that are no answer to us (late, forged) are passed over; so many of them are an attack.
MOST_STRAYS = 50


def dns(args: list[Any], policy: Any, context: Context) -> dict[str, Any]:
    """The first server that answers."""
    fields = Fields("host.dns", args)
    name, kind = fields.text("name", limit=255), fields.choice("type", "A", tuple(TYPES)) or "A"
    server, port = fields.optional_text("server", 64), fields.whole("port", 53, 1, 65535)
    seconds, over_tcp = fields.number("timeout", 5.0, 0.01, LONGEST_SECONDS), fields.flag("tcp", False)
    fields.done()
    name = _name(name, kind)
    servers = _servers(server, context)
    allowed = [address for address in servers if policy.may_connect("dns", address, port)]
    if not allowed:
        raise CallFailed("denied", policy.connect_refusal("dns", servers[0], port))
    until = time.monotonic() + context.seconds_left(seconds)
    for number, address in enumerate(allowed):
        share = (until - time.monotonic()) / (len(allowed) - number)
        try:
            return _asked(Endpoint(address, port), name, kind, max(share, 0.01), over_tcp)
        except CallFailed:
            if number == len(allowed) - 1:
                raise
    raise AssertionError("allowed is never empty")


def _name(name: str, kind: str) -> str:
    if kind == "PTR" and literal(name):
        return reverse_name(name)
    return host_argument("host.dns", name) if name != "." else name


def _servers(server: str | None, context: Context) -> list[str]:
    if server is not None:
        address = literal(server)
        if address is None:
            raise bad("host.dns: server must be an address")
        return [address]
    found = re.findall(r"^nameserver\s+(\S+)", context.read("/etc/resolv.conf"), re.MULTILINE)[:MOST_SERVERS]
    servers = [address for address in map(literal, found) if address]
    if not servers:
        raise CallFailed("unsupported", "/etc/resolv.conf names no server with a plain address")
    return servers


def _asked(server: Endpoint, name: str, kind: str, seconds: float, over_tcp: bool) -> dict[str, Any]:
    identifier = secrets.randbelow(1 << 16)
    timer = Stream(seconds)
    message = question(identifier, name, kind)
    try:
        answer = None if over_tcp else _by_datagram(server, message, identifier, name, kind, timer)
        if answer is None or answer.truncated:
            answer = parse_answer(_by_stream(server, message, timer), identifier, name, kind)
    except BadMessage as fault:
        raise CallFailed("protocol", f"{server.text} sent a bad answer: {fault}") from None
    return {
        "server": server.address, "name": name, "type": kind, "status": answer.status,
        "authoritative": answer.authoritative, "truncated": answer.truncated,
        "seconds": timer.elapsed(), "answers": list(answer.answers),
    }  # fmt: skip


def _by_datagram(server: Endpoint, message: bytes, identifier: int, name: str, kind: str, timer: Stream) -> Answer:
    """The first datagram that answers our question; the rest may be anybody's."""
    with socket.socket(server.family, socket.SOCK_DGRAM) as connection, faults(server.text, timer.seconds):
        connection.settimeout(timer.left())
        connection.connect((server.address, server.port))
        connection.send(message)
        for stray in range(MOST_STRAYS):
            connection.settimeout(timer.left())
            data = connection.recv(DATAGRAM)
            try:
                return parse_answer(data, identifier, name, kind)
            except BadMessage:
                # With our identifier it is that server's doing, and no better one will come.
                if data[:2] == message[:2] or stray == MOST_STRAYS - 1:
                    raise
    raise AssertionError("the loop above returns or raises")


def _by_stream(server: Endpoint, message: bytes, timer: Stream) -> bytes:
    with Stream(timer.seconds) as stream:
        stream.started = timer.started  # one time limit for both ways
        stream.connect([server])
        stream.send(len(message).to_bytes(2, "big") + message)
        return _exactly(stream, int.from_bytes(_exactly(stream, 2), "big"))


def _exactly(stream: Stream, length: int) -> bytes:
    data = b""
    while len(data) < length:
        piece = stream.receive(length - len(data))
        if not piece:
            raise BadMessage("the connection ended within it")
        data += piece
    return data


CALLS: dict[str, Perform] = {"dns": dns}
