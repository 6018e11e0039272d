"""Build, sign and verify manifests, the signed lists of a check set. Pure: keys, bytes and the time are arguments.

A manifest is a JSON document. Its bytes are signed, and the same bytes travel as text inside the envelope
`{"signed": TEXT, "signatures": [{"key": KEY_ID, "signature": BASE64, "typed": BASE64}]}`, so that no canonical form has
to be written twice. `typed` is over the kind of the document and its bytes, so that a signature over one kind is worth
nothing under another; `signature`, over the bytes alone, is for agents of 0.1.0. The root says which one counts.
docs/protocol.rst section 6 is the specification, with each attack that it answers.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from attrs import field, frozen
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

TYPE = "equus-manifest"
MAX_MANIFEST = 1_048_576  # bytes of an envelope: it travels as one blob
ROOM = 65_536  # bytes of that blob that Helen needs for statement and roots (equus_protocol/delivery.py)
MAX_FILES = 5_000  # at some 120 bytes each they fit into a manifest
MAX_FILE = 1_048_576  # bytes of a file: one blob, too
MAX_SIGNATURES = 16  # each costs a verification, some 0.1 ms
MAX_RINGS = 64  # stages of a rollout
# `disk.lua`, or `lib/name.lua` for what `require "name"` finds. No `..` can be written with it, nor a hidden file.
FILE_NAME = re.compile(r"(?:lib/)?[A-Za-z0-9_](?:[A-Za-z0-9_-]|\.(?!\.)){0,62}\.lua")
# A file of the agent's own code: `equus/main.py`, `equus-0.2.0-py3-none-any.whl`. No segment begins with a dot.
AGENT_FILE_NAME = re.compile(r"(?=.{1,255}\Z)[A-Za-z0-9_][A-Za-z0-9_.+-]*(?:/[A-Za-z0-9_][A-Za-z0-9_.+-]*)*")
_AGENT_VERSION = re.compile(r"[!-~]{1,255}")
_SHA256 = re.compile(r"[0-9a-f]{64}")


class ManifestRefused(Exception):
    """Report that a manifest or a file may not be used, and why. The text is a sentence for people.

    `reason` is for programs: `malformed`, `bad-signature`, `expired`, `frozen`, `rollback` or `wrong-file`.
    """

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason


@frozen
class FileEntry:
    """Describe one file of a check set: the hash of its bytes (SHA-256, hexadecimal) and their number."""

    sha256: str
    size: int


@frozen
class ManifestDocument:
    """Hold a manifest that has been read. Times are unix seconds; `digest` is the SHA-256 of the signed bytes."""

    version: int
    created: float
    expires: float
    files: dict[str, FileEntry]
    digest: str
    rings: tuple[Any, ...] = ()
    agent: dict[str, Any] | None = None
    signers: frozenset[str] = field(factory=frozenset)


def entry(content: bytes) -> FileEntry:
    """Return the entry of a manifest for a file with these bytes."""
    return FileEntry(hashlib.sha256(content).hexdigest(), len(content))


def build(
    files: Mapping[str, FileEntry | bytes],
    version: int,
    created: float,
    expires: float,
    rings: Sequence[Any] = (),
    agent: Mapping[str, Any] | None = None,
) -> bytes:
    """Return the bytes of a manifest, to be signed; `created` and `expires` are unix seconds.

    A file is given as its bytes or as its `entry`. Raises ValueError if an agent would refuse a name or a number in it.
    """
    entries = {name: entry(file) if isinstance(file, bytes) else file for name, file in files.items()}
    document: dict[str, Any] = {"type": TYPE, "version": version, "created": created, "expires": expires}
    document["files"] = {name: {"sha256": file.sha256, "size": file.size} for name, file in entries.items()}
    if rings:
        document["rings"] = list(rings)
    if agent:
        document["agent"] = dict(agent)
    try:
        _read(document, "")
    except ManifestRefused as refused:
        raise ValueError(str(refused)) from refused
    return json.dumps(document, separators=(",", ":"), sort_keys=True, allow_nan=False).encode()


def key_id(key: Ed25519PublicKey) -> str:
    """Return the id of a key: the first 16 hexadecimal digits of the SHA-256 of its 32 bytes."""
    return hashlib.sha256(key.public_bytes_raw()).hexdigest()[:16]


def sign(manifest: bytes, keys: Iterable[Ed25519PrivateKey], kind: str = TYPE) -> bytes:
    """Return the envelope of a document of this kind, signed with each of these keys.

    Raises ValueError if the envelope would be longer than one blob.
    """
    return seal(manifest, [signature_of(manifest, key, kind) for key in keys])


def seal(signed: bytes, signatures: Sequence[Any]) -> bytes:
    """Return the envelope of signed bytes; raises ValueError if it would be longer than one blob."""
    document = {"signed": signed.decode("utf-8", "surrogatepass"), "signatures": list(signatures)}
    envelope = json.dumps(document, separators=(",", ":")).encode()
    if len(envelope) > MAX_MANIFEST - ROOM:
        raise ValueError(f"a manifest of {len(envelope)} bytes; {MAX_MANIFEST - ROOM} is the most: leave files out")
    return envelope


def signature_of(signed: bytes, key: Ed25519PrivateKey, kind: str = TYPE) -> dict[str, str]:
    """Return one entry of `signatures`, `{"key", "signature", "typed"}`, over the bytes of a document of this kind."""
    plain, typed = (base64.b64encode(key.sign(data)).decode() for data in (signed, typed_bytes(kind, signed)))
    return {"key": key_id(key.public_key()), "signature": plain, "typed": typed}


def typed_bytes(kind: str, signed: bytes) -> bytes:
    """Return the bytes under a typed signature: the kind, a zero byte, the document. No document has a zero byte."""
    return kind.encode() + b"\0" + signed


def verify(
    envelope: bytes,
    pinned: Mapping[str, Ed25519PublicKey | bytes],
    now: float,
    *,
    threshold: int = 1,
    held: ManifestDocument | None = None,
    typed: bool = False,
) -> ManifestDocument:
    """Read an envelope that at least `threshold` of the pinned keys have signed; `now` is unix time in seconds.

    `pinned` has the keys by any name, as objects or as their 32 bytes; errors show their `key_id`. `held` is the
    manifest in use: an older version is refused, and so is another document of the same version. `typed`: only typed
    signatures count. Nothing of the document is read before its signatures are good. Raises ManifestRefused if it may
    not be used, and ValueError if `threshold` is less than 1.
    """
    if threshold < 1:
        raise ValueError(f"a threshold of {threshold} would accept a manifest without a signature")
    manifest, signatures = open_envelope(envelope)
    signers = frozenset(good_signers(manifest, signatures, pinned.values(), TYPE if typed else None))
    if len(signers) < threshold:
        known = ", ".join(sorted(map(key_id, map(public_key, pinned.values())))) or "none"
        raise ManifestRefused(
            "bad-signature",
            f"the manifest has {len(signers)} good signature(s) of pinned keys, {threshold} needed (pinned: {known})"
            + untyped(manifest, signatures, pinned.values(), signers),
        )
    document = _read(read_object(manifest), hashlib.sha256(manifest).hexdigest(), signers)
    if document.expires <= now:
        raise ManifestRefused("expired", f"manifest {document.version} expired {now - document.expires:.0f} s ago")
    if held is not None and document.version < held.version:
        raise ManifestRefused("rollback", f"manifest {document.version} is older than {held.version}, which is in use")
    if held is not None and document.version == held.version and document.digest != held.digest:
        raise ManifestRefused("rollback", f"another manifest with the same version {held.version} is in use")
    return document


def is_signed(
    envelope: bytes, keys: Mapping[str, Ed25519PublicKey | bytes], threshold: int, kind: str | None = None
) -> bool:
    """Return True if at least `threshold` different keys of these have signed the content of an envelope.

    `kind`: only typed signatures over a document of this kind count; None: those over the bytes alone. The content
    itself is not read. Raises ManifestRefused if the bytes are no envelope.
    """
    signed, signatures = open_envelope(envelope)
    return len(frozenset(good_signers(signed, signatures, keys.values(), kind))) >= threshold


def verify_file(document: ManifestDocument, name: str, content: bytes) -> None:
    """Verify that these bytes are the file of that name in this set; raises ManifestRefused `wrong-file` if not.

    A good file of another set, or under another name, is a wrong one here.
    """
    expected = document.files.get(name)
    if expected is None:
        raise ManifestRefused("wrong-file", f"{name!r} is not in manifest {document.version}")
    if entry(content) != expected:
        raise ManifestRefused("wrong-file", f"{name}: these {len(content)} bytes are not those that were signed")


def read_unverified(envelope: bytes) -> ManifestDocument:
    """Return the document of an envelope without looking at its signatures: for the program that made it."""
    manifest, _ = open_envelope(envelope)
    return _read(read_object(manifest), hashlib.sha256(manifest).hexdigest())


def open_envelope(envelope: bytes) -> tuple[bytes, list[Any]]:
    """Return the signed bytes and the signatures of an envelope; neither has been verified.

    Raises ManifestRefused `malformed` if the bytes are no envelope.
    """
    if len(envelope) > MAX_MANIFEST:
        raise ManifestRefused("malformed", f"an envelope of {len(envelope)} bytes; {MAX_MANIFEST} is the most")
    return open_document(read_object(envelope))


def open_document(envelope: Mapping[str, Any]) -> tuple[bytes, list[Any]]:
    """Return signed bytes and signatures of a parsed envelope; raises ManifestRefused `malformed` if it is none."""
    signed, signatures = envelope.get("signed"), envelope.get("signatures")
    if not isinstance(signed, str) or not isinstance(signatures, list) or len(signatures) > MAX_SIGNATURES:
        raise ManifestRefused("malformed", "the envelope has no `signed` text with a list of `signatures`")
    return signed.encode("utf-8", "surrogatepass"), signatures


def read_object(data: bytes) -> dict[str, Any]:
    """Parse the JSON object `{NAME: ANY, ...}` from a peer's bytes; raises ManifestRefused `malformed` otherwise."""
    try:
        document = json.loads(data.decode())  # given bytes, json.loads would take UTF-16 as well
    except (ValueError, RecursionError):
        raise ManifestRefused("malformed", "the manifest is no JSON") from None
    if not isinstance(document, dict):
        raise ManifestRefused("malformed", "the manifest is no JSON object")
    return document


