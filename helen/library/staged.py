"""Hold a set that waits for signatures from elsewhere: with public keys alone nothing can be signed here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import field, frozen
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from equus_protocol import manifest
from equus_protocol.manifest import FileEntry, ManifestDocument, ManifestRefused
from helen.library.published import Pair, Published, PushRefused
from helen.library.withheld_files import Refusal


@frozen
class Staged:
    """Describes a set whose pair of manifests is to be signed.

    `refused` is what it keeps from being published again.
    """

    pair: Pair
    files: dict[str, FileEntry]
    contents: dict[str, bytes] = field(repr=False)
    agent: Mapping[str, Any] | None = None
    refused: tuple[Refusal, ...] = ()

    @property
    def version(self) -> int:
        """Return the version that it will be published as."""
        return self.pair.version

    def is_renewal_of(self, published: Published | None) -> bool:
        """Return True if it has the same files and the same Equus."""
        return published is not None and (self.files, self.agent) == (published.files, published.document.agent)

    def check_signatures(
        self, envelope: bytes, undo: bytes, keys: Mapping[str, Ed25519PublicKey], threshold: int, now: float,
        typed: bool = False,
    ) -> None:  # fmt: skip
        """Raises PushRefused if these are not the pair, or if fewer than `threshold` keys have signed them.

        `now`: unix seconds. `typed`: only signatures over the kind of the document count. The times in them may differ
        from those of the pair: a restart makes it anew, while signatures travel from one person to the next. The undo
        may have the files of the push itself, where the set before is not known to those that sign.
        """
        wanted = [_content(self.pair.new_document), _content(self.pair.undo_document)]
        try:
            found = [
                _content(manifest.verify(each, keys, now, threshold=threshold, typed=typed))
                for each in (envelope, undo)
            ]
        except ManifestRefused as refused:
            raise PushRefused(f"{refused}. `helen keys` lists the keys that are known here") from refused
        version, *same = wanted[0]
        if found not in (wanted, [wanted[0], (version + 1, *same)]):  # or a push without a way back
            raise PushRefused("the folder has changed since that was signed: look at `helen push --dry-run`, sign anew")


def _content(document: ManifestDocument) -> tuple[Any, ...]:
    return document.version, document.files, document.agent, document.rings
