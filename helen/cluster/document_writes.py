"""Writes what Helens share to the disk in a thread: the newest of each document, and what is in force here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThread
from twisted.logger import Logger

from helen.cluster.document_store import DocumentStore
from scale0.documents.publication import Publication

RETRY_SECONDS = 60.0  # until a write that failed is tried again


class DocumentWrites:
    """Gathers documents while a write is under way. `applied()` returns the versions in force by document.

    A write that fails is tried again while `is_running`.
    """

    log = Logger()

    def __init__(self, reactor: Any, store: DocumentStore, applied: Callable[[], Mapping[str, int]]) -> None:
        self._reactor, self._store, self._applied = reactor, store, applied
        self._unkept: dict[str, Publication] = {}
        self.under_way: Deferred[Any] | None = None
        self.is_running = False

    def soon(self, publication: Publication | None) -> None:
        """Write a document, or with None the versions in force alone, once the write before it has ended."""
        if publication is not None:
            self._unkept[publication.scope] = publication
        if self.under_way is None:
            self.under_way = Deferred.fromCoroutine(self._keep())
            self.under_way.addBoth(self._kept)

    async def _keep(self) -> bool:
        """Write the newest of each; documents that come meanwhile are written next. Return False if it fails."""
        while True:
            applied, unkept, self._unkept = dict(self._applied()), self._unkept, {}
            try:
                await deferToThread(self._store.keep, list(unkept.values()), applied)
            except OSError as error:
                self._unkept = unkept | self._unkept
                self.log.error("STATE/network can't be written: {error}", error=error)
                return False
            if not self._unkept and applied == self._applied():
                return True

    def _kept(self, is_kept: Any) -> None:
        self.under_way = None
        if is_kept is not True and self.is_running:
            self._reactor.callLater(RETRY_SECONDS, self.soon, None)
