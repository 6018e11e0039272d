"""Define what a negotiation has to do with: its states, brokers to connect to, and effects for its connection. Pure."""

from __future__ import annotations

import enum
from typing import Any

import attrs


class State(enum.Enum):
    """Names the states of a negotiation: scale0/endpoint/negotiation.py has their table."""

    LOST = "lost"
    DIALLING = "dialling"
    ASKING = "asking"
    CHECKING = "checking"
    CONFIGURED = "configured"
    ACTIVE = "active"
    BACKOFF = "backoff"
    STOPPED = "stopped"


@attrs.frozen
class Target:
    """Names a broker to connect to."""

    endpoint: str
    key: str = ""  # its CURVE public key
    identity: str = ""
    token: str = attrs.field(default="", repr=False)  # of the process that hosts the broker, if that is this one


@attrs.frozen
class Dial:
    """Asks to open a new socket to this broker; the old one, if any, is closed."""

    target: Target


@attrs.frozen
class SendCommand:
    """Asks to send a command."""

    command: str
    options: dict[str, Any]


@attrs.frozen
class Configured:
    """Tells that a configuration has come, or (None) that the one on record is still in force."""

    document: bytes | None
    form: str
    version: str


@attrs.frozen
class StateChanged:
    """Tells that another state was entered, why, and the broker's error code if there is one."""

    state: State
    why: str = ""
    code: int = 0


Effect = Dial | SendCommand | Configured | StateChanged
