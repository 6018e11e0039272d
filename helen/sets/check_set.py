"""Read a set of checks: its files, its set.toml, and the signature of its author over both. Pure.

The author signs a text that names each file with its hash; the hash of this text is what a folder pins.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import tomllib
from collections.abc import Mapping
from typing import Any

from attrs import field, frozen
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from equus_protocol.check_api import API, api_text, read_api
from equus_protocol.manifest import FILE_NAME, key_id
from helen.sets.refused import SetRefused

SET_FILE = "set.toml"
LONGEST_SET_FILE = 65_536  # bytes
FIELDS = ("name", "version", "summary", "author", "api", "policy", "key", "signature")
POLICY_TABLES = ("caps", "plugins", "programs")  # what an author may ask hosts for; isolation and logins are not his
_SIGNED = b"helen set of checks 1\n"
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
_VERSION = re.compile(r"\d{1,9}(\.\d{1,9}){0,3}")
_TESTS = re.compile(r"tests/(.+)")
_OTHER = re.compile(r"(README|LICENSE)(\.(rst|md|txt))?")


@frozen
class CheckSet:
    """Holds a set that is whole: signed by the key that it names, with files that may lie in a folder of checks.

    `files` has checks, libraries and tests by name; `digest` is the hash of all that is signed.
    """

    name: str
    version: str
    summary: str
    author: str
    least: tuple[int, int]
    below: tuple[int, int] | None
    policy: str
    key: str  # base64 of the 32 bytes
    digest: str
    files: Mapping[str, bytes] = field(repr=False)

    @property
    def key_id(self) -> str:
        """Return the short name of the author's key."""
        return key_id(public_key(self.key))

    @property
    def checks(self) -> list[str]:
        """Return the names of its checks."""
        return sorted(name.removesuffix(".lua") for name in self.files if "/" not in name)

    @property
    def order(self) -> tuple[int, ...]:
        """Return the version as numbers that can be compared."""
        return version_order(self.version)


def version_order(version: str) -> tuple[int, ...]:
    """Return a version as four numbers: 1.2 is 1.2.0.0."""
    return tuple([*map(int, version.split(".")), 0, 0, 0][:4])


def claimed_version(found: Mapping[str, bytes]) -> str | None:
    """Return the version that set.toml names, unproven; None if there is no set here. Raises SetRefused."""
    return str(_described(found)["version"]) if SET_FILE in found else None


def read_set(found: Mapping[str, bytes]) -> CheckSet:
    """Return the set of these files. Raises SetRefused if one is none of a set's, or the signature does not fit."""
    described = _described(found)
    files = _files(found)
    key, signature = described["key"], described["signature"]
    if not key or not signature:
        raise SetRefused(f"{SET_FILE} has no signature: its author runs `helen checks sign`")
    signed = signed_text(described, found)
    try:
        public_key(key).verify(_base64(signature, "signature", 64), signed)
    except InvalidSignature:
        raise SetRefused(
            "the signature is not that of these files: they were changed after their author signed"
        ) from None
    least, below = _bounds(described["api"])
    name, version, summary, author, policy = (described[each] for each in (*FIELDS[:4], "policy"))
    plain = base64.b64encode(public_key(key).public_bytes_raw()).decode()
    digest = hashlib.sha256(signed).hexdigest()
    return CheckSet(name, version, summary, author, least, below, policy, plain, digest, files)


def judge_api(found: CheckSet, ours: tuple[int, int] = API) -> None:
    """Raise SetRefused if the set was written for another API than checks have here."""
    if ours < found.least:
        raise SetRefused(
            f"{found.name} {found.version} needs the API of checks {api_text(found.least)}, and this Helen has "
            f"{api_text(ours)}: upgrade Helen and its agents first"
        )
    if found.below is not None and ours >= found.below:
        raise SetRefused(
            f"{found.name} {found.version} is for an API of checks below {api_text(found.below)}, and this Helen has "
            f"{api_text(ours)}: ask its author for a newer version"
        )


def sign_set(found: Mapping[str, bytes], private: Ed25519PrivateKey) -> bytes:
    """Return the text of set.toml with the key and its signature. Raises SetRefused if these files are no set."""
    key = base64.b64encode(private.public_key().public_bytes_raw()).decode()
    described = _described(found) | {"key": key}
    _files(found)
    _bounds(described["api"])
    signature = base64.b64encode(private.sign(signed_text(described, found))).decode()
    bare = re.sub(r"(?m)^(key|signature)\s*=.*\n?", "", found[SET_FILE].decode())
    text = f'key = "{key}"\nsignature = "{signature}"\n{bare}'.encode()
    read_set({**found, SET_FILE: text})
    return text


