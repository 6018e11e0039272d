"""Decodes and encodes the options of Scale0's commands, which are JSON objects. Pure.

Each command has a class here, and two tables say which command a broker or a client may be sent. A field without a
default is required. Unknown options are ignored, so that a later version may add some. A Fault carries the code and
the reason for a DISCONNECTERROR.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta, Struct

from scale0.wire.frames import is_service_name

MAX_OPTIONS = 64 << 10  # bytes, of the protocol; larger things travel in the body

Text = Annotated[str, Meta(min_length=1, max_length=255)]
Asker = Annotated[str, Meta(max_length=600)]  # an identity, and the name of a key
Version = Annotated[str, Meta(pattern=r"^[0-9]{1,20}\Z")]
Interval = Annotated[float, Meta(gt=0, le=3600)]
Millis = Annotated[int, Meta(ge=1, le=86_400_000)]  # a day; what may take longer is a task, not a request
Services = Annotated[list[Annotated[str, Meta(max_length=255)]], Meta(max_length=20_000)]
ConfigSyntax = Literal["JSON", "XML", "ZFL"]


class Fault(Exception):
    """Reports a command that is refused, with the code, reason and message of its DISCONNECTERROR."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.code, self.reason, self.message = code, reason, message


Seal = Annotated[str, Meta(max_length=128)]  # a signature over an attachment, which brokers pass on and do not read


class CheckConfig(Struct, frozen=True):
    """Begins a session: the sender names itself and the configuration that it has."""

    identity: Text
    services: Services
    config_type: ConfigSyntax
    config_version: Version = "0"
    role: Literal["frontend", "backend", "peer", ""] = ""
    hbeatinterval: Interval | None = None
    time: float | None = None
    token: Annotated[str, Meta(max_length=128)] = ""  # of the process that hosts the broker


class Ready(Struct, frozen=True):
    """Declares all services of a worker, and how many requests it takes at once."""

    services: Services
    heartbeat: bool
    time: float
    config_version: Version
    hbeatinterval: Interval | None = None
    concurrency: Annotated[int, Meta(ge=1, le=1000)] = 1
    epochs: dict[str, int] = {}
    seals: dict[str, Seal] = {}


class ServicesDelta(Struct, frozen=True):
    """Adds and removes services of a worker; a gap in `seq` shows that one was lost.

    From the broker: `holders` have the removed services now, each an identity, its attach epoch, and the seal of that.
    """

    add: Services = []
    remove: Services = []
    seq: Annotated[int, Meta(ge=0)] = 0
    epochs: dict[str, int] = {}
    seals: dict[str, Seal] = {}
    holders: dict[str, tuple[str, int]] = {}


class Heartbeat(Struct, frozen=True):
    """Shows that the sender is alive; between brokers it also carries the state, and the digest of the table."""

    time: float
    config_version: Version
    state: str = ""
    seq: int = -1
    digest: str = ""
    broker: str = ""
    documents: str = ""  # the digest of those that the sender holds


class Request(Struct, frozen=True):
    """Asks a service for something; the body travels in frames behind the options.

    `asked_by`: who asks a service of Helens, in the words of the broker that took it; a client's own are passed over.
    """

    id: Text
    service: Text
    timeout_ms: Millis | None = None
    priority: Annotated[int, Meta(ge=0, le=9)] = 4
    idempotent: bool | None = None
    asked_by: Asker = ""


class Reply(Struct, frozen=True):
    """Answers a request, in part (PARTIAL) or for the last time (FINAL)."""

    id: Text
    code: Annotated[int, Meta(ge=100, le=999)] = 200
    reason: Annotated[str, Meta(max_length=255)] = ""
    refused: bool = False  # set by a broker that did not take a FORWARD; the request may go elsewhere


class Cancel(Struct, frozen=True):
    """Withdraws a request."""

    id: Text


class ManagementReq(Struct, frozen=True):
    """Asks a broker for one management command, with the credentials of an operator."""

    auth_id: Annotated[str, Meta(max_length=255)]
    auth_password: Annotated[str, Meta(max_length=1024)]
    command: Annotated[str, Meta(max_length=64)]
    key: Annotated[str, Meta(max_length=255)] = ""


class NeedBroker(Struct, frozen=True):
    """Asks for another broker that serves these services; `failed` are identities that were tried already."""

    identity: Annotated[str, Meta(max_length=255)] = ""
    services: Services = []
    failed: Annotated[list[str], Meta(max_length=1000)] = []


class Forward(Struct, frozen=True):
    """Passes a request on to a peer broker; `path` names the brokers that it came through."""

    id: Text
    service: Text
    path: Annotated[list[str], Meta(max_length=64)]
    deadline: Annotated[float, Meta(ge=0)] = 0.0  # milliseconds left; 0: none
    priority: Annotated[int, Meta(ge=0, le=9)] = 4
    idempotent: bool | None = None
    asked_by: Asker = ""


Entry = Annotated[list[Annotated[int, Meta(ge=0)]], Meta(min_length=3, max_length=3)]


class Table(Struct, frozen=True):
    """Tells a peer broker which services have how many workers: the whole table, or what changed."""

    seq: Annotated[int, Meta(ge=0)]
    full: bool
    digest: str
    entries: dict[str, Entry]
    holders: dict[str, tuple[str, int]] = {}  # service -> identity of the worker that offers it, attach epoch
    seals: dict[str, Seal] = {}
    part: int = 0
    parts: int = 1


class TableReq(Struct, frozen=True):
    """Asks a peer broker for its whole table."""

    since: Annotated[int, Meta(ge=0)] = 0


