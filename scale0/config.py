"""The configuration of a broker and of its groups: one schema for the three syntaxes, and faults that can be found.

The names are those of the seed's [ BROKER CONFIG ], [ GROUP CONFIG ] and [ CLIENT CONFIG ]; what came later stands
after them. `load` takes a document in any form and gives a BrokerConfig, or ConfigFault with every fault in it: line,
name, what was expected. Pure: files are read elsewhere.
"""

from __future__ import annotations

import difflib
import hashlib
import re
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import attrs

from scale0 import forms
from scale0.forms import Lines, Path, Tree, Unreadable
from scale0.zap import is_local

STATES = ("joining", "active", "disabled")
DEFAULT_BEAT = 2.5  # seconds; with a liveness of 3, a dead worker is known after 7.5 s
DEFAULT_BUSY = 900.0  # seconds that a worker which does not beat may work at one request
SPILL_MS = 50  # how long a request waits for an own worker before a peer's is asked
MAX_SKEW = 30.0  # seconds between two clocks
RUNTIME_NAMES = frozenset({"LRU"})  # shown by `scale0ctl config`; read over in a file: workers announce themselves

_IDENTITY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@-]{0,127}")
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_ENDPOINT = re.compile(r"tcp://(\[[0-9A-Fa-f:.%]+\]|[A-Za-z0-9_.*-]+):([0-9]{1,5})|ipc://[\x21-\x7e]{1,100}")
_SCRYPT = re.compile(r"scrypt\$([0-9]{1,7})\$([0-9]{1,3})\$([0-9]{1,3})\$((?:[0-9a-f]{2}){8,64})\$((?:[0-9a-f]{2})+)")
MAX_SCRYPT_MEMORY = 64 << 20  # bytes, 128 * N * r; a configuration must not be able to eat the machine
_Z85 = re.compile(r"[0-9A-Za-z.:+=^!/*?&<>()\[\]{}@%$#-]{40}")
_HEX32 = re.compile(r"[0-9a-f]{64}")
_HOST_PORT = re.compile(r"(\[[0-9A-Fa-f:]+\]|[A-Za-z0-9_.-]+):([0-9]{1,5})")


@attrs.frozen
class Fault:
    """One thing that is wrong, and where."""

    line: int
    name: str
    message: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.name}: {self.message}" if self.name else f"line {self.line}: {self.message}"


class ConfigFault(Exception):
    """A document that is no configuration, with all its faults; `source` is its file or the topic it came by."""

    def __init__(self, source: str, faults: list[Fault]) -> None:
        super().__init__("\n".join(f"{source}: {fault}" for fault in faults))
        self.source, self.faults = source, faults


# ------------------------------------------------------------------- what a value may be (text -> value)

Convert = Callable[[str], Any]


def _matching(pattern: re.Pattern[str], expected: str) -> Convert:
    def convert(text: str) -> str:
        if not pattern.fullmatch(text):
            raise ValueError(expected)
        return text

    return convert


def _number(low: float, high: float, expected: str, whole: bool = False) -> Convert:
    digits = re.compile(r"[0-9]{1,12}" if whole else r"[0-9]{1,12}(\.[0-9]{1,9})?")

    def convert(text: str) -> float:
        if not digits.fullmatch(text) or not low <= float(text) <= high:
            raise ValueError(expected)
        return int(text) if whole else float(text)

    return convert


def _truth(text: str) -> bool:
    if text not in ("0", "1", "false", "true"):
        raise ValueError("1 or 0")
    return text in ("1", "true")


def _one_of(*words: str) -> Convert:
    def convert(text: str) -> str:
        if text not in words:
            raise ValueError(", ".join(words[:-1]) + " or " + words[-1])
        return text

    return convert


def _scrypt(text: str) -> str:
    match = _SCRYPT.fullmatch(text)
    if not match:
        raise ValueError("scrypt$N$r$p$SALT$KEY with salt and key in hex; `scale0ctl password` makes one")
    n, r, p = (int(part) for part in match.group(1, 2, 3))
    if n < 2 or n & (n - 1) or not 0 < 128 * n * r <= MAX_SCRYPT_MEMORY or not 0 < p <= 16:
        raise ValueError(f"scrypt with N a power of two and 128*N*r at most {MAX_SCRYPT_MEMORY}")
    return text