def signed_text(described: Mapping[str, Any], found: Mapping[str, bytes]) -> bytes:
    """Return what an author signs: all fields of set.toml but the signature, and the hash of each other file."""
    fields = {name: value for name, value in described.items() if name != "signature"}
    hashes = {name: hashlib.sha256(content).hexdigest() for name, content in found.items() if name != SET_FILE}
    return _SIGNED + json.dumps({**fields, "files": hashes}, sort_keys=True, separators=(",", ":")).encode()


def public_key(text: str) -> Ed25519PublicKey:
    """Return a public key of its base64. Raises SetRefused."""
    return Ed25519PublicKey.from_public_bytes(_base64(text, "key", 32))


def _described(found: Mapping[str, bytes]) -> dict[str, Any]:
    """Return the fields of set.toml, those that are missing as empty texts. Raises SetRefused for a wrong one."""
    if SET_FILE not in found:
        raise SetRefused(f"there is no {SET_FILE} in it: this is no set of checks")
    if len(found[SET_FILE]) > LONGEST_SET_FILE:
        raise SetRefused(f"{SET_FILE} has more than {LONGEST_SET_FILE} bytes")
    try:
        document = tomllib.loads(found[SET_FILE].decode())
    except (ValueError, RecursionError) as error:
        raise SetRefused(f"{SET_FILE} can't be read: {str(error)[:200]}") from error
    strange = sorted(document.keys() - set(FIELDS))
    if strange:
        raise SetRefused(f"{SET_FILE} has a field {strange[0][:60]!r}; its fields are {', '.join(FIELDS)}")
    texts = {name: document.get(name, "") for name in FIELDS if name != "api"}
    for name, value in texts.items():
        if not isinstance(value, str) or (name != "policy" and "\n" in value):
            raise SetRefused(f"{SET_FILE}: {name} is one line of text")
    if not _NAME.fullmatch(texts["name"]):
        raise SetRefused(f"{SET_FILE}: name is 1 to 63 of a-z 0-9 _ -, beginning with a letter or digit")
    if not _VERSION.fullmatch(texts["version"]):
        raise SetRefused(f"{SET_FILE}: version is up to four numbers with points between, such as 1.2.0")
    _judge_policy(texts["policy"])
    return {**texts, "api": document.get("api")}


def _judge_policy(text: str) -> None:
    """Raise SetRefused for lines of a policy that would do more than grant what checks need."""
    try:
        asked = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise SetRefused(f"{SET_FILE}: policy holds no lines of a policy: {str(error)[:200]}") from error
    strange = sorted(asked.keys() - set(POLICY_TABLES))
    if strange:
        raise SetRefused(f"{SET_FILE}: policy may have {', '.join(POLICY_TABLES)}, not {strange[0][:60]!r}")


def _bounds(api: Any) -> tuple[tuple[int, int], tuple[int, int] | None]:
    """Return the least version of the API, and the one that it must be below. Raises SetRefused."""
    if not isinstance(api, dict) or not isinstance(api.get("least"), str) or api.keys() - {"least", "below"}:
        raise SetRefused(
            f'{SET_FILE}: api = {{ least = "{api_text()}", below = "2.0" }} is needed; below may be left out'
        )
    try:
        below = api.get("below")
        return read_api(api["least"]), None if below is None else read_api(str(below))
    except ValueError as error:
        raise SetRefused(f"{SET_FILE}: {error}") from error


def _files(found: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the checks, libraries and tests. Raises SetRefused for any other file, and for a set without a check."""
    kept: dict[str, bytes] = {}
    for name, content in found.items():
        tested = _TESTS.fullmatch(name)
        inner = tested[1] if tested else name
        if FILE_NAME.fullmatch(inner) and not (tested and "/" in inner):
            kept[name] = content
        elif name != SET_FILE and not _OTHER.fullmatch(name):
            raise SetRefused(
                f"{name[:120]} is no file of a set: NAME.lua, lib/NAME.lua, tests/NAME.lua, {SET_FILE}, README, LICENSE"
            )
    checks = {name for name in kept if "/" not in name}
    if not checks:
        raise SetRefused("there is no check in it, NAME.lua")
    untested = sorted(name for name in checks if f"tests/{name}" not in kept)
    if untested:
        raise SetRefused(f"{untested[0]} has no tests/{untested[0]}: each check of a set brings recorded tests")
    _judge_case(kept)
    return kept


def _judge_case(names: Mapping[str, bytes]) -> None:
    """Raise SetRefused for two names that differ in case alone: people and some disks take them for one."""
    seen: dict[str, str] = {}
    for name in names:
        other = seen.setdefault(name.casefold(), name)
        if other != name:
            raise SetRefused(f"{name} and {other} differ in upper and lower case alone")


def _base64(text: str, what: str, size: int) -> bytes:
    try:
        found = base64.b64decode(text, validate=True)
    except ValueError:
        found = b""
    if len(found) != size:
        raise SetRefused(f"{SET_FILE}: {what} is base64 of {size} bytes of Ed25519")
    return found
