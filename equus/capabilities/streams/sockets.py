"""Perform the capabilities `tcp`, `udp` and `unix`: send to a port or socket and return the answer.

stream_dialogue.py sends and decides when enough has come. A connection can be kept for the next call of the same run.
"""

import socket
from typing import Any

from attrs import define, frozen

from equus.capabilities.address import NOT_A_DESTINATION, Endpoint, endpoints, host_argument, literal
from equus.capabilities.calls import CallFailed, Context, Fields, Perform, bad
from equus.capabilities.streams.stream import Stream, faults
from equus.capabilities.streams.stream_dialogue import Dialogue, as_bytes, as_text
from equus.capabilities.streams.tls_context import anonymous, not_verifying, verifying
from equus.policy.destinations import may_travel_to_path

DATAGRAM = 65_535
LONGEST_SECONDS = 60.0
CA_BYTES = 1_048_576


@define
class _Connection:
    """Holds an open connection and its peer's name."""

    stream: Stream
    name: str  # the host as it was asked for, or the path of the socket
    endpoint: Endpoint | None = None
    is_tls: bool = False

    def close(self) -> None:
        self.stream.close()


@frozen
class _StreamOptions:
    """Holds the arguments of a call on a stream, apart from its destination."""

    dialogue: Dialogue
    seconds: float
    keep: bool

    @classmethod
    def take(cls, fields: Fields) -> "_StreamOptions":
        """Read them from the arguments of a call."""
        seconds = fields.number("timeout", 5.0, 0.01, LONGEST_SECONDS)
        return cls(Dialogue.take(fields), seconds, fields.flag("keep", False))


@frozen
class _TlsOptions:
    """Holds the TLS arguments of a call: TLS begins with it if `begins`, and `verify` and `ca` say what it accepts."""

    begins: bool
    server_name: str | None
    verify: bool
    ca: str | None
    anonymous: bool

    @classmethod
    def take(cls, fields: Fields) -> "_TlsOptions":
        """Read them from the arguments of a call. Raises CallFailed if they contradict each other."""
        begins, verify = fields.flag("tls", False), fields.flag("verify", False)
        anonymous = fields.flag("anonymous", False)
        name, ca = fields.optional_text("server_name", 253), fields.optional_text("ca", CA_BYTES)
        if (verify or ca or anonymous) and not begins:
            raise bad(f"{fields.call}: verify, ca and anonymous are for tls = true")
        if anonymous and (verify or ca):
            raise bad(f"{fields.call}: anonymous = true asks for no certificate, so nothing can be verified")
        return cls(begins, name, verify or ca is not None, ca, anonymous)

    def begin(self, connection: _Connection) -> None:
        """Start TLS on the connection, if asked for. Raises CallFailed if it has TLS already."""
        if self.begins and connection.is_tls:
            raise bad("host.tcp: this connection speaks TLS already")
        if self.begins:
            settings = verifying(self.ca) if self.verify else anonymous() if self.anonymous else not_verifying()
            connection.stream.start_tls(settings, self.server_name or connection.name)
            connection.is_tls = True


def tcp(args: list[Any], policy: Any, context: Context) -> dict[str, Any]:
    """Perform host.tcp: connect, or go on with a kept connection; send and read. Raises CallFailed if denied."""
    fields = Fields("host.tcp", args)
    number = fields.take("connection")
    target = None
    if number is None:
        target = host_argument("host.tcp", fields.text("host")), fields.whole("port", None, 1, 65535)
    options, tls_options = _StreamOptions.take(fields), _TlsOptions.take(fields)
    fields.done()
    stream = Stream(context.seconds_left(options.seconds))
    if target is None:
        connection = _kept_connection("host.tcp", number, context, stream.seconds)
        assert connection.endpoint is not None
        address, port = connection.endpoint.address, connection.endpoint.port
        refusal = policy.connect_refusal("tcp", address, port)
        if refusal is not None:  # the policy has changed since
            connection.close()
            named = literal(connection.name) is None
            text = policy.named_refusal("tcp", connection.name, port, [refusal]) if named else refusal
            raise CallFailed("denied", text)
    else:
        connection = _Connection(stream, target[0])
        connection.endpoint = stream.connect(endpoints("tcp", *target, policy, context, stream.seconds))
    return _run_dialogue(connection, options, tls_options, number, context)


