"""The options of Scale0's commands: JSON objects in typed form. Pure.

Each command that a broker may be sent has a class here; its fields are the names of the seed, then our additions. What
has no default is required. Unknown options are ignored, so that a later version may add some. Fault carries the code
and the reason that a DISCONNECTERROR will tell.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta, Struct

from scale0.frames import is_service_name

MAX_OPTIONS = 64 << 10  # bytes, of the protocol; larger things travel in the body

Text = Annotated[str, Meta(min_length=1, max_length=255)]
Version = Annotated[str, Meta(pattern=r"^[0-9]{1,20}\Z")]
Interval = Annotated[float, Meta(gt=0, le=3600)]
Millis = Annotated[int, Meta(ge=1, le=86_400_000)]  # a day; what may take longer is a task, not a request
Services = Annotated[list[Annotated[str, Meta(max_length=255)]], Meta(max_length=20_000)]
Form = Literal["JSON", "XML", "ZFL"]


class Fault(Exception):
    """Options that cannot be taken, as a DISCONNECTERROR tells it."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.code, self.reason, self.message = code, reason, message


class CheckConfig(Struct, frozen=True):
    identity: Text
    services: Services
    config_type: Form
    config_version: Version = "0"
    role: Literal["frontend", "backend", "peer", ""] = ""
    hbeatinterval: Interval | None = None
    time: float | None = None


class Ready(Struct, frozen=True):
    services: Services
    heartbeat: bool
    time: float
    config_version: Version
    hbeatinterval: Interval | None = None
    concurrency: Annotated[int, Meta(ge=1, le=1000)] = 1
    epochs: dict[str, int] = {}


class ServicesDelta(Struct, frozen=True):
    add: Services = []
    remove: Services = []
    seq: Annotated[int, Meta(ge=0)] = 0
    epochs: dict[str, int] = {}


class Heartbeat(Struct, frozen=True):
    time: float
    config_version: Version
    state: str = ""
    seq: int = -1
    digest: str = ""
    broker: str = ""
    documents: str = ""  # the digest of those that the sender holds


class Request(Struct, frozen=True):
    id: Text
    service: Text
    timeout_ms: Millis | None = None
    priority: Annotated[int, Meta(ge=0, le=9)] = 4
    idempotent: bool | None = None


class Reply(Struct, frozen=True):
    id: Text
    code: Annotated[int, Meta(ge=100, le=999)] = 200
    reason: Annotated[str, Meta(max_length=255)] = ""
    refused: bool = False  # said by a broker that did not take a FORWARD; the request may go elsewhere


class Cancel(Struct, frozen=True):
    id: Text


class ManagementReq(Struct, frozen=True):
    auth_id: Annotated[str, Meta(max_length=255)]
    auth_password: Annotated[str, Meta(max_length=1024)]
    command: Annotated[str, Meta(max_length=64)]
    key: Annotated[str, Meta(max_length=255)] = ""


class NeedBroker(Struct, frozen=True):
    identity: Annotated[str, Meta(max_length=255)] = ""
    services: Services = []
    failed: Annotated[list[str], Meta(max_length=1000)] = []


class Forward(Struct, frozen=True):
    id: Text
    service: Text
    path: Annotated[list[str], Meta(max_length=64)]
    deadline: Annotated[float, Meta(ge=0)] = 0.0
    priority: Annotated[int, Meta(ge=0, le=9)] = 4
    idempotent: bool | None = None


Entry = Annotated[list[Annotated[int, Meta(ge=0)]], Meta(min_length=3, max_length=3)]


class Table(Struct, frozen=True):
    seq: Annotated[int, Meta(ge=0)]
    full: bool
    digest: str
    entries: dict[str, Entry]
    holders: dict[str, tuple[str, int]] = {}  # service -> identity of who offers it, attach epoch
    part: int = 0
    parts: int = 1


class TableReq(Struct, frozen=True):
    since: Annotated[int, Meta(ge=0)] = 0


DocumentName = Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}\Z")]
DocumentVersion = Annotated[int, Meta(ge=1, le=2**63 - 1)]


class Publish(Struct, frozen=True):
    """A document, both ways; the body is its content."""

    name: DocumentName
    version: DocumentVersion
    type: Form = "JSON"
    signature: Annotated[str, Meta(max_length=128)] = ""


class Published(Struct, frozen=True):
    """What became of one: news, known, old, conflict, refused."""

    name: str
    version: int = 0
    verdict: str = ""
    reason: str = ""


class DocumentsTold(Struct, frozen=True):
    """Which documents the sender has; `want`: it asks for the same."""

    have: Annotated[dict[DocumentName, tuple[DocumentVersion, str]], Meta(max_length=256)]
    want: bool = False


class ConfigTold(Struct, frozen=True):
    """CONFIG and CONFIGACK, as a client or a fellow broker reads them."""

    config_version: Version
    config_type: str = "JSON"
    digest: str = ""
    time: float = 0.0
    hbeatinterval: float = 0.0
    broker: str = ""


class DisconnectError(Struct, frozen=True):
    code: int
    message: str = ""
    reason: str = ""
    retry_after_ms: int = 0


class UseBroker(Struct, frozen=True):
    identity: str
    frontend: str = ""
    backend: str = ""
    public_key: str = ""
    config_version: str = "0"


class Nothing(Struct, frozen=True):
    """Commands whose options say nothing that must be read."""


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
    """Options as they travel."""
    return _encoder.encode(options)


def decode(command: str, raw: bytes, version: int = 1, commands: dict[str, type[Struct]] = TO_BROKER) -> Any:
    """The typed options of a command, or Fault."""
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
    """Options whose command has no class of its own, such as MANAGEMENTREP."""
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
    """Names that a worker offers: no mmi.*, which is the broker's, and nothing that cannot be a name."""
    for name in names:
        if name.startswith("mmi."):
            raise Fault(403, "not_allowed", f"{name}: mmi.* is answered by the broker itself")
        if not is_service_name(name):
            raise Fault(400, "malformed", f"no service name: {name[:64]!r}")
