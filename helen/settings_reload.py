"""Bring changed settings into force while Helen runs, and tell which of them need a restart."""

from __future__ import annotations

import attrs
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from helen import wiring
from helen.parts import Live, Parts
from helen.settings.settings import Settings

# Settings that SIGHUP changes; of the others the log says that they need a restart.
LIVE = ("minimum_equus", "rings", "names", "retention", "signing_keys", "trust_labels")


class SettingsReload:
    """Gives settings to the parts that go by them. `live` holds those in force."""

    log = Logger()

    def __init__(self, live: Live, parts: Parts) -> None:
        self._live, self._parts = live, parts

    def take(self, fresh: Settings) -> Deferred[None]:
        """Bring the settings that were read again into force, as far as that is done without a restart.

        The result fires when the keys are read, and fails with StateError if they can't be.
        """
        held = self._live.settings
        if (fresh.signing_keys is None) != (held.signing_keys is None):  # the place of the private key changes
            self.log.warn("changed, but only a restart makes it so: signing_keys")
            fresh = attrs.evolve(fresh, signing_keys=held.signing_keys)
        self._tell_of_restart(held, fresh)
        self._give(attrs.evolve(held, **{name: getattr(fresh, name) for name in LIVE}))
        return Deferred.fromCoroutine(self._reread_keys())

    def _tell_of_restart(self, held: Settings, fresh: Settings) -> None:
        rest = attrs.evolve(fresh, **{name: getattr(held, name) for name in LIVE})
        if rest != held:
            before = attrs.asdict(held)
            names = ", ".join(name for name, value in attrs.asdict(rest).items() if value != before[name])
            self.log.warn("changed, but only a restart makes it so: {names}", names=names)

    def _give(self, chosen: Settings) -> None:
        parts, self._live.settings = self._parts, chosen
        parts.sessions.minimum = chosen.minimum_equus
        parts.sessions.trust_labels(chosen.trust_labels)
        wiring.take_rings(parts.library, chosen)
        parts.authority.answer_to(chosen.names, wiring.host_of(chosen))
        parts.journal.retain(wiring.retention(chosen))

    async def _reread_keys(self) -> None:
        """Take the public keys of --signing-keys as their file is now. Raises StateError, and the old ones stay."""
        file = self._live.settings.signing_keys
        if file is not None and await self._parts.keys.reread(file):
            self._parts.key_rotation.take_quietly()