def unix(args: list[Any], policy: Any, context: Context) -> dict[str, Any]:
    """Perform host.unix: the same with a socket of this host. Raises CallFailed if denied."""
    fields = Fields("host.unix", args)
    number = fields.take("connection")
    path = fields.text("path", limit=107) if number is None else ""
    options = _StreamOptions.take(fields)
    fields.done()
    stream = Stream(context.seconds_left(options.seconds))
    connection = (
        _Connection(stream, path) if number is None else _kept_connection("host.unix", number, context, stream.seconds)
    )
    if not policy.may_connect_unix(connection.name):
        connection.close()
        raise CallFailed("denied", policy.refusal("unix", connection.name, f'paths = ["{connection.name}"]'))
    if not may_travel_to_path(context.bound, connection.name):
        connection.close()
        raise CallFailed("denied", f"{connection.name} {NOT_A_DESTINATION}")
    if number is None:
        stream.connect_unix(path)
    return _run_dialogue(connection, options, None, number, context)


def _kept_connection(call: str, number: Any, context: Context, seconds: float) -> _Connection:
    """Take the kept connection of this number, and give it a new time limit."""
    connection = context.kept.take(number)
    if connection is not None and (connection.endpoint is None) != (call == "host.unix"):
        context.kept.put(connection, number)  # it was kept by the other call, which may still use it
        connection = None
    if connection is None:
        raise bad(f"{call}: connection must be the number of one that an earlier call of this run has kept")
    assert isinstance(connection, _Connection)
    connection.stream.renew(seconds)
    return connection


def _run_dialogue(
    connection: _Connection,
    options: _StreamOptions,
    tls_options: _TlsOptions | None,
    number: int | None,
    context: Context,
) -> dict[str, Any]:
    """Run the dialogue; then close the connection, unless it is to be kept."""
    answer: dict[str, Any] = {} if connection.endpoint is None else {"address": connection.endpoint.address}
    kept = False
    try:
        if number is None:
            answer["connect_seconds"] = connection.stream.elapsed()
        if tls_options is not None:
            tls_options.begin(connection)
        answer |= options.dialogue.run(connection.stream) | {"seconds": connection.stream.elapsed()}
        if options.keep and not answer["closed"]:
            answer["connection"] = context.kept.put(connection, number)
            kept = True
        return answer
    finally:
        if not kept:
            connection.close()


def udp(args: list[Any], policy: Any, context: Context) -> dict[str, Any]:
    """Perform host.udp: send one datagram, and return one from the same address."""
    fields = Fields("host.udp", args)
    host, port = host_argument("host.udp", fields.text("host")), fields.whole("port", None, 1, 65535)
    seconds, as_hex = fields.number("timeout", 5.0, 0.01, LONGEST_SECONDS), fields.flag("hex", False)
    send = as_bytes("host.udp", "send", fields.take("send"), as_hex)
    fields.done()
    endpoint = endpoints("udp", host, port, policy, context, seconds)[0]
    seconds = context.seconds_left(seconds)
    timer = Stream(seconds)
    with socket.socket(endpoint.family, socket.SOCK_DGRAM) as connection, faults(endpoint.text, seconds):
        connection.settimeout(seconds)
        connection.connect((endpoint.address, endpoint.port))  # only datagrams of this peer are received
        connection.send(send)
        received = connection.recv(DATAGRAM)
    return {"address": endpoint.address, "seconds": timer.elapsed(), "received": as_text(received, as_hex)}


CALLS: dict[str, Perform] = {"tcp": tcp, "udp": udp, "unix": unix}
