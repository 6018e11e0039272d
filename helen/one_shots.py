"""Code that is in no published set, run once on chosen agents: Helen signs an order for it, or takes a signed one.

What agents run is signed with the keys of sets, whoever asks (docs/security.rst). Each order is in the audit before an
agent hears of it. Asking is `House.ask` as ever; the answers are told to whoever asked, and kept nowhere.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Callable, Mapping
from typing import Any

from attrs import evolve, field, frozen
from twisted.internet.threads import deferToThread

from equus_protocol import manifest, once, results
from equus_protocol import messages as m
from equus_protocol.manifest import ManifestRefused
from equus_protocol.results import ResultDocument
from helen import repl_source
from helen.keyring import KeyRing
from helen.records import AuditEntry, audit
from helen.runs import Claim, Runs
from helen.store import Store

SHOWN = (
    2_000  # characters of the code that the audit keeps: the beginning of a file, or the end of a line of `helen repl`
)
READ_AT_ONCE = 65_536  # bytes of an answer: about a millisecond; greater ones are read in a thread
TOO_OLD = "this agent's Equus doesn't know how to run code that is in no set: upgrade it"


class OrderRefused(Exception):
    """Why nobody is asked, as a sentence."""


class NeedsSignature(OrderRefused):
    """Helen does not hold the keys whose signatures agents want."""


@frozen
class Code:
    """What somebody wants to run; Helen signs it. `life` is for how many seconds agents may be given it."""

    check: str
    files: Mapping[str, bytes] = field(repr=False)
    args: Mapping[str, Any]
    on: tuple[str, ...]
    life: float = once.LIFE


@frozen
class Signed:
    """An order that was signed elsewhere, and its files."""

    envelope: bytes = field(repr=False)
    files: Mapping[str, bytes] = field(repr=False)


@frozen
class Prepared:
    """What agents are sent: the blob of a check called `once.NAME`. `on` says who is meant."""

    blob: bytes = field(repr=False)
    check: str
    sha256: str
    on: tuple[str, ...]


class OneShots:
    """One for the whole of Helen. `wall` is unix seconds."""

    def __init__(self, keys: KeyRing, store: Store, wall: Callable[[], float]) -> None:
        self._keys = keys
        self._store = store
        self._wall = wall

    async def prepare(self, wanted: Code | Signed, actor: str = "operator", dry_run: bool = False) -> Prepared:
        """Sign or verify, and write it into the audit. Raises OrderRefused, or what the store raises."""
        blob = self._sign(wanted) if isinstance(wanted, Code) else once.pack(_sound(wanted.envelope), wanted.files)
        root = self._keys.root
        try:
            order = once.read(blob, root.keys, root.threshold, self._wall())
        except ManifestRefused as refused:
            raise OrderRefused(f"{refused}. `helen keys` lists the keys that count") from refused
        prepared = Prepared(blob, order.check, hashlib.sha256(order.source).hexdigest(), order.on)
        if dry_run:
            return prepared
        await self._store.call(audit, AuditEntry(self._wall(), actor, "one-shot", order.check, detail=describe(order)))
        return prepared

    def _sign(self, code: Code) -> bytes:
        private = self._keys.private
        if not private:
            raise NeedsSignature(
                "agents run only code that the keys of sets have signed, and Helen does not hold enough of them:"
                " give --key FILE"
            )
        now = self._wall()
        try:
            text = once.build(
                secrets.token_hex(16), code.check, code.files, code.args, code.on, now, now + code.life
            )  # fmt: skip
        except ValueError as error:
            raise OrderRefused(str(error)) from error
        return once.pack(manifest.sign(text, private), code.files)


def _sound(envelope: bytes) -> bytes:
    """It is laid into a document as it is, so it must be one itself."""
    try:
        manifest.open_envelope(envelope)
    except ManifestRefused as refused:
        raise OrderRefused(str(refused)) from refused
    return envelope


def describe(order: once.Order) -> str:
    """For the audit: who signed what for whom, and how it begins. A line of `helen repl` without what is around it."""
    text = order.source.decode("utf-8", "replace")
    typed = repl_source.line_of(text)
    shown = {
        "id": order.id, "on": list(order.on), "sha256": hashlib.sha256(order.source).hexdigest(),
        "signers": sorted(order.signers), "expires": order.expires, "args": sorted(order.args),
        "code": text[:SHOWN] if typed is None else typed[-SHOWN:],
    }  # fmt: skip
    return json.dumps(shown, ensure_ascii=False)


# ---------------------------------------------------------------------------------------------------- answers


def answered(runs: Runs, claim: Claim, result: m.Result) -> None:
    """Tell whoever asked; a great document is read in a thread."""
    if len(result.blob) <= READ_AT_ONCE:
        _settle(runs, claim, results.parse(result.blob), result.blob)
        return
    read = deferToThread(results.parse, result.blob)
    read.addCallback(lambda document: _settle(runs, claim, document, result.blob))


def _settle(runs: Runs, claim: Claim, document: ResultDocument, blob: bytes) -> None:
    if document.reason == "unknown-check":  # an agent that has never heard of orders
        document = evolve(document, reason="denied", summary=TOO_OLD)
    runs.settle(claim, document, blob)
