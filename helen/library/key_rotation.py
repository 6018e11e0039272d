"""Puts other roots and signing keys into force in the library, which signs with them and verifies by them.

Keys change by a command of an operator, by SIGHUP, or because another Helen of the network has published newer ones.
"""

from __future__ import annotations

from groundwork.event import Event
from helen.library.keyring import KeyRing
from helen.library.library import Library
from helen.library.published import PushRefused


class KeyRotation:
    """Keeps the library in step with the key ring; `taken` is called when other keys are in force."""

    def __init__(self, keys: KeyRing, library: Library) -> None:
        self.taken: Event[[]] = Event()
        self._keys = keys
        self._library = library

    async def rotate(self, root: bytes | None, dry_run: bool = False) -> None:
        """Follow `root`, or make a new online key if it is None; then the set is signed, or staged, anew.

        Raises PushRefused while a rollout is on its way: its members could not verify the way back.
        """
        rollout = self._library.releases.rollout
        if rollout is not None:
            raise PushRefused(
                f"version {rollout.version} is on its way, {rollout.place}: rotate keys once that is over"
            )
        if dry_run:
            if root is None:
                self._keys.check_own()
            else:
                self._keys.check_root(root)
            return
        await (self._keys.renew_own() if root is None else self._keys.follow(root))
        self.take()
        await self._library.look()

    def take(self) -> None:
        """Put the keys of the key ring into force, and tell others of it."""
        self.take_quietly()
        self.taken()

    def take_quietly(self) -> None:
        """Put the keys of the key ring into force here alone, for those that every Helen reads from its own file."""
        self._library.take_keys(self._keys.private, self._keys.root)
