"""Declares the configuration of a broker and of its groups: each name, its type and its default, in one place. Pure.

The fields are the names in a configuration file. config.py reads documents by these classes.
"""

from __future__ import annotations

from typing import Any

import attrs

from scale0.config import values
from scale0.config.values import Convert

STATES = ("joining", "active", "disabled")
DEFAULT_BEAT = 2.5  # seconds; with a liveness of 3, a dead worker is known after 7.5 s
DEFAULT_BUSY = 900.0  # seconds that a worker which does not beat may work at one request
SPILL_MS = 50  # ms that a request waits for a worker of its own broker before a peer broker's is asked
MAX_SKEW = 30.0  # seconds between two clocks


def _one(convert: Convert, default: Any = attrs.NOTHING, secret: bool = False) -> Any:
    return attrs.field(default=default, metadata={"convert": convert, "many": False}, repr=not secret)


def _many(convert: Convert, default: tuple[Any, ...] = ()) -> Any:
    return attrs.field(default=default, metadata={"convert": convert, "many": True})


def _trees(kind: type) -> Any:
    return attrs.field(default=(), metadata={"kind": kind, "many": True})


@attrs.frozen
class Member:
    """Describes one of the `brokers` of a group."""

    identity: str = _one(values.IDENTITY)
    services: tuple[str, ...] = _many(values.SERVICE, ("all",))
    frontend: str = _one(values.ENDPOINT, "")
    backend: str = _one(values.ENDPOINT, "")
    peer: str = _one(values.ENDPOINT, "")
    config_pub: str = _one(values.ENDPOINT, "")
    public_key: str = _one(values.PUBLIC_KEY, "")

    def serves(self, service: str) -> bool:
        """Return True if this broker accepts requests for the service."""
        return "all" in self.services or service in self.services


@attrs.frozen
class GroupConfig:
    """Describes one group of brokers."""

    name: str = _one(values.NAME)
    brokers: tuple[Member, ...] = _trees(Member)


@attrs.frozen
class Credential:
    """Holds the name of an operator and the scrypt record of the password."""

    auth_id: str = _one(values.TEXT)
    auth_password: str = _one(values.scrypt_record, secret=True)


@attrs.frozen
class ServicePolicy:
    """States the nature of one service, for all its requests."""

    name: str = _one(values.SERVICE)
    idempotent: bool = _one(values.truth, True)
    busy_timeout: float = _one(values.SECONDS, DEFAULT_BUSY)


@attrs.frozen
class Document:
    """Holds a text that travels with the configuration, such as a signed manifest or a CA certificate, in base64."""

    name: str = _one(values.NAME)
    content: str = _one(values.CONTENT, secret=True)


@attrs.frozen
class BrokerConfig:
    """Holds the configuration of one broker."""

    identity: str = _one(values.IDENTITY)
    frontend_port: int = _one(values.PORT)
    backend_port: int = _one(values.PORT)
    config_pub_port: int = _one(values.PORT, 0)
    config_sub_ports: tuple[str, ...] = _many(values.ENDPOINT)
    state: str = _one(values.one_of(*STATES), "active")
    peers: tuple[str, ...] = _many(values.ENDPOINT)
    default_heartbeat_interval: float = _one(values.SECONDS, DEFAULT_BEAT)
    services: tuple[str, ...] = _many(values.SERVICE, ("all",))
    error_clients: tuple[str, ...] = _many(values.PEER_NAME)
    group: str = _one(values.OPTIONAL_NAME, "")
    fallback_groups: tuple[str, ...] = _many(values.NAME)
    group_config: tuple[GroupConfig, ...] = _trees(GroupConfig)
    peer_port: int = _one(values.PORT, 0)
    prefered_broker: str = _one(values.IDENTITY, "")
    network: str = _one(values.NAME, "scale0")
    address: str = _one(values.HOST, "")
    management: tuple[Credential, ...] = _trees(Credential)
    service_config: tuple[ServicePolicy, ...] = _trees(ServicePolicy)
    documents: tuple[Document, ...] = _trees(Document)
    allow_plain_mdp: bool = _one(values.truth, True)
    insecure: bool = _one(values.truth, False)
    spill_ms: int = _one(values.MILLIS, SPILL_MS)
    max_skew: float = _one(values.SECONDS, MAX_SKEW)
    http: str = _one(values.HOST_PORT, "")
    config_key: tuple[str, ...] = _many(values.SIGNING_KEY)

    def groups(self) -> list[GroupConfig]:
        """Return the own group, then the fallbacks in order; a group without a description is left out."""
        described = {group.name: group for group in self.group_config}
        return [described[name] for name in (self.group, *self.fallback_groups) if name in described]

    def member(self, identity: str) -> Member | None:
        """Return the description of a broker in any group, or None."""
        return next((m for group in self.group_config for m in group.brokers if m.identity == identity), None)


NO_POLICY = ServicePolicy("*")  # of a service that service_config does not name
ALIASES = {"preferred_broker": "prefered_broker"}  # the name has the older spelling; the dictionary's is understood
RUNTIME_NAMES = frozenset({"LRU"})  # shown by `scale0ctl config`; read over in a file: workers announce themselves

# Names that all brokers of a network may share by a document of the scope `all`; the rest is each broker's own.
# `management` is not among them: every subscriber would have records to guess passwords against.
SHARED = frozenset(
    {"group_config", "service_config", "documents", "default_heartbeat_interval", "error_clients"}
    | {"max_skew", "spill_ms", "allow_plain_mdp"}
)