def public_key(key: Ed25519PublicKey | bytes) -> Ed25519PublicKey:
    """Return a key as an object, made from its 32 bytes if need be."""
    return Ed25519PublicKey.from_public_bytes(key) if isinstance(key, bytes) else key


def good_signers(
    manifest: bytes, signatures: list[Any], pinned: Iterable[Ed25519PublicKey | bytes], kind: str | None = None
) -> Iterable[str]:
    """Yield the id of a pinned key for each good signature. The caller makes a set of them, so that a key counts once.

    `kind`: as for `is_signed`. The ids are computed from the keys: a key that was pinned under two names is still one.
    """
    keys = {key_id(key): key for key in map(public_key, pinned)}
    member, data = ("signature", manifest) if kind is None else ("typed", typed_bytes(kind, manifest))
    for signature in signatures:
        if not isinstance(signature, dict):
            continue
        name, value = signature.get("key"), signature.get(member)
        if not isinstance(name, str) or name not in keys or not isinstance(value, str):
            continue
        try:
            keys[name].verify(base64.b64decode(value, validate=True), data)
        except (InvalidSignature, ValueError):
            continue
        yield name


def untyped(
    signed: bytes, signatures: list[Any], keys: Iterable[Ed25519PublicKey | bytes], good: frozenset[str]
) -> str:
    """Return the end of a refusal: which keys have made only signatures without the document's kind; or ""."""
    bare = frozenset(good_signers(signed, signatures, keys)) - good
    return f"; without the kind of the document, which the root demands: {', '.join(sorted(bare))}" if bare else ""


