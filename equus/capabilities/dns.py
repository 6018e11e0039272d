"""Perform the capability `dns`: ask a name server one question. The system's resolver has no time limit."""

import re
import secrets
import socket
import time
from typing import Any

from equus.capabilities.address import NOT_A_DESTINATION, Endpoint, host_argument, literal
from equus.capabilities.calls import CallFailed, Context, Fields, Perform, bad
from equus.capabilities.dns_message import TYPES, Answer, BadMessage, parse_answer, question, reverse_name
from equus.capabilities.streams.stream import Stream, faults
from equus.policy.destinations import may_travel

LONGEST_SECONDS = 60.0
# As many as resolvers read of resolv.conf.
MOST_SERVERS = 3
DATAGRAM = 65_535
# Datagrams that don't answer the question (late, forged) are ignored; this many of them are an attack.
MOST_STRAYS = 50


def dns(args: list[Any], policy: Any, context: Context) -> dict[str, Any]:
    """Perform host.dns: return the answer of the first server that gives one. Raises CallFailed if none does."""
    fields = Fields("host.dns", args)
    name, kind = fields.text("name", limit=255), fields.choice("type", "A", tuple(TYPES)) or "A"
    server, port = fields.optional_text("server", 64), fields.whole("port", 53, 1, 65535)
    seconds, over_tcp = fields.number("timeout", 5.0, 0.01, LONGEST_SECONDS), fields.flag("tcp", False)
    fields.done()
    name = _name(name, kind)
    refusal = "a secret is never asked of a name server" if context.is_secret(name) else policy.question_refusal(name)
    if refusal is not None:
        raise CallFailed("denied", refusal)
    allowed = _allowed(_servers(server, context), port, is_named=server is not None, policy=policy, context=context)
    until = time.monotonic() + context.seconds_left(seconds)
    for number, address in enumerate(allowed):
        share = (until - time.monotonic()) / (len(allowed) - number)
        try:
            return _query(Endpoint(address, port), name, kind, max(share, 0.01), over_tcp)
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


def _allowed(servers: list[str], port: int, is_named: bool, policy: Any, context: Context) -> list[str]:
    """Return the servers that may be asked. Raises CallFailed if none may.

    `is_named`: the caller named the server; only then a refusal has its address.
    """
    refusals = {address: policy.connect_refusal("dns", address, port) for address in servers}
    granted = [address for address, refusal in refusals.items() if refusal is None]
    if not granted:
        why = [refusal for refusal in refusals.values() if refusal is not None]
        text = why[0] if is_named else policy.named_refusal("dns", "the server of /etc/resolv.conf", port, why)
        raise CallFailed("denied", text)
    allowed = [address for address in granted if may_travel(context.bound, address, address, port)]
    if not allowed:
        raise CallFailed("denied", f"the name server {NOT_A_DESTINATION}")
    return allowed


def _query(server: Endpoint, name: str, kind: str, seconds: float, over_tcp: bool) -> dict[str, Any]:
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
    """Return the first datagram that answers the question; others may be late or forged."""
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
                # With the right identifier it came from the server, and no better one will follow.
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