def _port_ending(pattern: re.Pattern[str], expected: str) -> Convert:
    """An address whose port fits into 16 bits."""

    def convert(text: str) -> str:
        match = pattern.fullmatch(text)
        if not match or (match[2] is not None and int(match[2]) > 65_535):
            raise ValueError(expected)
        return text

    return convert


TEXT = _matching(re.compile(r".{0,255}"), "a text of at most 255 characters")
PEER_NAME = _matching(re.compile(r".{1,255}"), "a CURVE key or an address")
CONTENT = _matching(re.compile(r".*"), "a text")
SERVICE = _matching(re.compile(r"(?!mmi\.).{1,255}"), "a service name, or all; mmi.* is the broker's own")
IDENTITY = _matching(_IDENTITY, "1 to 128 letters, digits and ._:@-")
NAME = _matching(_WORD, "1 to 128 letters, digits and ._-")
OPTIONAL_NAME = _matching(re.compile(rf"({_WORD.pattern})?"), "1 to 128 letters, digits and ._-, or nothing")
ENDPOINT = _port_ending(_ENDPOINT, "an endpoint such as tcp://10.0.0.1:5555 or ipc:///run/scale0.sock")
HOST_PORT = _port_ending(_HOST_PORT, "HOST:PORT, such as 127.0.0.1:8080")
HOST = _matching(re.compile(r"[A-Za-z0-9_.:*-]{1,253}"), "an address of this machine, or * for all of them")
PORT = _number(0, 65_535, "a port number, 0 to 65535; 0 is any free port", whole=True)
SECONDS = _number(0.01, 86_400, "seconds, more than 0 and at most a day")
MILLIS = _number(0, 60_000, "milliseconds, 0 to 60000", whole=True)
PUBLIC_KEY = _matching(_Z85, "a CURVE public key, 40 characters of Z85")
SIGNING_KEY = _matching(_HEX32, "an Ed25519 public key, 64 hex digits")


# ---------------------------------------------------------------------------------------- the schema


def _one(convert: Convert, default: Any = attrs.NOTHING) -> Any:
    return attrs.field(default=default, metadata={"convert": convert, "many": False})


def _many(convert: Convert, default: tuple[Any, ...] = ()) -> Any:
    return attrs.field(default=default, metadata={"convert": convert, "many": True})


def _trees(kind: type) -> Any:
    return attrs.field(default=(), metadata={"kind": kind, "many": True})


@attrs.frozen
class Member:
    """One of the `brokers` of a group."""

    identity: str = _one(IDENTITY)
    services: tuple[str, ...] = _many(SERVICE, ("all",))
    frontend: str = _one(ENDPOINT, "")
    backend: str = _one(ENDPOINT, "")
    peer: str = _one(ENDPOINT, "")
    config_pub: str = _one(ENDPOINT, "")
    public_key: str = _one(PUBLIC_KEY, "")

    def serves(self, service: str) -> bool:
        return "all" in self.services or service in self.services


@attrs.frozen
class GroupConfig:
    """The seed's [ GROUP CONFIG ]."""

    name: str = _one(NAME)
    brokers: tuple[Member, ...] = _trees(Member)


@attrs.frozen
class Credential:
    auth_id: str = _one(TEXT)
    auth_password: str = attrs.field(metadata={"convert": _scrypt, "many": False}, repr=False)


@attrs.frozen
class ServicePolicy:
    """What a service's own nature says, for all its requests."""

    name: str = _one(SERVICE)
    idempotent: bool = _one(_truth, True)
    busy_timeout: float = _one(SECONDS, DEFAULT_BUSY)


@attrs.frozen
class Document:
    """Something that travels with the configuration: a signed manifest, a CA certificate, in base64."""

    name: str = _one(NAME)
    content: str = attrs.field(metadata={"convert": CONTENT, "many": False}, repr=False)


