"""Revokes certificates of agents: in memory at once, then in the store."""

from __future__ import annotations

from twisted.internet.defer import Deferred

from groundwork.event import Event
from helen.identity.given_labels import GivenLabels
from helen.storage import credential_rows
from helen.storage.database import Store
from helen.storage.enrolled_keys import EnrolledKeys


class Revocation:
    """Ends certificates by the name of their agent.

    `known(name)` is called for each name, `revoked(name, key_hashes)` for keys that were good until now.
    """

    def __init__(
        self, store: Store, keys: EnrolledKeys, given: GivenLabels, known: Event[[str]],
        revoked: Event[[str, frozenset[str]]],
    ) -> None:  # fmt: skip
        self._store = store
        self._keys = keys
        self._given = given
        self._known = known
        self._revoked = revoked

    def revoke(self, name: str, now: float, by: str = "operator") -> Deferred[int]:
        """Revoke every certificate of a name at `now`, unix seconds; fires with their number. In memory it is at once.

        Fails with UnknownAgent.
        """
        self._shut_out(name, now)

        def done(keys: tuple[str, ...]) -> int:
            self._shut_out(name, now)  # one that was being made meanwhile
            self._keys.revoked[name] = now
            self._known(name)
            return len(keys)

        return self._store.call(credential_rows.revoke, name, now, by).addCallback(done)

    def check_revoke(self, name: str, now: float) -> Deferred[int]:
        """Fire with the number of certificates that `revoke` would revoke at `now`, unix seconds.

        Fails with UnknownAgent.
        """
        return self._store.call(credential_rows.check_revoke, name, now)

    def _shut_out(self, name: str, now: float) -> None:
        keys = self._keys.revoke(name, now)
        if keys:
            self._known(name)
            self._revoked(name, keys)

    def forget(self, name: str, now: float, by: str = "operator", is_free: bool = False) -> Deferred[None]:
        """Revoke a name at `now`, unix seconds, and leave it out of all lists. Fails with UnknownAgent.

        With `is_free` a token without a name may give it again at once.
        """
        self._shut_out(name, now)

        def forgotten(_: None) -> Deferred[None]:
            self._shut_out(name, now)
            return self._given.refresh(name)

        return self._store.call(credential_rows.forget, name, now, by, is_free).addCallback(forgotten)
