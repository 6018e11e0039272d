"""Getting a certificate from Helen: the first with an operator's token, later ones with the certificate held.

The key is new each time and made here. What comes back is believed only so far: the certificate must be for our key, a
first one must come with the CA that the token names, a later one must keep our name, and signing keys that are pinned
stay pinned, whatever Helen says.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from equus.connection import Connection
from equus.identity import (
    Identity,
    IdentityError,
    IdentityStore,
    Token,
    checked_root,
    key_pem,
    make_key,
    read_signing_keys,
    signing_request,
    split_certificates,
)
from equus_protocol import messages as m

log = Logger(namespace="equus.enrolment")


class Enrolment:
    """Asks, judges and keeps. Each method fails with IdentityError, or as the connection fails."""

    def __init__(self, store: IdentityStore, defer_to_thread: Callable[..., Deferred[Any]]) -> None:
        self._store = store
        self._defer_to_thread = defer_to_thread

    async def join(self, connection: Connection, name: str, token: Token) -> Identity:
        """The first certificate."""
        identity, signing_keys, root = await self._ask(connection, name, {"token": token.text})
        if not any(token.fits(_der(pem)) for pem in split_certificates(identity.ca)):
            raise IdentityError("Helen answered with another CA than the one that the token names: not believed.")
        await self._keep(identity, signing_keys, root)
        return identity

    async def renew(self, connection: Connection, held: Identity) -> Identity:
        """The next certificate, with a new key; it is shown from the next connection on."""
        identity, signing_keys, root = await self._ask(connection, held.name, {})
        if identity.name != held.name:
            raise IdentityError(
                f"Helen answered with a certificate for {identity.name!r}, not {held.name!r}: not used."
            )
        await self._keep(identity, signing_keys, root)
        return identity

    async def _ask(self, connection: Connection, name: str, proof: dict[str, str]) -> tuple[Identity, bytes, bytes]:
        key = make_key()
        request = json.dumps({**proof, "csr": signing_request(name, key)}).encode()
        answer = await connection.ask(lambda message_id: m.Enrol(message_id, name, request))
        document = _read_answer(answer.blob)
        identity = Identity.of(
            document["certificate"].encode(), key_pem(key), document["ca"].encode(), "Helen's answer to enrol"
        )
        return identity, document["signing_keys"].encode(), document["root"].encode()

    async def _keep(self, identity: Identity, signing_keys: bytes, root: bytes) -> None:
        """Keys are pinned once. How they change after that is said by roots that follow each other (update.py)."""
        new, held = read_signing_keys(signing_keys), self._store.root()
        if new and not held.keys:
            first = checked_root(root, new) if root else b""
            await self._defer_to_thread(self._store.pin, signing_keys, first)
        elif not held.version and new.keys() - held.keys.keys():
            log.warn(
                "Helen names signing keys {new} that are not pinned here ({pinned}): ignored. "
                "To trust them, stop this agent, remove signing-keys.pem from its state folder, and start it again.",
                new=sorted(new.keys() - held.keys.keys()),
                pinned=sorted(held.keys),
            )
        await self._defer_to_thread(self._store.save, identity)


def _read_answer(blob: bytes) -> dict[str, str]:
    try:
        document = json.loads(blob)
        answer = {name: document[name] for name in ("certificate", "ca")}
        answer |= {name: document.get(name) or "" for name in ("signing_keys", "root")}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, x509.InvalidVersion) as error:
        raise IdentityError(f"Helen's answer to enrol can't be read: {error!r}.") from error
    if not all(isinstance(value, str) for value in answer.values()):
        raise IdentityError(
            "Helen's answer to enrol can't be read: certificate, ca, signing_keys and root must be texts."
        )
    return answer


def _der(pem: bytes) -> bytes:
    return x509.load_pem_x509_certificate(pem).public_bytes(Encoding.DER)
