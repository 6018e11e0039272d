"""Build and read orders to run one-off code: code that is in no published set, once, on agents that the order names.

An order is signed as manifests are (equus_protocol/manifest.py), with the same keys, over bytes that travel as text:
which files, which arguments, which agents, until when. The files travel beside it. The agent remembers which orders it
has run. The module is pure. docs/protocol.rst, section 6, is the specification.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import translate
from functools import lru_cache
from typing import Any

from attrs import field, frozen
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from equus_protocol import manifest
from equus_protocol.manifest import (
    ManifestRefused,
    entry,
    good_signers,
    open_document,
    read_files,
    read_object,
    untyped,
)

NAME = "equus:once"  # the check that is asked for; no file of a set can be called so
TYPE = "equus-once"
RESERVED = "equus:"  # names of checks that begin so are the protocol's own
LIFE = 300.0  # seconds that an order is good for, unless the operator says otherwise: clocks of hosts differ by less
MAX_LIFE = 86_400.0  # seconds: agents remember each order until it expires
SKEW = 86_400.0  # seconds that the writer's clock may be ahead: else a date far ahead would never grow old
MAX_FILES = 64  # of one order: a check and what it requires
MAX_FILES_BYTES = 131_072  # all of them; in base64 and with the order they stay far below a blob
MAX_PATTERNS = 64
MAX_PATTERN = 255  # characters; a name has 63, a label's key and value 255 each
_ID = re.compile(r"[0-9a-f]{32}")


@frozen
class Order:
    """Hold an order that has been read, with its files.

    `args` are plain JSON values, `signers` ids of keys, `created` and `expires` unix seconds.
    """

    id: str
    check: str
    files: dict[str, bytes] = field(repr=False)
    args: dict[str, Any] = field(repr=False)
    on: tuple[str, ...]
    created: float
    expires: float
    digest: str
    signers: frozenset[str] = field(factory=frozenset)

    @property
    def source(self) -> bytes:
        return self.files[f"{self.check}.lua"]

    @property
    def libraries(self) -> dict[str, bytes]:
        """Return the order's libraries as `{NAME: SOURCE}`, by the names that `require` finds them under."""
        lib, suffix = "lib/", ".lua"
        return {n[len(lib) : -len(suffix)]: c for n, c in self.files.items() if n.startswith(lib)}

    def is_for(self, name: str, labels: Mapping[str, str]) -> bool:
        """Return True if the order is for an agent of this name and with these labels."""
        return any(fits(pattern, name, labels) for pattern in self.on)


def fits(pattern: str, name: str, labels: Mapping[str, str]) -> bool:
    """Return True if an agent fits a pattern: of its name, or `KEY=PATTERN` of one of its labels."""
    return reader_of(pattern)(name, labels)


def reader_of(pattern: str) -> Callable[[str, Mapping[str, str]], bool]:
    """Return the function of a name and labels that says if an agent fits a pattern: for many agents, compiled once."""
    key, is_label, value = pattern.partition("=")
    if pattern == "*":
        return lambda name, labels: True
    match = _compiled(value if is_label else pattern)
    if not is_label:
        return lambda name, labels: match(name) is not None
    return lambda name, labels: key in labels and match(labels[key]) is not None


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> Callable[[str], re.Match[str] | None]:
    return re.compile(translate(pattern)).match


def build(
    order_id: str,
    check: str,
    files: Mapping[str, bytes],
    args: Mapping[str, Any],
    on: Sequence[str],
    created: float,
    expires: float,
) -> bytes:
    """Return the bytes of an order, to be signed; `created` and `expires` are unix seconds.

    Raises ValueError, with a sentence, if agents would refuse the order.
    """
    document: dict[str, Any] = {"type": TYPE, "id": order_id, "check": check, "args": dict(args), "on": list(on)}
    document |= {"created": created, "expires": expires}
    entries = {name: entry(content) for name, content in files.items()}
    document["files"] = {name: {"sha256": each.sha256, "size": each.size} for name, each in entries.items()}
    try:
        _read(document, files, "", frozenset())
    except ManifestRefused as refused:
        raise ValueError(str(refused)) from refused
    return json.dumps(document, separators=(",", ":"), sort_keys=True, allow_nan=False).encode()


def sign(order: bytes, keys: Iterable[Ed25519PrivateKey]) -> bytes:
    """Return the envelope of an order that `build` has made."""
    return manifest.sign(order, keys, TYPE)


def pack(envelope: bytes, files: Mapping[str, bytes]) -> bytes:
    """Return the blob of the `check` that carries a signed order with its files."""
    contents = {name: base64.b64encode(content).decode() for name, content in files.items()}
    return b'{"order":' + envelope + b',"files":' + json.dumps(contents, separators=(",", ":")).encode() + b"}"


