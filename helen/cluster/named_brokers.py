"""Tells which of the brokers that --scale0 and --zerotask name this Helen joins, and why it leaves out the others."""

from __future__ import annotations

from helen.settings.network_settings import Broker, NetworkSettings, is_trusted
from scale0.broker.sockets import Security
from scale0.endpoint.effects import Target

INSECURE = (
    "--insecure-network: every program that reaches the brokers may publish checks, ask agents and answer for them. For"
    " trials only: give keys with roles instead"
)


class NamedBrokers:
    """Reads the brokers from the settings. One that any program of the machine could pass for is not joined."""

    def __init__(self, settings: NetworkSettings) -> None:
        self._settings = settings

    def scale0_targets(self, security: Security | None) -> list[Target]:
        """Return the brokers of Scale0 to join, each with its public key, which is empty without CURVE.

        Raises KeyFault if the file of a key can't be used.
        """
        return [
            Target(broker.endpoint, _key_of(broker, security))
            for broker in self._settings.scale0
            if self._joins(broker)
        ]

    @property
    def zerotask(self) -> Broker | None:
        """Return the broker of ZeroTask to join; None if --zerotask names none, or one that is left out."""
        broker = self._settings.zerotask
        return broker if broker is not None and self._joins(broker) else None

    def _joins(self, broker: Broker) -> bool:
        return self._settings.insecure or is_trusted(broker)

    def left_out(self) -> list[str]:
        """Return a sentence for each broker that is not joined, with the settings that would allow it."""
        named = [("--scale0", broker) for broker in self._settings.scale0]
        named += [] if self._settings.zerotask is None else [("--zerotask", self._settings.zerotask)]
        return [
            f"{setting} {broker.endpoint} is not joined: without keys any program of this machine may answer there, and"
            f" ask. Give --curve-key, --authorized-keys and {broker.endpoint}#NAME, or --insecure-network for a trial"
            for setting, broker in named
            if not self._joins(broker)
        ]


def _key_of(broker: Broker, security: Security | None) -> str:
    return "" if security is None or not broker.name else str(security.authorized.key_of(broker.name))
