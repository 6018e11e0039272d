"""Get certificates from Helen: the first with an operator's token, later ones with the certificate held.

The key is new each time and made here. The answer is checked: the certificate must be for our key, a first one must
come with the CA that the token names, a later one must keep our name. Signing keys that are pinned stay pinned,
whatever Helen sends.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from equus.identity.identity import Identity, IdentityError, Token, split_certificates
from equus.identity.identity_store import IdentityStore
from equus.identity.new_keys import key_pem, make_key, signing_request
from equus.identity.signing_keys import checked_root, read_signing_keys
from equus.link.connection import Connection
from equus_protocol import messages as m

log = Logger(namespace="equus.sessions.enrolment")
ENROL_WITHIN = 60.0  # seconds for a certificate, without a byte of it: Helen writes it to its disk first


class Enrolment:
    """Requests certificates, checks the answers, and stores them.

    Requests fail if the connection is lost, and with Unanswered if no answer comes within ENROL_WITHIN.
    """

    def __init__(self, store: IdentityStore, defer_to_thread: Callable[..., Deferred[Any]]) -> None:
        self._store = store
        self._defer_to_thread = defer_to_thread

    async def join(self, connection: Connection, name: str, token: Token) -> Identity:
        """Return the first identity, after it is stored. Raises IdentityError if the answer is refused."""
        identity, signing_keys, root = await self._ask(connection, name, {"token": token.text})
        if not any(token.fits(_der(pem)) for pem in split_certificates(identity.ca)):
            raise IdentityError("Helen answered with another CA than the one that the token names: not believed.")
        await self._keep(identity, signing_keys, root)
        return identity

    async def renew(self, connection: Connection, held: Identity) -> Identity:
        """Return the next identity, after it is stored. It is shown from the next connection on.

        Raises IdentityError if the answer is refused.
        """
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
        answer = await connection.ask(lambda message_id: m.Enrol(message_id, name, request), ENROL_WITHIN)
        document = _read_answer(answer.blob)
        identity = Identity.of(
            document["certificate"].encode(), key_pem(key), document["ca"].encode(), "Helen's answer to enrol"
        )
        return identity, document["signing_keys"].encode(), document["root"].encode()

    async def _keep(self, identity: Identity, signing_keys: bytes, root: bytes) -> None:
        """Store an identity. Signing keys are pinned once; later they change only by roots (equus/code/update.py)."""
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
