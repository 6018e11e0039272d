"""Build the next root from the operator's keys and the record of what they have signed; show the difference. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import frozen
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from equus_protocol import manifest, roots
from equus_protocol.manifest import ManifestRefused, key_id
from helen.cli.base.judged_set import IsFirst, NotOurs
from helen.cli.base.signing_record import Record, SignedRoot

_Keys = Mapping[str, Ed25519PublicKey]


@frozen
class HelensRoot:
    """Hold what `GET /api/v1/keys` says of the newest root. It is a claim: Helen may have been taken over."""

    version: int
    threshold: int
    keys: _Keys
    online: Ed25519PublicKey


@frozen
class NextRoot:
    """Hold the text of a root to sign, how many of its keys must sign, and the lines that show what it changes."""

    text: bytes
    root: SignedRoot
    lines: tuple[str, ...]


def judge_root(
    claimed: HelensRoot, fresh: _Keys, signers: _Keys, threshold: int | None, record: Record | None, first: bool
) -> NextRoot:
    """Return the next root: of the keys `fresh`, or else of those of the root before.

    `signers`: the keys that sign now. Raises NotOurs if Helen shows another root than these keys have signed last, and
    IsFirst if that can't be told.
    """
    before = _before(claimed, record)
    if before is None and signers and not first:
        raise IsFirst(
            f"there is no record of a root that these keys have signed, and Helen shows root {claimed.version}. If they"
            " sign a root for the first time, or if the record is lost, say --first"
        )
    keys = dict(fresh) or _kept_keys(claimed, signers, before)
    base = before.threshold if before is not None else claimed.threshold
    most = min(base, len(keys)) if threshold is None else threshold
    _judge_online(claimed, before, first)
    try:
        text = roots.build(claimed.version + 1, keys.values(), most, claimed.online)
    except ValueError as error:
        raise NotOurs(str(error)) from error
    listed = {name: key.public_bytes_raw().hex() for name, key in keys.items()}
    root = SignedRoot(claimed.version + 1, most, listed, _hex(claimed))
    return NextRoot(text, root, tuple(_difference(root, before)))


def judge_text(text: bytes, record: Record | None, first: bool) -> NextRoot:
    """Return a root that another person has made, as `judge_root` does; raises NotOurs or IsFirst.

    It must be the next one after a root that these keys have signed.
    """
    try:
        read = roots.read(manifest.seal(text, []))
        ours = roots.build(read.version, read.keys.values(), read.threshold, read.online)
    except (ManifestRefused, ValueError) as error:
        raise NotOurs(f"the file holds no root: {error}") from error
    if ours != text:
        raise NotOurs(
            "the root in the file has more in it than its version, keys and threshold, or doesn't say `typed`"
        )
    root = SignedRoot.of(read)
    made = [] if record is None else [each for each in (record.sent, record.root) if each is not None]
    before = next((each for each in made if each.version == root.version - 1 or each == root), None)
    if before is None and not first:
        raise IsFirst(
            f"the file holds root {root.version}, and there is no record that these keys have signed the one before. If"
            " they sign a root for the first time, or if the record is lost, say --first"
        )
    return NextRoot(text, root, tuple(_difference(root, before)))


def _before(claimed: HelensRoot, record: Record | None) -> SignedRoot | None:
    """Return the root that these keys have signed last and that Helen has. Raises NotOurs if Helen shows another."""
    made = [] if record is None else [each for each in (record.sent, record.root) if each is not None]
    theirs = {name: key.public_bytes_raw().hex() for name, key in claimed.keys.items()}
    for each in made:
        if each.version == claimed.version and (each.keys, each.threshold) == (theirs, claimed.threshold):
            return each
    same = [each for each in made if each.version >= claimed.version]
    if same and record is not None and record.root is not None:
        raise NotOurs(
            f"Helen shows root {claimed.version} of {len(theirs)} keys, {claimed.threshold} needed, and these keys have"
            f" signed root {same[0].version} of {len(same[0].keys)}, {same[0].threshold} needed"
        )
    return None


def _kept_keys(claimed: HelensRoot, signers: _Keys, before: SignedRoot | None) -> _Keys:
    if before is None:
        strange = sorted(claimed.keys.keys() - signers.keys())
        if strange:
            raise NotOurs(
                f"Helen names the key {strange[0]}, which no record of yours knows: name the keys of the new root with"
                " --new"
            )
    return claimed.keys


def _judge_online(claimed: HelensRoot, before: SignedRoot | None, first: bool) -> None:
    if before is not None and before.online != _hex(claimed) and not first:
        raise IsFirst(
            f"Helen's online key is now {key_id(claimed.online)}, another than in root {before.version}. If Helen was"
            " set up anew, say --first"
        )


def _hex(claimed: HelensRoot) -> str:
    return claimed.online.public_bytes_raw().hex()


def _difference(root: SignedRoot, before: SignedRoot | None) -> list[str]:
    old: Mapping[str, str] = before.keys if before is not None else {}
    since = f"against root {before.version}" if before is not None else "the first root of this record"
    was = f", and {before.threshold} of {len(before.keys)} before" if before is not None else ""
    lines = [f"root {root.version}, {since}: {root.threshold} of {len(root.keys)} keys must sign{was}"]
    for name in sorted(old.keys() | root.keys.keys()):
        sign = "-" if name not in root.keys else " " if name in old else "+"
        lines.append(f"  {sign} {name}")
    same = before is not None and before.online == root.online
    return [*lines, f"  {' ' if same else '+'} Helen's online key, {(root.online or '')[:16]}..."]


def read_claim(found: Any, load: Any) -> HelensRoot:
    """Return what an answer of Helen's says of the newest root; `load` makes a key of a PEM text.

    Raises NotOurs if the answer can't be read.
    """
    try:
        listed: Sequence[Any] = found["keys"]
        keys = {key_id(key): key for key in (load(each["pem"]) for each in listed)}
        version, threshold = found["version"], found["threshold"]
        if type(version) is not int or type(threshold) is not int or not 0 <= version < 2**52 or threshold < 1:
            raise ValueError("version or threshold is no number")
        return HelensRoot(version, threshold, keys, load(found["online"]["pem"]))
    except (KeyError, TypeError, ValueError, AttributeError, AssertionError) as error:
        raise NotOurs("Helen's answer about its keys can't be read: is this a Helen?") from error
