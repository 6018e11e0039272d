"""Keeps the keys that sign check sets, over time: the roots and Helen's online key, and the part that agents are given.

It signs roots and statements of freshness; sets of checks are signed in releases, by equus_protocol/manifest.py.

Roots (equus_protocol/roots.py) lie in STATE/roots.json, the oldest first; the online key in STATE/online.key. The key
of STATE/signing.key, if Helen has it, is one of those that the newest root names, or is worth nothing. Until agents
are offered a set that the newest root's keys have signed, they get the roots before it only: a rotation that stops
half-way stops nothing else.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from pathlib import Path

from attrs import frozen
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from twisted.internet.threads import deferToThread
from twisted.logger import Logger

from equus_protocol import delivery, freshness, manifest, roots
from equus_protocol.manifest import ManifestRefused, key_id
from equus_protocol.roots import Root
from groundwork.atomic_write import PUBLIC, write_durably
from groundwork.presence import is_there
from helen.files.state_dir import StateError
from helen.keys import signing_keys
from helen.keys.signing_keys import SigningKeys
from helen.library.published import Published, PushRefused

FRESH_SECONDS = 3_600.0  # that one statement of freshness is given out; agents take it for a day
KEPT_DELIVERIES = 4  # as many sets as may be asked for at once: all agents', a ring's, and those just before
ROOTS, ONLINE, SIGNING, NEXT = "roots.json", "online.key", "signing.key", "signing.key.next"

log = Logger()


@frozen
class SignedDelivery:
    """Describes a manifest with its statements. `made`: unix seconds."""

    blob: bytes
    made: float


class KeyRing:
    """Holds the roots and the online key, and signs roots and statements of freshness. `clock`: unix seconds."""

    def __init__(
        self,
        state: Path,
        held: SigningKeys,
        chain: tuple[bytes, ...],
        online: Ed25519PrivateKey,
        clock: Callable[[], float],
    ) -> None:
        self.chain = chain
        self.online = online
        self._state = state
        self._held = held
        self._clock = clock
        self._deliveries: dict[str, SignedDelivery] = {}
        self._stated = 0.0  # unix seconds: the date of the newest statement

    @property
    def root(self) -> Root:
        """Return the newest root; without one, the bare keys of --signing-keys."""
        return roots.read(self.chain[-1]) if self.chain else Root(self._held.public)

    @property
    def private(self) -> tuple[Ed25519PrivateKey, ...]:
        """Return the keys that sets are signed with here; none if those that lie here are not enough."""
        ours = self._ours()
        return ours if len(ours) >= self.root.threshold else ()

    @property
    def held_private(self) -> tuple[Ed25519PrivateKey, ...]:
        """Return the private keys that lie here, whether or not the root names them."""
        return self._held.private

    def _ours(self) -> tuple[Ed25519PrivateKey, ...]:
        return tuple(key for key in self._held.private if key_id(key.public_key()) in self.root.keys)

    # ---------------------------------------------------------------------------------------------- for agents

    def add_statements(self, published: Published) -> bytes:
        """Return the answer to `manifest`: the set, a statement of freshness, and the roots that lead to its keys."""
        now = self._clock()
        known = self._deliveries.pop(published.digest, None)
        if known is None or not 0 <= now - known.made < FRESH_SECONDS:
            statement = freshness.sign(freshness.build(published.document, self._date(now)), self.online)
            known = SignedDelivery(delivery.attach(published.envelope, statement, self._leading_to(published)), now)
        self._deliveries[published.digest] = known
        while len(self._deliveries) > KEPT_DELIVERIES:
            del self._deliveries[next(iter(self._deliveries))]
        return known.blob

    def date_from(self, at: float) -> None:
        """Date further statements not before `at`, unix seconds, to which a wrong clock may have dated the last ones.

        An agent takes no statement that is older than one that it has seen.
        """
        self._stated = max(self._stated, at)

    def _date(self, now: float) -> float:
        """Return the date of a statement: not before the last one, if an agent may have taken that one."""
        if self._stated > now + freshness.SKEW:  # so far ahead that every agent refused it
            self._stated = now
        self._stated = max(self._stated, now)
        return self._stated

    def _leading_to(self, published: Published | None) -> tuple[bytes, ...]:
        """Return the roots up to the newest whose keys have signed this set; all of them while there is no set."""
        for count in range(len(self.chain), 0, -1):
            root = roots.read(self.chain[count - 1])
            if published is None or manifest.is_signed(
                published.envelope, root.keys, root.threshold, root.kind(manifest.TYPE)
            ):
                return self.chain[:count]
        return ()

    def for_enrolment(self, published: Published | None) -> tuple[str, str]:
        """Return what a new agent pins: public keys in PEM form, and the root that names them, or ""."""
        leading = self._leading_to(published)
        if not leading:
            return self._held.pem(), ""
        keys = roots.read(leading[-1]).keys.values()
        return "".join(map(signing_keys.public_pem, keys)), leading[-1].decode()

    async def reread(self, public_keys: Path) -> bool:
        """Read the file of --signing-keys anew; return True if other keys count from now on.

        Where there are roots they name the keys, and not the file. Raises StateError, and then nothing has changed.
        """
        held = await deferToThread(signing_keys.load, self._state, public_keys)
        if self.chain:
            if self.root.keys.keys() != held.public.keys():
                log.warn("the keys in {path} are not those of the newest root, which count", path=public_keys)
            return False
        is_changed = held.public.keys() != self._held.public.keys()
        self._held = held
        return is_changed

    # ---------------------------------------------------------------------------------------------- rotation

    async def follow(self, envelope: bytes) -> None:
        """Take a new root, signed elsewhere, and add our own signatures. Raises PushRefused if it can't be followed."""
        await self._append(self.check_root(envelope))

    def check_root(self, envelope: bytes) -> bytes:
        """Return the new root with our own signatures. Raises PushRefused if it can't be followed."""
        try:
            signed = self._countersigned(envelope)
            root = roots.follow(signed, self.root)
        except ManifestRefused as refused:
            raise PushRefused(f"the new root is refused: {refused}") from refused
        if root.online is None or key_id(root.online) != key_id(self.online.public_key()):
            raise PushRefused("the new root names another online key than this Helen's: begin anew with `helen keys`")
        return signed

    def check_own(self) -> None:
        """Raises PushRefused where `renew_own` would."""
        if not self.private:
            raise PushRefused(
                "not enough of the signing keys lie here: `helen keys rotate --key FILE --new FILE` signs"
            )

    async def renew_own(self) -> None:
        """Put a new key in place of the one that lies here, which is forgotten.

        Raises PushRefused if not enough of the keys lie here, and then nothing has changed.
        """
        ours, held = self._ours(), self.root
        self.check_own()
        fresh = Ed25519PrivateKey.generate()
        gone = {key_id(key.public_key()) for key in ours}
        others = [key for name, key in held.keys.items() if name not in gone]
        text = roots.build(held.version + 1, [fresh.public_key(), *others], 1, self.online.public_key())
        envelope = roots.sign(text, [*ours, fresh])
        roots.follow(envelope, held)
        await deferToThread(signing_keys.replace_private, self._state / NEXT, fresh)
        await self._append(envelope)
        await deferToThread((self._state / NEXT).rename, self._state / SIGNING)
        self._held = SigningKeys((fresh,), roots.read(envelope).keys)

    async def adopt(
        self, chain: tuple[bytes, ...], online: Ed25519PrivateKey, private: Ed25519PrivateKey | None
    ) -> None:
        """Take over the roots and keys of the network that this Helen is part of.

        If their first root is another than ours, ours are kept as roots.json.before. Raises PushRefused if they can't
        be followed or kept, and then nothing has changed.
        """
        try:
            newest = follow_all(chain)
        except (ManifestRefused, LookupError) as error:
            raise PushRefused(f"the roots of the network are refused: {error}") from error
        is_other = bool(self.chain) and chain[0] != self.chain[0]
        held = SigningKeys((private,), newest.keys) if private is not None else SigningKeys((), newest.keys)
        try:
            await deferToThread(replace_all, self._state, chain, online, private, is_other)
        except OSError as error:
            raise PushRefused(f"the keys of the network can't be kept: {error.strerror}") from error
        self.chain, self.online, self._held = chain, online, held
        self._deliveries.clear()
        log.info("root {version} of the network: {keys} sign check sets from now on", version=self.root.version,
                 keys=", ".join(sorted(self.root.keys)))  # fmt: skip

    async def _append(self, envelope: bytes) -> None:
        chain = (*self.chain, envelope)
        try:
            await deferToThread(write_roots, self._state / ROOTS, chain)
        except OSError as error:
            raise PushRefused(f"the new root can't be kept: {error.strerror}") from error
        self.chain = chain
        self._deliveries.clear()
        log.info("root {version}: {keys} sign check sets from now on, {threshold} needed", version=self.root.version,
                 keys=", ".join(sorted(self.root.keys)), threshold=self.root.threshold)  # fmt: skip

    def _countersigned(self, envelope: bytes) -> bytes:
        """Add the signature of each key that lies here and that the old or the new root names."""
        signed, signatures = manifest.open_envelope(envelope)
        named = self.root.keys.keys() | roots.read(envelope).keys.keys()
        there = {one.get("key") for one in signatures if isinstance(one, dict)}
        for key in self._held.private:
            name = key_id(key.public_key())
            if name in named and name not in there:
                signatures.append(manifest.signature_of(signed, key, roots.TYPE))
        return manifest.seal(signed, signatures)