@attrs.frozen
class BrokerConfig:
    """The seed's [ BROKER CONFIG ], and what the design adds to it."""

    identity: str = _one(IDENTITY)
    frontend_port: int = _one(PORT)
    backend_port: int = _one(PORT)
    config_pub_port: int = _one(PORT, 0)
    config_sub_ports: tuple[str, ...] = _many(ENDPOINT)
    state: str = _one(_one_of(*STATES), "active")
    peers: tuple[str, ...] = _many(ENDPOINT)
    default_heartbeat_interval: float = _one(SECONDS, DEFAULT_BEAT)
    services: tuple[str, ...] = _many(SERVICE, ("all",))
    error_clients: tuple[str, ...] = _many(PEER_NAME)
    group: str = _one(OPTIONAL_NAME, "")
    fallback_groups: tuple[str, ...] = _many(NAME)
    group_config: tuple[GroupConfig, ...] = _trees(GroupConfig)
    peer_port: int = _one(PORT, 0)
    prefered_broker: str = _one(IDENTITY, "")
    network: str = _one(NAME, "scale0")
    address: str = _one(HOST, "")
    management: tuple[Credential, ...] = _trees(Credential)
    service_config: tuple[ServicePolicy, ...] = _trees(ServicePolicy)
    documents: tuple[Document, ...] = _trees(Document)
    allow_plain_mdp: bool = _one(_truth, True)
    insecure: bool = _one(_truth, False)
    spill_ms: int = _one(MILLIS, SPILL_MS)
    max_skew: float = _one(SECONDS, MAX_SKEW)
    http: str = _one(HOST_PORT, "")
    config_key: tuple[str, ...] = _many(SIGNING_KEY)

    def groups(self) -> list[GroupConfig]:
        """The own group, then the fallbacks in order; groups that nobody described are left out."""
        described = {group.name: group for group in self.group_config}
        return [described[name] for name in (self.group, *self.fallback_groups) if name in described]

    def member(self, identity: str) -> Member | None:
        return next((m for group in self.group_config for m in group.brokers if m.identity == identity), None)


NO_POLICY = ServicePolicy("*")  # of a service that service_config does not name
ALIASES = {"preferred_broker": "prefered_broker"}  # the seed's spelling is the name; the dictionary's is understood

# What all brokers of a network may share by a document of the scope `all`; the rest is each broker's own. `management`
# is not among them: whoever may subscribe would have something to guess passwords against.
SHARED = frozenset(
    {"group_config", "service_config", "documents", "default_heartbeat_interval", "error_clients"}
    | {"max_skew", "spill_ms", "allow_plain_mdp"}
)


# ----------------------------------------------------------------------------------------- reading


def load(document: bytes, form: str, source: str = "configuration", strict: bool = True) -> BrokerConfig:
    """A whole broker configuration. Names that do not exist are faults in a file; a newer network may send some."""
    tree, lines = _tree(document, form, source)
    return _finish(tree, lines, source, strict)


def overlay(base: BrokerConfig, document: bytes, form: str, source: str) -> BrokerConfig:
    """The same broker with what a shared document says of SHARED names."""
    tree, lines = _tree(document, form, source)
    shared = {name: values for name, values in tree.items() if name in SHARED}
    whole = forms.plain(dump(base)) | shared
    return _finish(whole, lines, source, strict=False)


def digest(document: bytes) -> str:
    """What tells two documents of one version apart."""
    return hashlib.sha256(document).hexdigest()


def dump(config: BrokerConfig) -> dict[str, Any]:
    """The configuration as a tree, to be written in any form; defaults included, emptiness left out."""
    return _dump(config)


def _dump(value: Any) -> Any:
    if attrs.has(type(value)):
        pairs = ((a.name, _dump(getattr(value, a.name))) for a in attrs.fields(type(value)))
        return {name: v for name, v in pairs if v not in ("", [])}
    if isinstance(value, tuple):
        return [_dump(v) for v in value]
    return value


def _tree(document: bytes, form: str, source: str) -> tuple[Tree, Lines]:
    try:
        tree, lines = forms.read(document, form)
    except Unreadable as e:
        raise ConfigFault(source, [Fault(e.line, "", e.message)]) from None
    faults = [Fault(_line(lines, path), forms.spell(path), text) for path, text in forms.check(tree)]
    if faults:
        raise ConfigFault(source, faults)
    return {ALIASES.get(name, name): values for name, values in tree.items() if name not in RUNTIME_NAMES}, lines


def _finish(tree: Tree, lines: Lines, source: str, strict: bool) -> BrokerConfig:
    faults: list[Fault] = []
    config = _build(BrokerConfig, tree, (), lines, faults, strict)
    if not faults:
        faults += _consistency(config, lines)
    if faults:
        raise ConfigFault(source, faults)
    assert isinstance(config, BrokerConfig)
    return config


