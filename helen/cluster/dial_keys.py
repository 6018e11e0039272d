"""Reads the CURVE keys for each connection of Helen to a broker anew, so that keys can be changed while Helen runs."""

from __future__ import annotations

from helen.settings.network_settings import Broker, NetworkSettings
from scale0.broker.sockets import Security
from scale0.config.keys import load_pair
from scale0.endpoint.effects import Target
from scale0.wire.reader import CurveClient


class DialKeys:
    """Gives keys to connections, from --curve-key and the files of --authorized-keys as they are at that moment.

    The broker in this process keeps the pair that it was started with: `security` is that pair.
    """

    def __init__(self, settings: NetworkSettings, security: Security) -> None:
        self._settings, self._at_start = settings, security
        self._names = {broker.endpoint: broker.name for broker in settings.scale0}

    def security(self, target: Target) -> CurveClient | None:
        """Return the keys for a connection to a broker of Scale0; None if its key is not known.

        Raises KeyFault if a file cannot be used.
        """
        own = self._at_start.pair
        if target.key == own.public:
            return CurveClient(own.public, own.secret, own.public)
        name = self._names.get(target.endpoint)
        return self._of(self._at_start.authorized.read_key_of(name) if name else target.key)

    def of_broker(self, broker: Broker) -> CurveClient | None:
        """Return the keys for a connection to a broker of ZeroTask; None if its key is not named.

        Raises KeyFault if a file cannot be used.
        """
        return self._of(self._at_start.authorized.read_key_of(broker.name) if broker.name else "")

    def _of(self, server: str) -> CurveClient | None:
        if not server or self._settings.curve_key is None:
            return None
        pair = load_pair(self._settings.curve_key)
        return CurveClient(pair.public, pair.secret, server)
