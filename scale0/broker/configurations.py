"""Keeps the configurations of a broker, its file's and those received from the network, and their versions.

It decides which one is news, what a received document makes of the configuration in force, and what this broker
publishes. Pure: config_exchange.py and service.py move the documents.
"""

from __future__ import annotations

from typing import Any

import attrs
import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from scale0.broker.startup import Loaded, first_state
from scale0.broker.state_folder import Record, StoredDocument
from scale0.config import config as cfg
from scale0.config import syntax
from scale0.config.config import ConfigFault
from scale0.config.schema import SHARED, BrokerConfig
from scale0.documents.publication import ALL, Publication, SeenPublications, Verdict


class Configurations:
    """Holds the file's configuration, its version, and the newest received publication of each scope."""

    def __init__(self, loaded: Loaded, record: Record | None, signing_key: Ed25519PrivateKey | None) -> None:
        """Take up the configurations as they were before a restart; `config` and `version` are then in force."""
        self.loaded, self.signing_key = loaded, signing_key
        self.seen = SeenPublications()
        self.left_out: list[str] = []  # faults of stored configurations that could not be read again
        same_file = record is not None and record.file_digest == loaded.digest
        self.config = loaded.config
        self.own_version = self._first_version(record, same_file)
        for scope, stored in (record.received if record else {}).items():
            if scope == ALL or same_file:
                self._restore(scope, stored)
        self.version = max(self.own_version, self.seen.version())
        self.first_state = first_state(record, same_file, self.config.state, bool(self.seen.newest))
        self._published: list[Publication] = []

    def _first_version(self, record: Record | None, same_file: bool) -> int:
        if self.loaded.config.state == "joining":
            return 0  # any configuration is newer than none
        if record is None:
            return self.loaded.changed_ms
        return record.version if same_file else max(record.version + 1, self.loaded.changed_ms)

    def _restore(self, scope: str, stored: StoredDocument) -> None:
        """Take up a received configuration; the first one may have made a joining broker active."""
        network = self.config.network
        was = Publication(network, scope, stored.version, stored.form, stored.document, stored.signature)
        try:
            self.config = self.read(was, self.config)
        except ConfigFault as e:
            self.left_out.append(str(e))
        else:
            self.seen.take(was)

    def record(self, state: str) -> Record:
        """Return what has to survive a restart in this state."""
        received = {
            scope: StoredDocument(p.version, p.syntax, p.document, p.signature)
            for scope, p in self.seen.newest.items()
            if not (scope == ALL and self.is_source)
        }
        return Record(state, self.own_version, self.loaded.digest, received)

    @property
    def is_source(self) -> bool:
        """Return True for a broker that subscribes to no other: its file says what its network shares."""
        return not self.loaded.config.config_sub_ports

    # ------------------------------------------------------------------------------------ received

    def judge(self, new: Publication) -> Verdict:
        """Compare a publication with those received before, and with the file's version."""
        verdict = self.seen.judge(new)
        outdated = verdict == "news" and new.scope != ALL and new.version <= self.own_version
        return "old" if outdated else verdict

    def read(self, new: Publication, config: BrokerConfig) -> BrokerConfig:
        """Return `config` with this document in it; pure, and slow for a large one.

        Raises ConfigFault if the document is faulty, for another broker, or lacks a signature that `config` demands.
        """
        source = new.topic.decode()
        if config.config_key and not new.is_signed_by(config.config_key):
            raise ConfigFault(source, [cfg.Fault(1, "", "not signed by any of `config_key`")])
        if new.scope == ALL:
            return cfg.overlay(config, new.document, new.syntax, source)
        fresh = cfg.load(new.document, new.syntax, source, strict=False)
        if fresh.identity != config.identity:
            raise ConfigFault(source, [cfg.Fault(1, "identity", f"{fresh.identity} is another broker")])
        if config.config_key and not fresh.config_key:
            fresh = attrs.evolve(fresh, config_key=config.config_key)  # a signature cannot be signed away
        return fresh

    def accept(self, new: Publication, config: BrokerConfig) -> BrokerConfig:
        """Hold a publication, and return its `config` with the shared part that was received before.

        Raises ConfigFault if that part does not fit; the publication is not held then, so that it is news again later.
        """
        if new.scope != ALL and (shared := self.seen.newest.get(ALL)) is not None:
            config = self.read(shared, config)
        self.seen.take(new)
        return config

    def reload(self, loaded: Loaded, version: int) -> BrokerConfig:
        """Take a file that was read again, above the `version` in force; return the configuration with shared parts.

        Raises ConfigFault if the shared part that was received before does not fit the file; all stays as it was then.
        """
        shared, config = self.seen.newest.get(ALL), loaded.config
        if shared is not None and config.config_sub_ports:
            config = self.read(shared, config)
        self.loaded = loaded
        self.own_version = max(version + 1, loaded.changed_ms)
        self.seen.newest.pop(config.identity, None)
        return config

    # ----------------------------------------------------------------------------------- published

    def publications(self, config: BrokerConfig, version: int) -> list[Publication]:
        """Return what this broker publishes while this configuration is in force.

        These are a keepalive of its own version, the configurations that it received, and the shared part of its file
        if it is a source.
        """
        if not self._published:
            mine = Publication(config.network, config.identity, version)
            published = {config.identity: mine, **self.seen.newest}
            if self.is_source and ALL not in published:
                published[ALL] = self._shared(config, version)
            self._published = list(published.values())
        return self._published

    def changed(self) -> None:
        """Make the publications anew, as another configuration is in force."""
        self._published = []

    def share(self, tree: dict[str, Any], config: BrokerConfig, version: int) -> BrokerConfig:
        """Return `config` with names of SHARED taken from `tree`, and hold it for publishing.

        Raises ConfigFault if anything in the tree is wrong.
        """
        merged = cfg.overlay(config, syntax.write(tree, "JSON"), "JSON", "share()")
        self.seen.take(self._shared(merged, version))
        return merged

    def _shared(self, config: BrokerConfig, version: int) -> Publication:
        tree = {name: value for name, value in cfg.dump(config).items() if name in SHARED}
        new = Publication(config.network, ALL, version, "JSON", msgspec.json.encode(tree))
        return new if self.signing_key is None else new.signed(self.signing_key)
