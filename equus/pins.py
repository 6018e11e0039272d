"""Whose signatures this agent believes, now: the root in memory, in step with the one on disk."""

from __future__ import annotations

from equus.identity import IdentityStore
from equus_protocol.roots import Root


class Pins:
    """One for the whole agent. `root` is read by whoever judges a manifest."""

    def __init__(self, store: IdentityStore) -> None:
        self._store = store
        self.root: Root = store.root()

    def refresh(self) -> None:
        """Something may have been pinned."""
        self.root = self._store.root()

    def keep(self, envelope: bytes) -> None:
        """A root that follows the one held. Blocking; `refresh` afterwards, in the reactor."""
        self._store.keep_root(envelope)