# ---------------------------------------------------------------------------------------------------- files


def load(state: Path, public_keys: Path | None, clock: Callable[[], float]) -> KeyRing:
    """Load the keys of STATE, and make those that are missing. Blocks. Raises StateError if a file can't be used."""
    chain = read_roots(state / ROOTS)
    _finish_rotation(state, chain)
    online = signing_keys.load(state, None, ONLINE).private[0]
    if public_keys is not None:
        held = signing_keys.load(state, public_keys)
    elif chain and not is_there(state / SIGNING):
        held = SigningKeys((), roots.read(chain[-1]).keys)
    else:
        held = signing_keys.load(state)
    if not chain and held.private:
        first = roots.build(1, held.public.values(), 1, online.public_key())
        chain = (roots.sign(first, held.private),)
        write_roots(state / ROOTS, chain)
    ring = KeyRing(state, held, chain, online, clock)
    if public_keys is not None and chain and ring.root.keys.keys() != held.public.keys():
        log.warn("the keys in {path} are not those of the newest root, which count; see `helen keys`", path=public_keys)
    return ring


def read_roots(path: Path) -> tuple[bytes, ...]:
    """Return the roots in their envelopes, each the successor of the one before. Raises StateError if they are not."""
    if not is_there(path):
        return ()
    try:
        listed = json.loads(path.read_bytes())
        chain = tuple(each.encode() for each in listed)
        follow_all(chain)
    except (OSError, ValueError, TypeError, AttributeError, LookupError, ManifestRefused) as error:
        raise StateError(
            f"{path} can't be used: {error}. Bring it back from a backup: agents hold what it said"
        ) from None
    return chain