def _line(lines: Lines, path: Path) -> int:
    """The line of a value, or of the nearest thing around it that has one."""
    while path and path not in lines:
        path = path[:-1]
    return lines.get(path, 1)


T = TypeVar("T")


def _build(kind: type[T], tree: Tree, path: Path, lines: Lines, faults: list[Fault], strict: bool) -> T | None:
    """An attrs value out of a tree; None if anything in it was faulty."""
    before = len(faults)
    names = attrs.fields_dict(kind)  # type: ignore[arg-type]
    if strict:
        faults += [_unknown(name, list(names), path, lines) for name in tree if name not in names]
    values = {}
    for name, attribute in names.items():
        if name in tree:
            read = [_value(attribute, v, (*path, name, i), lines, faults, strict) for i, v in enumerate(tree[name])]
            if not attribute.metadata["many"] and len(read) > 1:
                message = f"given {len(read)} times; it has one value"
                faults.append(Fault(_line(lines, (*path, name, 1)), forms.spell((*path, name)), message))
            values[name] = tuple(read) if attribute.metadata["many"] else read[0]
        elif attribute.default is attrs.NOTHING:
            faults.append(Fault(_line(lines, path), forms.spell((*path, name)), "is missing"))
    return kind(**values) if len(faults) == before else None


def _value(attribute: Any, value: str | Tree, path: Path, lines: Lines, faults: list[Fault], strict: bool) -> Any:
    kind = attribute.metadata.get("kind")
    if kind is not None:
        if isinstance(value, dict) or value.strip() == "":
            return _build(kind, value if isinstance(value, dict) else {}, path, lines, faults, strict)
        expected = "a tree with " + ", ".join(a.name for a in attrs.fields(kind))
    elif isinstance(value, dict):
        expected = "a single value"
    else:
        try:
            return attribute.metadata["convert"](value)
        except ValueError as e:
            expected = str(e)
    got = "a tree" if isinstance(value, dict) else repr(value[:60])
    faults.append(Fault(_line(lines, path), forms.spell(path), f"expected {expected}, not {got}"))
    return None


def _unknown(name: str, names: list[str], path: Path, lines: Lines) -> Fault:
    near = difflib.get_close_matches(name, names, 1)
    hint = f"; did you mean {near[0]}?" if near else f"; the names here are {', '.join(names)}"
    return Fault(_line(lines, (*path, name, 0)), forms.spell((*path, name)), "no such name" + hint)


def _consistency(config: Any, lines: Lines) -> Iterator[Fault]:
    """What no single value shows."""
    names = [group.name for group in config.group_config]
    for name in {name for name in names if names.count(name) > 1}:
        yield Fault(_line(lines, ("group_config", names.index(name))), "group_config", f"two groups are named {name}")
    if config.http and not config.insecure and not is_local(config.http.rpartition(":")[0].strip("[]")):
        message = "passwords go over this port in the clear: an address of this machine only, or insecure = 1"
        yield Fault(_line(lines, ("http", 0)), "http", message)
    if config.group in config.fallback_groups:
        at = config.fallback_groups.index(config.group)
        line = _line(lines, ("fallback_groups", at))
        yield Fault(line, "fallback_groups", f"{config.group} is the own group; it cannot be a fallback of itself")
    ports = [config.frontend_port, config.peer_port, config.config_pub_port]
    ports += [config.backend_port] if config.backend_port != config.frontend_port else []
    for port in {p for p in ports if p and ports.count(p) > 1}:
        yield Fault(1, "", f"port {port} is used twice; only frontend_port and backend_port may be equal")


def client_document(config: BrokerConfig, identity: str, services: list[str], backend: bool) -> dict[str, Any]:
    """The seed's [ CLIENT CONFIG ] for one client. `documents` go to backends, which are what they were made for."""
    tree: dict[str, Any] = {
        "identity": identity,
        "services": services,
        "group_config": [_dump(group) for group in config.groups()],
        "prefered_broker": config.prefered_broker or config.identity,
    }
    if backend and config.documents:
        tree["documents"] = [_dump(document) for document in config.documents]
    return tree
