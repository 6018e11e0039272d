"""The capabilities `tcp`, `udp` and `unix`: say something to a port and hear what comes back.

What is said and when enough has come is in dialogue.py. A connection can be kept for the next call of the same run.
"""

import socket
from typing import Any

from attrs import define, frozen

from equus.capabilities.address import Endpoint, endpoints, host_argument
from equus.capabilities.calls import CallFailed, Context, Fields, Perform, bad
from equus.capabilities.dialogue import Dialogue, as_bytes, as_text
from equus.capabilities.stream import Stream, faults
from equus.capabilities.tls_context import trusting_anyone, verifying

DATAGRAM = 65_535
LONGEST_SECONDS = 60.0
CA_BYTES = 1_048_576


@define
class _Line:
    """An open connection, and where it leads."""

    stream: Stream
    name: str  # the host as it was asked for, or the path of the socket
    endpoint: Endpoint | None = None
    is_tls: bool = False

    def close(self) -> None:
        self.stream.close()


@frozen
class _Manner:
    """What a call on a stream says beside where it leads."""

    dialogue: Dialogue
    seconds: float
    keep: bool

    @classmethod
    def take(cls, fields: Fields) -> "_Manner":
        seconds = fields.number("timeout", 5.0, 0.01, LONGEST_SECONDS)
        return cls(Dialogue.take(fields), seconds, fields.flag("keep", False))


@frozen
class _Secrecy:
    """Whether TLS begins with this call, and whom it trusts."""

    begins: bool
    server_name: str | None
    verify: bool
    ca: str | None

    @classmethod
    def take(cls, fields: Fields) -> "_Secrecy":
        begins, verify = fields.flag("tls", False), fields.flag("verify", False)
        name, ca = fields.optional_text("server_name", 253), fields.optional_text("ca", CA_BYTES)
        if (verify or ca) and not begins:
            raise bad(f"{fields.call}: verify and ca are for tls = true")
        return cls(begins, name, verify or ca is not None, ca)

    def begin(self, line: _Line) -> None:
        if self.begins and line.is_tls:
            raise bad("host.tcp: this connection speaks TLS already")
        if self.begins:
            settings = verifying(self.ca) if self.verify else trusting_anyone()
            line.stream.start_tls(settings, self.server_name or line.name)
            line.is_tls = True


def tcp(args: list[Any], policy: Any, context: Context) -> dict[str, Any]:
    """Connect or go on, send, read."""
    fields = Fields("host.tcp", args)
    number = fields.take("connection")
    target = None
    if number is None:
        target = host_argument("host.tcp", fields.text("host")), fields.whole("port", None, 1, 65535)
    manner, secrecy = _Manner.take(fields), _Secrecy.take(fields)
    fields.done()
    stream = Stream(context.seconds_left(manner.seconds))
    if target is None:
        line = _kept("host.tcp", number, context, stream.seconds)
        assert line.endpoint is not None
        refusal = policy.connect_refusal("tcp", line.endpoint.address, line.endpoint.port)
        if refusal is not None:  # the policy has changed since
            line.close()
            raise CallFailed("denied", refusal)
    else:
        line = _Line(stream, target[0])
        line.endpoint = stream.connect(endpoints("tcp", *target, policy, context))
    return _speak(line, manner, secrecy, number, context)


def unix(args: list[Any], policy: Any, context: Context) -> dict[str, Any]:
    """The same to a socket of this host."""
    fields = Fields("host.unix", args)
    number = fields.take("connection")
    path = fields.text("path", limit=107) if number is None else ""
    manner = _Manner.take(fields)
    fields.done()
    stream = Stream(context.seconds_left(manner.seconds))
    line = _Line(stream, path) if number is None else _kept("host.unix", number, context, stream.seconds)
    if not policy.may_connect_unix(line.name):
        line.close()
        raise CallFailed("denied", policy.refusal("unix", line.name, f'paths = ["{line.name}"]'))
    if number is None:
        stream.connect_unix(path)
    return _speak(line, manner, None, number, context)


def _kept(call: str, number: Any, context: Context, seconds: float) -> _Line:
    """The connection of this number, its clock set anew."""
    line = context.kept.take(number)
    if line is not None and (line.endpoint is None) != (call == "host.unix"):
        context.kept.put(line, number)  # it is the other call's, and stays so
        line = None
    if line is None:
        raise bad(f"{call}: connection must be the number of one that an earlier call of this run has kept")
    assert isinstance(line, _Line)
    line.stream.renew(seconds)
    return line


def _speak(
    line: _Line, manner: _Manner, secrecy: _Secrecy | None, number: int | None, context: Context
) -> dict[str, Any]:
    """Hold the dialogue; the connection is closed after it unless it is to be kept."""
    answer: dict[str, Any] = {} if line.endpoint is None else {"address": line.endpoint.address}
    kept = False
    try:
        if number is None:
            answer["connect_seconds"] = line.stream.elapsed()
        if secrecy is not None:
            secrecy.begin(line)
        answer |= manner.dialogue.hold(line.stream) | {"seconds": line.stream.elapsed()}
        if manner.keep and not answer["closed"]:
            answer["connection"] = context.kept.put(line, number)
            kept = True
        return answer
    finally:
        if not kept:
            line.close()


def udp(args: list[Any], policy: Any, context: Context) -> dict[str, Any]:
    """One datagram out, one back from the same address."""
    fields = Fields("host.udp", args)
    host, port = host_argument("host.udp", fields.text("host")), fields.whole("port", None, 1, 65535)
    seconds, as_hex = fields.number("timeout", 5.0, 0.01, LONGEST_SECONDS), fields.flag("hex", False)
    send = as_bytes("host.udp", "send", fields.take("send"), as_hex)
    fields.done()
    endpoint = endpoints("udp", host, port, policy, context)[0]
    seconds = context.seconds_left(seconds)
    timer = Stream(seconds)
    with socket.socket(endpoint.family, socket.SOCK_DGRAM) as connection, faults(endpoint.text, seconds):
        connection.settimeout(seconds)
        connection.connect((endpoint.address, endpoint.port))  # only datagrams of this peer are received
        connection.send(send)
        received = connection.recv(DATAGRAM)
    return {"address": endpoint.address, "seconds": timer.elapsed(), "received": as_text(received, as_hex)}


CALLS: dict[str, Perform] = {"tcp": tcp, "udp": udp, "unix": unix}
