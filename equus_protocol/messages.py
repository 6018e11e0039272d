"""The messages of the Equus protocol, as frozen values; docs/protocol.rst is their specification.

The order of the attributes is the order of the fields on the wire. A `blob` (or the `args` of a check) stands for the
length at the end of the line and the bytes behind it. What may be said when, and by whom, is in conversation.py.
"""

from __future__ import annotations

from attrs import frozen


@frozen
class Hello:
    """Equus introduces itself; the first line of every connection that isn't an enrolment."""

    version: int
    equus_version: str


@frozen
class Error:
    """Helen's last word. The message is a slug of errors.SLUGS, perhaps with `;retry-after=SECONDS`."""

    message: str


@frozen
class Reload:
    """Equus shall read its Lua again."""


@frozen
class Check:
    """Run this check now, once."""

    name: str
    message_id: int
    args: bytes


@frozen
class Result:
    """What came of a `check`."""

    message_id: int
    name: str
    blob: bytes


@frozen
class Enrol:
    """A request for a certificate, by token or by the certificate held."""

    message_id: int
    name: str
    blob: bytes


@frozen
class Enrolled:
    """A certificate, and the keys to trust."""

    message_id: int
    blob: bytes


@frozen
class Ping:
    """Are you there?"""

    message_id: int


@frozen
class Pong:
    """Yes."""

    message_id: int


@frozen
class AskManifest:
    """Which code shall I run?"""

    message_id: int


@frozen
class Manifest:
    """The signed set of checks."""

    message_id: int
    blob: bytes


@frozen
class Fetch:
    """The file with this hash, please."""

    message_id: int
    sha256: str


@frozen
class File:
    """The file with this hash."""

    message_id: int
    sha256: str
    blob: bytes


@frozen
class Loaded:
    """What Equus runs from now on."""

    digest: str
    blob: bytes


@frozen
class Schedule:
    """Everything that Equus shall run by its own clock."""

    message_id: int
    blob: bytes


@frozen
class Report:
    """The result of a scheduled run, numbered by the agent's spool."""

    spool: str
    sequence: int
    check: str
    blob: bytes


@frozen
class Ack:
    """Every report of this spool up to this sequence is durable."""

    spool: str
    sequence: int


@frozen
class Cancel:
    """Give up a check that is still running."""

    message_id: int


@frozen
class Servers:
    """Other Helens to try, in order of preference."""

    message_id: int
    blob: bytes


Message = (
    Hello | Error | Reload | Check | Result | Enrol | Enrolled | Ping | Pong | AskManifest | Manifest | Fetch | File
    | Loaded | Schedule | Report | Ack | Cancel | Servers
)  # fmt: skip
