"""Sets the options of ZeroMQ sockets: their kinds, the limits that each of ours has, and CURVE."""

from __future__ import annotations

import enum

import attrs
import zmq

HIGH_WATER = 10_000  # messages per peer and direction
MESSAGE_BYTES = 8 << 20  # per frame (MAXMSGSIZE) and for all frames of a message together
HEARTBEAT_INTERVAL = 2500  # ms between pings of ZMTP, which find a dead host under a live socket
HEARTBEAT_TIMEOUT = 7500
HANDSHAKE_TIMEOUT = 10_000  # ms; a connection that says nothing holds a descriptor no longer
RECONNECT, RECONNECT_MAX = 250, 5000  # ms; doubling, so that a restarted broker is not stormed


class SocketError(Exception):
    """Reports that libzmq refuses an endpoint or a key; the text says which and why."""


class Kind(enum.Enum):
    """Names the kinds of ZeroMQ sockets that are used here."""

    ROUTER = zmq.ROUTER
    DEALER = zmq.DEALER
    PUB = zmq.PUB
    XPUB = zmq.XPUB  # a PUB that receives subscriptions, each of them
    SUB = zmq.SUB


@attrs.frozen
class CurveServer:
    """Secures a socket that others connect to."""

    secret: str = attrs.field(repr=False)


@attrs.frozen
class CurveClient:
    """Secures a socket that connects to one server, by a key that is known beforehand."""

    public: str
    secret: str = attrs.field(repr=False)
    server: str


def new_keys() -> tuple[str, str]:
    """Return a fresh CURVE pair in Z85 text: public, secret."""
    public, secret = zmq.curve_keypair()
    return public.decode("ascii"), secret.decode("ascii")


def public_key(secret: str) -> str:
    """Return the public half of a secret key. Raises SocketError if the text is no CURVE key."""
    try:
        return str(zmq.curve_public(secret.encode("ascii")).decode("ascii"))
    except (zmq.ZMQError, ValueError) as e:
        raise SocketError("a CURVE key is 40 characters of Z85 text; make one with `scale0ctl keygen`") from e


def set_limits(raw: zmq.Socket[bytes], kind: Kind) -> None:
    """Bound queues, message sizes and waiting times of a new socket."""
    options = {
        zmq.LINGER: 0,
        zmq.SNDHWM: HIGH_WATER,
        zmq.RCVHWM: HIGH_WATER,
        zmq.MAXMSGSIZE: MESSAGE_BYTES,
        zmq.HEARTBEAT_IVL: HEARTBEAT_INTERVAL,
        zmq.HEARTBEAT_TIMEOUT: HEARTBEAT_TIMEOUT,
        zmq.HANDSHAKE_IVL: HANDSHAKE_TIMEOUT,
        zmq.RECONNECT_IVL: RECONNECT,
        zmq.RECONNECT_IVL_MAX: RECONNECT_MAX,
        zmq.IPV6: 1,
    }
    if kind is Kind.ROUTER:
        options |= {zmq.ROUTER_MANDATORY: 1, zmq.ROUTER_HANDOVER: 0}
    if kind is Kind.XPUB:
        options |= {zmq.XPUB_VERBOSE: 1}
    for option, value in options.items():
        raw.set(option, value)


def set_security(raw: zmq.Socket[bytes], security: CurveServer | CurveClient | None) -> None:
    """Give a new socket its CURVE keys; None leaves it without encryption (NULL)."""
    match security:
        case CurveServer(secret):
            raw.set(zmq.CURVE_SERVER, 1)
            raw.set(zmq.CURVE_SECRETKEY, secret.encode("ascii"))
        case CurveClient(public, secret, server):
            raw.set(zmq.CURVE_SERVERKEY, server.encode("ascii"))
            raw.set(zmq.CURVE_PUBLICKEY, public.encode("ascii"))
            raw.set(zmq.CURVE_SECRETKEY, secret.encode("ascii"))
