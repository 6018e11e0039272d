"""Hold the keys that the agent trusts to sign code: the root in memory, in step with the one on disk."""

from __future__ import annotations

from equus.identity.identity_store import IdentityStore
from equus_protocol.roots import Root


class TrustedKeys:
    """Holds the keys that sign code for this agent. `root` changes only in the reactor's thread."""

    def __init__(self, store: IdentityStore) -> None:
        """Read the root. Blocking. Raises IdentityError if it can't be read."""
        self._store = store
        self.root: Root = store.root()

    def refresh(self) -> None:
        """Read the root again, after keys may have been pinned or stored."""
        self.root = self._store.root()

    def store(self, envelope: bytes) -> None:
        """Store the envelope of a root that follows the one held. Blocking; call `refresh` in the reactor then."""
        self._store.keep_root(envelope)