DocumentName = Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}\Z")]
DocumentVersion = Annotated[int, Meta(ge=1, le=2**63 - 1)]


class Publish(Struct, frozen=True):
    """Carries a document, both ways; the body is its content."""

    name: DocumentName
    version: DocumentVersion
    type: ConfigSyntax = "JSON"
    signature: Annotated[str, Meta(max_length=128)] = ""


class Published(Struct, frozen=True):
    """Answers PUBLISH with a verdict: news, known, old, conflict or refused."""

    name: str
    version: int = 0
    verdict: str = ""
    reason: str = ""


class DocumentsTold(Struct, frozen=True):
    """Lists the documents that the sender holds; `want` asks for the receiver's list."""

    have: Annotated[dict[DocumentName, tuple[DocumentVersion, str]], Meta(max_length=256)]
    want: bool = False


class ConfigTold(Struct, frozen=True):
    """Tells a client or a peer broker its configuration: a document (CONFIG), or that it has it already (CONFIGACK)."""

    config_version: Version
    config_type: str = "JSON"
    digest: str = ""
    time: float = 0.0
    hbeatinterval: float = 0.0
    broker: str = ""


class DisconnectError(Struct, frozen=True):
    """Ends a session with an error code."""

    code: int
    message: str = ""
    reason: str = ""
    retry_after_ms: int = 0


class UseBroker(Struct, frozen=True):
    """Answers NEEDBROKER with one broker and its endpoints."""

    identity: str
    frontend: str = ""
    backend: str = ""
    public_key: str = ""
    config_version: str = "0"


class Nothing(Struct, frozen=True):
    """Stands for the options of commands of which none has to be read."""


TO_BROKER: dict[str, type[Struct]] = {
    "CHECKCONFIG": CheckConfig,
    "READY": Ready,
    "SERVICES": ServicesDelta,
    "HEARTBEAT": Heartbeat,
    "REQUEST": Request,
    "PARTIAL": Reply,
    "FINAL": Reply,
    "CANCEL": Cancel,
    "MANAGEMENTREQ": ManagementReq,
    "NEEDBROKER": NeedBroker,
    "DISCONNECT": Nothing,
    "FORWARD": Forward,
    "TABLE": Table,
    "TABLEREQ": TableReq,
    "PUBLISH": Publish,
    "PUBLISHED": Published,
    "DOCUMENTS": DocumentsTold,
    "CONFIG": ConfigTold,
    "CONFIGACK": ConfigTold,
    "FORCENEGOTIATE": Nothing,
    "DISCONNECTERROR": DisconnectError,
}

TO_CLIENT: dict[str, type[Struct]] = {
    "CONFIG": ConfigTold,
    "CONFIGACK": ConfigTold,
    "HEARTBEAT": Heartbeat,
    "REQUEST": Request,
    "PARTIAL": Reply,
    "FINAL": Reply,
    "CANCEL": Cancel,
    "SERVICES": ServicesDelta,
    "PUBLISH": Publish,
    "PUBLISHED": Published,
    "DOCUMENTS": DocumentsTold,
    "MANAGEMENTREP": Nothing,
    "DISCONNECTERROR": DisconnectError,
    "FORCENEGOTIATE": Nothing,
    "USEBROKER": UseBroker,
    "DISCONNECT": Nothing,
}

_decoders: dict[type[Struct], msgspec.json.Decoder[Any]] = {
    kind: msgspec.json.Decoder(kind) for kind in {*TO_BROKER.values(), *TO_CLIENT.values()}
}
_encoder = msgspec.json.Encoder()
_any_decoder = msgspec.json.Decoder()
S = TypeVar("S", bound=Struct)


def encode(options: Any) -> bytes:
    """Return the JSON text of options."""
    return _encoder.encode(options)


def decode(command: str, raw: bytes, version: int = 1, commands: dict[str, type[Struct]] = TO_BROKER) -> Any:
    """Return the typed options of a command, an instance of its class in `commands`.

    Raises Fault if the version or the command is unknown, or if the options are too long or do not fit the class.
    """
    if version != 1:
        raise Fault(426, "version", f"version {version} of SCALE0 is not spoken here; version 1 is")
    kind = commands.get(command)
    if kind is None:
        raise Fault(400, "malformed", f"no such command: {command}")
    if len(raw) > MAX_OPTIONS:
        raise Fault(413, "too_large", f"options have at most {MAX_OPTIONS} bytes; put larger things into the body")
    try:
        return _decoders[kind].decode(raw)
    except (msgspec.MsgspecError, RecursionError, ValueError) as e:
        raise Fault(400, "malformed", f"options of {command}: {_cause(e)}") from None


def decode_any(raw: bytes) -> dict[str, Any]:
    """Return the options of a command that has no class of its own, such as MANAGEMENTREP, with the keys as sent.

    Raises Fault if they are no JSON object.
    """
    try:
        value = _any_decoder.decode(raw)
    except (msgspec.MsgspecError, RecursionError, ValueError) as e:
        raise Fault(400, "malformed", f"options: {_cause(e)}") from None
    if not isinstance(value, dict):
        raise Fault(400, "malformed", "options are a JSON object")
    return value


def _cause(e: BaseException) -> str:
    return "nested too deep" if isinstance(e, RecursionError) else str(e)[:200]


def check_service_names(names: list[str]) -> None:
    """Check the names that a worker wants to offer.

    Raises Fault for mmi.*, which the broker itself answers, and for what is no service name.
    """
    for name in names:
        if name.startswith("mmi."):
            raise Fault(403, "not_allowed", f"{name}: mmi.* is answered by the broker itself")
        if not is_service_name(name):
            raise Fault(400, "malformed", f"no service name: {name[:64]!r}")
