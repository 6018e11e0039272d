"""The capabilities `tcp`, `udp` and `unix`: say something to a port and hear what comes back."""

import socket
from typing import Any

from equus.capabilities.address import endpoints, host_argument
from equus.capabilities.calls import CallFailed, Context, Fields, Perform, bad
from equus.capabilities.stream import Stream, faults
from equus.capabilities.tls_context import trusting_anyone

# A banner or a status page of a server; the largest is one blob of the protocol.
RECEIVE_DEFAULT, RECEIVE_LIMIT = 4096, 1_048_576
SEND_LIMIT = 65_536
MOST_SENDS = 20
DATAGRAM = 65_535
LONGEST_SECONDS = 60.0


def _bytes(call: str, name: str, value: Any, as_hex: bool) -> bytes:
    """What to send or to look for: text as UTF-8, or hexadecimal digits."""
    if not isinstance(value, str):
        raise bad(f"{call}: {name} must be a text")
    try:
        data = bytes.fromhex(value) if as_hex else value.encode("utf-8", "surrogateescape")
    except ValueError:
        raise bad(f"{call}: {name} must be hexadecimal digits, as hex = true says") from None
    if len(data) > SEND_LIMIT:
        raise bad(f"{call}: {name} must be at most {SEND_LIMIT} bytes")
    return data


def _text(data: bytes, as_hex: bool) -> str:
    return data.hex() if as_hex else data.decode("utf-8", "replace")


class _Dialogue:
    """What to send, and when enough has come back."""

    def __init__(self, fields: Fields, as_hex: bool) -> None:
        call, send = fields.call, fields.take("send")
        items = send if isinstance(send, list) else [] if send is None else [send]
        if len(items) > MOST_SENDS:
            raise bad(f"{call}: send has at most {MOST_SENDS} items")
        self.sends = [_bytes(call, "send", item, as_hex) for item in items]
        expect, until = fields.take("expect"), fields.take("until")
        self.expect = None if expect is None else _bytes(call, "expect", expect, as_hex)
        self.until = None if until is None else _bytes(call, "until", until, as_hex)
        if len(self.sends) > 1 and not self.until:
            raise bad(f"{call}: a list to send needs until, which says when the next item is due")
        self.limit = fields.whole("limit", RECEIVE_DEFAULT, 1, RECEIVE_LIMIT)

    def hold(self, stream: Stream) -> tuple[bytes, bool]:
        """Send and read; all that came, and whether the peer closed."""
        received, closed, seen = b"", False, 0
        # The greeting of a protocol with turns comes before our first item.
        waiting = list(self.sends) if len(self.sends) > 1 else []
        if not waiting and self.sends:
            stream.send(self.sends[0])
        if not (self.sends or self.expect or self.until):
            return received, closed
        while len(received) < self.limit:
            piece = self._more(stream, len(received), bool(received))
            if not piece:
                closed = piece is not None
                break
            received += piece
            if waiting and self.until and self.until in received[seen:]:
                seen = len(received)
                stream.send(waiting.pop(0))
            elif not waiting and self._enough(received, seen):
                break
        return received, closed

    def _more(self, stream: Stream, have: int, may_end: bool) -> bytes | None:
        """The next piece; None when time is up after something came, which is no fault."""
        try:
            return stream.receive(self.limit - have)
        except CallFailed as failed:
            if failed.code == "timeout" and may_end:
                return None
            raise

    def _enough(self, received: bytes, seen: int) -> bool:
        return bool(self.expect and self.expect in received) or bool(self.until and self.until in received[seen:])


def _answer(stream: Stream, dialogue: _Dialogue, as_hex: bool, **more: Any) -> dict[str, Any]:
    connected = stream.elapsed()
    received, closed = dialogue.hold(stream)
    answer = {
        "connect_seconds": connected,
        "seconds": stream.elapsed(),
        "received": _text(received, as_hex),
        "closed": closed,
        **more,
    }
    if dialogue.expect is not None:
        answer["matched"] = dialogue.expect in received
    return answer


def tcp(args: list[Any], policy: Any, context: Context) -> dict[str, Any]:
    """Connect, send, read."""
    fields = Fields("host.tcp", args)
    host, port = host_argument("host.tcp", fields.text("host")), fields.whole("port", None, 1, 65535)
    seconds, as_hex = fields.number("timeout", 5.0, 0.01, LONGEST_SECONDS), fields.flag("hex", False)
    over_tls, server_name = fields.flag("tls", False), fields.text("server_name", host)
    dialogue = _Dialogue(fields, as_hex)
    fields.done()
    candidates = endpoints("tcp", host, port, policy, context)
    with Stream(context.seconds_left(seconds)) as stream:
        endpoint = stream.connect(candidates)
        if over_tls:
            stream.start_tls(trusting_anyone(), server_name)
        return _answer(stream, dialogue, as_hex, address=endpoint.address)


def unix(args: list[Any], policy: Any, context: Context) -> dict[str, Any]:
    """The same to a socket of this host."""
    fields = Fields("host.unix", args)
    path, seconds = fields.text("path", limit=107), fields.number("timeout", 5.0, 0.01, LONGEST_SECONDS)
    as_hex = fields.flag("hex", False)
    dialogue = _Dialogue(fields, as_hex)
    fields.done()
    if not policy.may_connect_unix(path):
        raise CallFailed("denied", policy.refusal("unix", path, f'paths = ["{path}"]'))
    with Stream(context.seconds_left(seconds)) as stream:
        stream.connect_unix(path)
        return _answer(stream, dialogue, as_hex)


def udp(args: list[Any], policy: Any, context: Context) -> dict[str, Any]:
    """One datagram out, one back from the same address."""
    fields = Fields("host.udp", args)
    host, port = host_argument("host.udp", fields.text("host")), fields.whole("port", None, 1, 65535)
    seconds, as_hex = fields.number("timeout", 5.0, 0.01, LONGEST_SECONDS), fields.flag("hex", False)
    send = _bytes("host.udp", "send", fields.take("send"), as_hex)
    fields.done()
    endpoint = endpoints("udp", host, port, policy, context)[0]
    seconds = context.seconds_left(seconds)
    timer = Stream(seconds)
    with socket.socket(endpoint.family, socket.SOCK_DGRAM) as connection, faults(endpoint.text, seconds):
        connection.settimeout(seconds)
        connection.connect((endpoint.address, endpoint.port))  # only datagrams of this peer are received
        connection.send(send)
        received = connection.recv(DATAGRAM)
    return {"address": endpoint.address, "seconds": timer.elapsed(), "received": _text(received, as_hex)}


CALLS: dict[str, Perform] = {"tcp": tcp, "udp": udp, "unix": unix}
