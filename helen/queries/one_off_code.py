"""Prepares one-off code for chosen agents: Helen signs an order for it, or takes one that was signed elsewhere.

Agents run only what the keys of check sets have signed (docs/security.rst). Each order is in the audit before an agent
hears of it. `SessionService.ask` sends it as any other query; its answers go to the caller alone, and are kept nowhere.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Callable, Mapping
from typing import Any

from attrs import evolve, field, frozen

from equus_protocol import manifest, one_off, results
from equus_protocol.manifest import ManifestRefused
from equus_protocol.results import ResultDocument
from helen.library.keyring import KeyRing
from helen.queries import repl_source
from helen.storage.agent_rows import AuditEntry, audit
from helen.storage.database import Store

SHOWN = 2_000  # characters of code that the audit keeps: the beginning of a file, the end of a line of `helen repl`
TOO_OLD = "this agent's Equus doesn't know how to run code that is in no set: upgrade it"


class OrderRefused(Exception):
    """Says that an order for one-off code can't be given; the text says why."""


class NeedsSignature(OrderRefused):
    """Says that Helen does not hold the keys that agents want an order to be signed with."""


@frozen
class Code:
    """Holds code that Helen is asked to sign.

    `on`: patterns of agents; `life`: seconds for which agents may be given it.
    """

    check: str
    files: Mapping[str, bytes] = field(repr=False)
    args: Mapping[str, Any]
    on: tuple[str, ...]
    life: float = one_off.LIFE


@frozen
class Signed:
    """Holds an order that was signed elsewhere, and its files."""

    envelope: bytes = field(repr=False)
    files: Mapping[str, bytes] = field(repr=False)


@frozen
class Prepared:
    """Holds a signed order as it is sent to agents: the blob of a check called `one_off.NAME`. `on`: patterns of
    agents.
    """

    blob: bytes = field(repr=False)
    check: str
    sha256: str
    on: tuple[str, ...]


class OneOffCode:
    """Signs and verifies orders with the keys that are in force. `wall`: unix seconds."""

    def __init__(self, keys: KeyRing, store: Store, wall: Callable[[], float]) -> None:
        self._keys = keys
        self._store = store
        self._wall = wall

    async def prepare(self, wanted: Code | Signed, actor: str = "operator", dry_run: bool = False) -> Prepared:
        """Sign or verify the order, and write it into the audit.

        Raises OrderRefused if agents would not take it, and StoreFailed, StoreOverloaded or StoreClosed if the audit
        can't be written.
        """
        blob = self._sign(wanted) if isinstance(wanted, Code) else one_off.pack(_sound(wanted.envelope), wanted.files)
        root = self._keys.root
        try:
            order = one_off.read(blob, root.keys, root.threshold, self._wall(), root.typed)
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
                " sign it with a key of yours, such as by `helen run --key FILE`"
            )
        now = self._wall()
        try:
            text = one_off.build(
                secrets.token_hex(16), code.check, code.files, code.args, code.on, now, now + code.life
            )  # fmt: skip
        except ValueError as error:
            raise OrderRefused(str(error)) from error
        return one_off.pack(one_off.sign(text, private), code.files)


def _sound(envelope: bytes) -> bytes:
    """Return the envelope if it is one: it is laid into a document as it is. Raises OrderRefused otherwise."""
    try:
        manifest.open_envelope(envelope)
    except ManifestRefused as refused:
        raise OrderRefused(str(refused)) from refused
    return envelope


def describe(order: one_off.Order) -> str:
    """Return the order's row of the audit, as JSON.

    Keys: `id`, `on`, `sha256`, `signers`, `expires`, `args` and `code`, the beginning of the code; of a line of
    `helen repl` it is the line without the frame around it.
    """
    text = order.source.decode("utf-8", "replace")
    typed = repl_source.line_of(text)
    shown = {
        "id": order.id, "on": list(order.on), "sha256": hashlib.sha256(order.source).hexdigest(),
        "signers": sorted(order.signers), "expires": order.expires, "args": sorted(order.args),
        "code": text[:SHOWN] if typed is None else typed[-SHOWN:],
    }  # fmt: skip
    return json.dumps(shown, ensure_ascii=False)


# ---------------------------------------------------------------------------------------------------- answers


def read_answer(blob: bytes) -> ResultDocument:
    """Return the document of an answer to one-off code; an agent that knows no orders refuses it."""
    document = results.parse(blob)
    return evolve(document, reason="denied", summary=TOO_OLD) if document.reason == "unknown-check" else document