def follow_all(chain: tuple[bytes, ...]) -> Root:
    """Return the last root. Raises ManifestRefused if one does not follow from the one before."""
    held = roots.read(chain[0])
    for envelope in chain[1:]:
        held = roots.follow(envelope, held)
    return held


def replace_all(
    state: Path, chain: tuple[bytes, ...], online: Ed25519PrivateKey, private: Ed25519PrivateKey | None, aside: bool
) -> None:
    """Replace the keys and roots of STATE. Blocks; raises OSError.

    The roots come last: with the old ones, new keys are worth nothing, and it is done again.
    """
    if aside:
        for name in (ROOTS, ONLINE, SIGNING):
            with contextlib.suppress(FileNotFoundError):
                (state / name).rename(state / f"{name}.before")
    if private is not None:
        signing_keys.replace_private(state / SIGNING, private)
    else:
        (state / SIGNING).unlink(missing_ok=True)
    signing_keys.replace_private(state / ONLINE, online)
    write_roots(state / ROOTS, chain)


def write_roots(path: Path, chain: tuple[bytes, ...]) -> None:
    """Write the roots, each in its envelope. Blocks; raises OSError."""
    write_durably(path, json.dumps([each.decode() for each in chain], indent=1).encode() + b"\n", PUBLIC)


def _finish_rotation(state: Path, chain: tuple[bytes, ...]) -> None:
    """Finish a rotation that a crash has broken off: the new key counts if a root names it, or else is deleted."""
    path = state / NEXT
    if not is_there(path):
        return
    name = key_id(signing_keys.load_private(path).public_key())
    if chain and name in roots.read(chain[-1]).keys:
        path.rename(state / SIGNING)
    else:
        path.unlink()
