"""Knows what a peer of a broker may do: by the roles of its key, or as it lives in the broker's process. Pure.

Without CURVE a peer is any program of this machine, so that it may do nothing that is Helen's. The process that hosts
the broker knows a token that no other program does, and shows it in CHECKCONFIG.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase

import attrs

from groundwork.authority import ALL, Caller, decide
from scale0.config.keys import KeyEntry
from scale0.config.schema import BrokerConfig
from scale0.wire import actions
from scale0.wire.zap import Origin

ENTRY = "Scale0"


@attrs.frozen
class Grants:
    """Finds the caller of a message. `entry_of` returns what the folder of keys says of a key.

    `token` is that of the process that hosts the broker, empty where none does. `is_open`: --insecure-network, every
    peer may do everything.
    """

    entry_of: Callable[[str], KeyEntry | None] = lambda key: None
    token: str = attrs.field(default="", repr=False)
    is_open: bool = False

    def is_own(self, shown: str) -> bool:
        """Return True if a token is that of the process that hosts this broker."""
        return bool(self.token) and hmac.compare_digest(shown.encode(), self.token.encode())

    def caller(self, origin: Origin, config: BrokerConfig, is_own: bool = False, is_link: bool = False) -> Caller:
        """Return the caller of a connection. `is_own`: it has shown our token; `is_link`: we have called there."""
        entry = self.entry_of(origin.key) if origin.key else None
        name = entry.identity if entry is not None else ""
        if self.is_open or is_own or is_broker(origin.key, config) or (is_link and is_known_by_key(config)):
            return Caller(name or origin.name or "this process", ALL, entry=ENTRY, key=name)
        roles = entry.roles if entry is not None else ()
        actor = f"the key of {name}" if name else "a peer without a key" if not origin.key else "a key without a role"
        return Caller(actor, roles, entry=ENTRY, key=name)

    def asker(self, caller: Caller, service: str, identity: str, origin: Origin) -> str:
        """Return who asks a service of Helens, for their audit: its identity or address, and the name of its key."""
        if not actions.is_of_helens(service):
            return ""
        return (identity or origin.address) + (f" key:{caller.key}" if caller.key else "")

    def why_not_offer(self, caller: Caller, services: Iterable[str], key: str) -> str:
        """Return the reason for which the caller may not offer one of these services; empty if it may offer all."""
        entry = self.entry_of(key) if key else None
        narrow = entry.offers if entry is not None else ()
        for service in services:
            if narrow and not any(fnmatchcase(service, pattern) for pattern in narrow):
                return f"{service} is not among what the key of {caller.key} `offers`: {', '.join(narrow)}"
            action = actions.offering(service)
            if action is actions.OFFER_TASKS and not key and not self.token:
                continue  # a broker without keys that no Helen hosts: tasks there are no business of Helen's
            refusal = decide(caller, action, actions.target_of(service))
            if refusal is not None:
                return f"{service}: {refusal.why}; {self._advice(key, refusal.scope)}"
        return ""

    def why_not_ask(self, caller: Caller, service: str, key: str) -> str:
        """Return the reason for which the caller may not ask a service; empty if it may."""
        refusal = decide(caller, actions.asking(service), actions.target_of(service))
        return "" if refusal is None else f"{service}: {refusal.why}; {self._advice(key, refusal.scope)}"

    def why_not_share(self, caller: Caller, key: str) -> str:
        """Return the reason for which the caller may not publish a document; empty if it may.

        Documents of a broker without keys that no Helen hosts are of other programs: Helens take no part there.
        """
        if not key and not self.token:
            return ""
        refusal = decide(caller, actions.DOCUMENT)
        return "" if refusal is None else f"{refusal.why}; {self._advice(key, refusal.scope)}"

    def _advice(self, key: str, scope: str) -> str:
        if not key:
            return "use CURVE and a key with a role, or start broker and Helen with --insecure-network for a trial"
        return f'the file of its key needs the line `role = "{scope}"` under `metadata`'


def is_broker(key: str, config: BrokerConfig) -> bool:
    """Return True if the configuration names this key as that of a broker of the network."""
    return bool(key) and any(member.public_key == key for group in config.group_config for member in group.brokers)


def is_known_by_key(config: BrokerConfig) -> bool:
    """Return True if brokers have keys: then one that we have called has proved its own."""
    return any(member.public_key for group in config.group_config for member in group.brokers)


OPEN = Grants(is_open=True)
