"""Who may sign sets of checks, over time: the roots, Helen's online key, and what of it is given to agents.

Roots (equus_protocol/roots.py) lie in STATE/roots.json, the oldest first; the online key in STATE/online.key. The key
of STATE/signing.key, if Helen has it, is one of those that the newest root names, or is worth nothing. Until agents
are offered a set that the newest root's keys have signed, they are shown the roots before it only: a rotation that
stops half-way stops nothing else.
"""

from __future__ import annotations

import base64
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
from helen import signing
from helen.releases import Published, PushRefused
from helen.signing import SigningKeys
from helen.statedir import PUBLIC, StateError, write_whole

FRESH_SECONDS = 3_600.0  # that one statement of freshness is given out; agents take it for a day
KEPT_DELIVERIES = 4  # as many sets as may be asked for at once: everybody's, a ring's, and those just before
ROOTS, ONLINE, SIGNING, NEXT = "roots.json", "online.key", "signing.key", "signing.key.next"

log = Logger()


@frozen
class Dressed:
    """A delivery that has been put together, and when."""

    blob: bytes
    made: float


class KeyRing:
    """One for the whole of Helen. `clock` is unix seconds."""

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
        self._dressed: dict[str, Dressed] = {}

    @property
    def root(self) -> Root:
        """The newest; without one, the bare keys of --signing-keys."""
        return roots.read(self.chain[-1]) if self.chain else Root(self._held.public)

    @property
    def private(self) -> tuple[Ed25519PrivateKey, ...]:
        """With which sets are signed here; none when those that lie here are not enough."""
        ours = self._ours()
        return ours if len(ours) >= self.root.threshold else ()

    @property
    def held_private(self) -> tuple[Ed25519PrivateKey, ...]:
        """Those that lie here, whatever they are worth."""
        return self._held.private

    def _ours(self) -> tuple[Ed25519PrivateKey, ...]:
        return tuple(key for key in self._held.private if key_id(key.public_key()) in self.root.keys)

    # ---------------------------------------------------------------------------------------------- for agents

    def dress(self, published: Published) -> bytes:
        """What is answered to `manifest`: the set, a word of freshness, and the roots that lead to its keys."""
        now = self._clock()
        known = self._dressed.pop(published.digest, None)
        if known is None or not 0 <= now - known.made < FRESH_SECONDS:
            word = manifest.sign(freshness.build(published.document, now), [self.online])
            known = Dressed(delivery.attach(published.envelope, word, self._leading_to(published)), now)
        self._dressed[published.digest] = known
        while len(self._dressed) > KEPT_DELIVERIES:
            del self._dressed[next(iter(self._dressed))]
        return known.blob

    def _leading_to(self, published: Published | None) -> tuple[bytes, ...]:
        """The roots up to the newest whose keys have signed this set; all of them while there is no set."""
        for count in range(len(self.chain), 0, -1):
            root = roots.read(self.chain[count - 1])
            if published is None or manifest.is_signed(published.envelope, root.keys, root.threshold):
                return self.chain[:count]
        return ()

    def for_enrolment(self, published: Published | None) -> tuple[str, str]:
        """What is pinned by whoever enrols now: public keys in PEM form, and the root that names them, if any."""
        leading = self._leading_to(published)
        if not leading:
            return self._held.pem(), ""
        keys = roots.read(leading[-1]).keys.values()
        return "".join(map(signing.public_pem, keys)), leading[-1].decode()

    async def reread(self, public_keys: Path) -> bool:
        """The file of --signing-keys anew; whether other keys count from now on. Raises StateError, nothing changed.

        Where there are roots they say who signs, and not the file.
        """
        held = await deferToThread(signing.load, self._state, public_keys)
        if self.chain:
            if self.root.keys.keys() != held.public.keys():
                log.warn("the keys in {path} are not those of the newest root, which count", path=public_keys)
            return False
        is_changed = held.public.keys() != self._held.public.keys()
        self._held = held
        return is_changed

    # ---------------------------------------------------------------------------------------------- rotation

    async def follow(self, envelope: bytes) -> None:
        """Take a new root, signed elsewhere; our own signatures are added. Raises PushRefused, nothing changed."""
        await self._append(self.check_root(envelope))

    def check_root(self, envelope: bytes) -> bytes:
        """The new root with our own signatures. Raises PushRefused if it can't be followed."""
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
            raise PushRefused("not enough of the signing keys lie here: give those that sign with --key, and --new")

    async def renew_own(self) -> None:
        """A new key in place of the one that lies here, which is forgotten. Raises PushRefused, nothing changed."""
        ours, held = self._ours(), self.root
        self.check_own()
        fresh = Ed25519PrivateKey.generate()
        gone = {key_id(key.public_key()) for key in ours}
        others = [key for name, key in held.keys.items() if name not in gone]
        text = roots.build(held.version + 1, [fresh.public_key(), *others], 1, self.online.public_key())
        envelope = manifest.sign(text, [*ours, fresh])
        roots.follow(envelope, held)
        await deferToThread(signing.replace_private, self._state / NEXT, fresh)
        await self._append(envelope)
        await deferToThread((self._state / NEXT).rename, self._state / SIGNING)
        self._held = SigningKeys((fresh,), roots.read(envelope).keys)

    async def adopt(
        self, chain: tuple[bytes, ...], online: Ed25519PrivateKey, private: Ed25519PrivateKey | None
    ) -> None:
        """Take over the roots and keys of the network that this Helen is part of. Raises PushRefused, nothing changed.

        Roots that ours led to nowhere are kept beside, as roots.json.before.
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
        self._dressed.clear()
        log.info("root {version} of the network: {keys} sign check sets from now on", version=self.root.version,
                 keys=", ".join(sorted(self.root.keys)))  # fmt: skip

    async def _append(self, envelope: bytes) -> None:
        chain = (*self.chain, envelope)
        try:
            await deferToThread(write_roots, self._state / ROOTS, chain)
        except OSError as error:
            raise PushRefused(f"the new root can't be kept: {error.strerror}") from error
        self.chain = chain
        self._dressed.clear()
        log.info("root {version}: {keys} sign check sets from now on, {threshold} needed", version=self.root.version,
                 keys=", ".join(sorted(self.root.keys)), threshold=self.root.threshold)  # fmt: skip

    def _countersigned(self, envelope: bytes) -> bytes:
        """With the signature of each key that lies here and that the old or the new root names."""
        signed, signatures = manifest.open_envelope(envelope)
        named = self.root.keys.keys() | roots.read(envelope).keys.keys()
        there = {one.get("key") for one in signatures if isinstance(one, dict)}
        for key in self._held.private:
            name = key_id(key.public_key())
            if name in named and name not in there:
                signatures.append({"key": name, "signature": base64.b64encode(key.sign(signed)).decode()})
        document = {"signed": signed.decode("utf-8", "surrogatepass"), "signatures": signatures}
        return json.dumps(document, separators=(",", ":")).encode()


# ---------------------------------------------------------------------------------------------------- files


def load(state: Path, public_keys: Path | None, clock: Callable[[], float]) -> KeyRing:
    """Blocking, at start: what lies in STATE, made where it is missing. Raises StateError."""
    chain = read_roots(state / ROOTS)
    _finish_rotation(state, chain)
    online = signing.load(state, None, ONLINE).private[0]
    if public_keys is not None:
        held = signing.load(state, public_keys)
    elif chain and not (state / SIGNING).exists():
        held = SigningKeys((), roots.read(chain[-1]).keys)
    else:
        held = signing.load(state)
    if not chain and held.private:
        first = roots.build(1, held.public.values(), 1, online.public_key())
        chain = (manifest.sign(first, held.private),)
        write_roots(state / ROOTS, chain)
    ring = KeyRing(state, held, chain, online, clock)
    if public_keys is not None and chain and ring.root.keys.keys() != held.public.keys():
        log.warn("the keys in {path} are not those of the newest root, which count; see `helen keys`", path=public_keys)
    return ring


def read_roots(path: Path) -> tuple[bytes, ...]:
    """Each in its envelope, and each the successor of the one before. Raises StateError."""
    if not path.exists():
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
    """The last of them. Raises ManifestRefused where one does not follow from the one before."""
    held = roots.read(chain[0])
    for envelope in chain[1:]:
        held = roots.follow(envelope, held)
    return held


def replace_all(
    state: Path, chain: tuple[bytes, ...], online: Ed25519PrivateKey, private: Ed25519PrivateKey | None, aside: bool
) -> None:
    """Blocking. The roots come last: with the old ones, new keys are worth nothing, and it is done again."""
    if aside:
        for name in (ROOTS, ONLINE, SIGNING):
            with contextlib.suppress(FileNotFoundError):
                (state / name).rename(state / f"{name}.before")
    if private is not None:
        signing.replace_private(state / SIGNING, private)
    else:
        (state / SIGNING).unlink(missing_ok=True)
    signing.replace_private(state / ONLINE, online)
    write_roots(state / ROOTS, chain)


def write_roots(path: Path, chain: tuple[bytes, ...]) -> None:
    write_whole(path, json.dumps([each.decode() for each in chain], indent=1).encode() + b"\n", PUBLIC)


def _finish_rotation(state: Path, chain: tuple[bytes, ...]) -> None:
    """A crash between the new root and the new name of its key; or before both, and the key is nobody's."""
    path = state / NEXT
    if not path.exists():
        return
    name = key_id(signing.load_private(path).public_key())
    if chain and name in roots.read(chain[-1]).keys:
        path.rename(state / SIGNING)
    else:
        path.unlink()
