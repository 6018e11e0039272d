"""Define the keys that sign check sets at this server, and how many signatures agents ask for. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from attrs import field, frozen
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from equus_protocol import manifest
from equus_protocol.manifest import ManifestRefused
from equus_protocol.roots import Root
from helen.library.published import Pair, PushRefused, Signed


@frozen
class KeysInForce:
    """Holds the private keys here, and the public ones that agents trust, by their ids.

    Agents take sets that `threshold` of `public` have signed; with `typed` only signatures over the kind of the
    document count.
    """

    private: tuple[Ed25519PrivateKey, ...] = field(repr=False)
    public: Mapping[str, Ed25519PublicKey]
    threshold: int = 1
    typed: bool = False

    @classmethod
    def of_root(cls, private: Iterable[Ed25519PrivateKey], root: Root) -> KeysInForce:
        """Return the keys that a root names, with the private ones that are here."""
        return cls(tuple(private), dict(root.keys), root.threshold, root.typed)

    def have_signed(self, envelope: bytes) -> bool:
        """Return True if this is an envelope that enough of the keys have signed."""
        try:
            return manifest.is_signed(envelope, self.public, self.threshold, manifest.TYPE if self.typed else None)
        except ManifestRefused:
            return False

    def sign(self, pair: Pair) -> tuple[Signed, Signed]:
        """Return both manifests of a pair, signed by the private keys. Raises PushRefused if they can't sign it."""
        try:
            new, undo = manifest.sign(pair.new, self.private), manifest.sign(pair.undo, self.private)
        except ValueError as error:
            raise PushRefused(str(error)) from error
        return pair.signed(new, undo)
