"""Define the messages of the Equus protocol as frozen values; docs/protocol.rst is their specification.

The order of the attributes is the order of the fields on the wire. A `blob` (or the `args` of a check) stands for the
length at the end of the line and the bytes behind it. FORMS in codec.py is the
grammar, LEGAL in legality.py says which side may send a message when: a new message has a row in both.
"""

from __future__ import annotations

from attrs import frozen

from equus_protocol.cheap_values import cheap_value


@frozen
class Hello:
    """Introduce the agent; the first line of every connection that isn't an enrolment."""

    version: int
    equus_version: str


@frozen
class Error:
    """Tell the agent why Helen closes the connection: a slug of errors.SLUGS, perhaps with `;retry-after=SECONDS`."""

    message: str


@frozen
class Reload:
    """Tell the agent to read its Lua again: from its folder in version 1, by asking for the manifest in version 2."""


@cheap_value
class Check:
    """Ask the agent to run this check now, once."""

    name: str
    message_id: int
    args: bytes


@cheap_value
class Result:
    """Answer a `check` with the result of its run."""

    message_id: int
    name: str
    blob: bytes


@frozen
class Enrol:
    """Ask for a certificate, by a token or by the certificate that the agent holds."""

    message_id: int
    name: str
    blob: bytes


@frozen
class Enrolled:
    """Answer an `enrol` with a certificate and the keys to trust."""

    message_id: int
    blob: bytes


@cheap_value
class Ping:
    """Ask the peer for a `pong`, to see that it is still there."""

    message_id: int


@cheap_value
class Pong:
    """Answer a `ping`."""

    message_id: int


@frozen
class AskManifest:
    """Ask for the manifest of the check set to run."""

    message_id: int


@frozen
class Manifest:
    """Answer an `AskManifest` with the signed manifest, see delivery.py."""

    message_id: int
    blob: bytes


@frozen
class Fetch:
    """Ask for the file with this hash."""

    message_id: int
    sha256: str


@frozen
class File:
    """Answer a `fetch` with the bytes of the file."""

    message_id: int
    sha256: str
    blob: bytes


@frozen
class Loaded:
    """Tell Helen the digest of the manifest that the agent runs from now on, with a report about its files."""

    digest: str
    blob: bytes


@frozen
class Schedule:
    """Give the agent all entries that it runs by its own clock."""

    message_id: int
    blob: bytes


@cheap_value
class Report:
    """Bring the result of a scheduled run, numbered by the agent's spool."""

    spool: str
    sequence: int
    check: str
    blob: bytes


@cheap_value
class Ack:
    """Confirm that every report of this spool up to this sequence is durable."""

    spool: str
    sequence: int


@frozen
class Cancel:
    """Tell the agent to give up a check that is still running."""

    message_id: int


@frozen
class Servers:
    """Name other Helens that the agent may connect to, in order of preference."""

    message_id: int
    blob: bytes


@frozen
class Tunnel:
    """Ask the agent to open a stream of bytes in both directions; Helen allows `window` bytes of the agent's at first.

    The blob is a JSON object that says for whom, see docs/protocol.rst.
    """

    message_id: int
    kind: str
    window: int
    blob: bytes


@frozen
class Bytes:
    """Bring the next bytes of a tunnel."""

    message_id: int
    blob: bytes


@frozen
class Window:
    """Allow the peer to send so many bytes more in a tunnel. The agent's first one says that the tunnel is open."""

    message_id: int
    more: int


@frozen
class Close:
    """End a tunnel, or say that it was not opened; the other side answers with its own."""

    message_id: int
    reason: str


Message = (
    Hello | Error | Reload | Check | Result | Enrol | Enrolled | Ping | Pong | AskManifest | Manifest | Fetch | File
    | Loaded | Schedule | Report | Ack | Cancel | Servers | Tunnel | Bytes | Window | Close
)  # fmt: skip