def _read(document: dict[str, Any], digest: str, signers: frozenset[str] = frozenset()) -> ManifestDocument:
    if document.get("type") != TYPE:
        raise ManifestRefused("malformed", f"a document of type {document.get('type')!r}, not {TYPE!r}")
    version, created, expires = (document.get(name) for name in ("version", "created", "expires"))
    if type(version) is not int or not 1 <= version < 2**53:
        raise ManifestRefused("malformed", f"version {version!r} is no whole number from 1 on")
    for name, moment in (("created", created), ("expires", expires)):
        if type(moment) not in (int, float) or not 0 <= moment < 2**40:  # type: ignore[operator]
            raise ManifestRefused("malformed", f"{name} {moment!r} is no time in unix seconds")
    if not created < expires:  # type: ignore[operator]
        raise ManifestRefused("malformed", "the manifest expires before it was created")
    rings = document.get("rings", [])
    if not isinstance(rings, list) or len(rings) > MAX_RINGS:
        raise ManifestRefused("malformed", f"`rings` is no list of at most {MAX_RINGS}")
    agent = _read_agent(document.get("agent"))
    files = read_files(document.get("files"))
    return ManifestDocument(version, float(created), float(expires), files, digest, tuple(rings), agent, signers)  # type: ignore[arg-type]


def _read_agent(agent: Any) -> dict[str, Any] | None:
    """Return the entry of the agent's own code, `{"version": TEXT, "files": {NAME: ENTRY}}`, or None without one."""
    if agent is None:
        return None
    version = agent.get("version") if isinstance(agent, dict) else None
    if not isinstance(version, str) or not _AGENT_VERSION.fullmatch(version):
        raise ManifestRefused("malformed", "`agent` is no object with a `version`, a text without spaces")
    read_files(agent.get("files"), names=AGENT_FILE_NAME)
    return dict(agent)


def read_files(listed: Any, most: int = MAX_FILES, names: re.Pattern[str] = FILE_NAME) -> dict[str, FileEntry]:
    """Return the entries under `files` of a signed document, `{NAME: FileEntry}`.

    Raises ManifestRefused `malformed` if there are more than `most`, or if a name or an entry is bad.
    """
    if not isinstance(listed, dict) or len(listed) > most:
        raise ManifestRefused("malformed", f"`files` is no object of at most {most} names")
    for name in listed:
        if not names.fullmatch(name):
            raise ManifestRefused("malformed", f"{name[:80]!r} is no file name of a set: NAME.lua or lib/NAME.lua")
    return {name: _read_entry(name, file) for name, file in listed.items()}


def _read_entry(name: str, file: Any) -> FileEntry:
    sha256, size = (file.get("sha256"), file.get("size")) if isinstance(file, dict) else (None, None)
    if not isinstance(sha256, str) or not _SHA256.fullmatch(sha256):
        raise ManifestRefused("malformed", f"{name}: no SHA-256 of 64 hexadecimal digits")
    if type(size) is not int or not 0 <= size <= MAX_FILE:
        raise ManifestRefused("malformed", f"{name}: size {size!r} is not 0 to {MAX_FILE}")
    return FileEntry(sha256, size)