def read(
    blob: bytes, keys: Mapping[str, Ed25519PublicKey | bytes], threshold: int, now: float, typed: bool = False
) -> Order:
    """Return the order in a blob that `threshold` of these keys have signed; `now` is unix time in seconds.

    Nothing of the order is read before its signatures are good. The caller compares it with its own name, and with the
    orders that have run. `typed`: only typed signatures count. Raises ManifestRefused if the order is not good now, and
    ValueError if `threshold` is less than 1.
    """
    if threshold < 1:
        raise ValueError(f"a threshold of {threshold} would accept an order without a signature")
    document = read_object(blob)
    envelope = document.get("order")
    if not isinstance(envelope, dict):
        raise ManifestRefused("malformed", "an order to run code once has an `order`, an envelope")
    signed, signatures = open_document(envelope)
    signers = frozenset(good_signers(signed, signatures, keys.values(), TYPE if typed else None))
    if len(signers) < threshold:
        raise ManifestRefused(
            "bad-signature",
            f"the order has {len(signers)} good signature(s) of known keys, {threshold} needed"
            + untyped(signed, signatures, keys.values(), signers),
        )
    order = _read(read_object(signed), _contents(document), hashlib.sha256(signed).hexdigest(), signers)
    if order.expires <= now:
        raise ManifestRefused("expired", f"the order expired {now - order.expires:.0f} s ago: are both clocks right?")
    if order.created > now + SKEW:
        raise ManifestRefused(
            "expired", f"the order is dated {order.created - now:.0f} s ahead: are both clocks right?"
        )
    return order


def _contents(document: Mapping[str, Any]) -> dict[str, bytes]:
    files = document.get("files")
    if not isinstance(files, dict) or not all(isinstance(text, str) for text in files.values()):
        raise ManifestRefused("malformed", "`files` is no object of names and base64")
    try:
        return {name: base64.b64decode(text, validate=True) for name, text in files.items()}
    except ValueError:
        raise ManifestRefused("malformed", "a file is no base64") from None


def _read(document: Mapping[str, Any], contents: Mapping[str, bytes], digest: str, signers: frozenset[str]) -> Order:
    if document.get("type") != TYPE:
        raise ManifestRefused("malformed", f"a document of type {document.get('type')!r}, not {TYPE!r}")
    order_id, check, args = (document.get(name) for name in ("id", "check", "args"))
    if not isinstance(order_id, str) or not _ID.fullmatch(order_id):
        raise ManifestRefused("malformed", "the order's id is no 32 hexadecimal digits")
    if not isinstance(args, dict):
        raise ManifestRefused("malformed", "`args` is no object")
    on = _read_patterns(document.get("on"))
    created, expires = _read_times(document)
    entries = read_files(document.get("files"), MAX_FILES)
    if not isinstance(check, str) or "/" in check or f"{check}.lua" not in entries:
        raise ManifestRefused("malformed", f"the order's check {str(check)[:80]!r} is none of its files")
    if sum(each.size for each in entries.values()) > MAX_FILES_BYTES:
        raise ManifestRefused("malformed", f"the files of an order have at most {MAX_FILES_BYTES} bytes together")
    wrong = {name for name in entries.keys() | contents.keys() if not _is_same(entries, contents, name)}
    if wrong:
        raise ManifestRefused("wrong-file", f"{min(wrong)[:80]} is not the file that was signed")
    return Order(order_id, check, dict(contents), dict(args), on, created, expires, digest, signers)


def _is_same(entries: Mapping[str, Any], contents: Mapping[str, bytes], name: str) -> bool:
    return name in entries and name in contents and entry(contents[name]) == entries[name]


def _read_patterns(on: Any) -> tuple[str, ...]:
    if not isinstance(on, list) or not 1 <= len(on) <= MAX_PATTERNS:
        raise ManifestRefused("malformed", f"`on` is no list of 1 to {MAX_PATTERNS} patterns")
    if not all(isinstance(pattern, str) and 0 < len(pattern) <= 2 * MAX_PATTERN + 1 for pattern in on):
        raise ManifestRefused("malformed", "`on` holds what is no pattern of agents")
    return tuple(on)


def _read_times(document: Mapping[str, Any]) -> tuple[float, float]:
    times = [document.get(name) for name in ("created", "expires")]
    if not all(type(moment) in (int, float) and 0 <= moment < 2**40 for moment in times):  # type: ignore[operator]
        raise ManifestRefused("malformed", "`created` and `expires` are no times in unix seconds")
    created, expires = (float(moment) for moment in times)  # type: ignore[arg-type]
    if not created < expires <= created + MAX_LIFE:
        raise ManifestRefused("malformed", f"an order expires within {MAX_LIFE:g} s of its making")
    return created, expires
