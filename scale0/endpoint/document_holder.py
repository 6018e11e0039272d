"""Holds the documents of the network at a backend, publishes new ones, and takes those of others.

    holder = DocumentHolder(Documents("", keys), received=..., compared=..., wall=time.time)
    worker = Worker(..., documents=holder)
    holder.publish(publication)             sent at once where there is a broker, else when there is one again

The documents are compared with the broker's when a session begins, and whenever a heartbeat tells another digest.
`received` gets each document that was news; `compared` is called once the broker's list is known, `refused` with the
name and the reason when it did not take a document. Nothing is on disk here: the caller stores documents.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from twisted.logger import Logger

from scale0.documents.collection import Documents, Refused, name_of, scope_of
from scale0.documents.publication import Publication
from scale0.wire import options as opt

Tell = Callable[[str, dict[str, Any], Sequence[bytes]], bool]
ASK_AGAIN = 2.0  # seconds between two comparisons: about a beat


class DocumentHolder:
    """Holds documents and keeps them equal with those of the broker. `wall` returns unix seconds."""

    _log = Logger()

    def __init__(
        self,
        documents: Documents,
        received: Callable[[Publication], None],
        compared: Callable[[], None],
        wall: Callable[[], float],
        refused: Callable[[str, str], None] = lambda name, why: None,
    ) -> None:
        self.documents = documents
        self._on_document, self._on_compared, self._on_refused, self._wall = received, compared, refused, wall
        self._tell: Tell | None = None
        self._asked = float("-inf")

    def begin(self, tell: Tell) -> None:
        """Compare documents with the broker, as a session is ready; `tell` sends a command on it."""
        self._tell, self._asked = tell, self._wall()
        self._tell_have(want=True)

    def end(self) -> None:
        """Send nothing until the next session begins."""
        self._tell = None

    def publish(self, publication: Publication) -> str:
        """Hold a document, send it if it is the newest, and return the verdict.

        Raises Refused if it is too large, one too many, of a future version, or not signed by a key of the network.
        """
        verdict = self.documents.take(publication, self._wall())
        if verdict == "news":
            self._send(publication)
        return verdict

    def listen(self, command: str, o: Any, body: Sequence[bytes]) -> None:
        """Take a command of the broker: PUBLISH, PUBLISHED, DOCUMENTS or HEARTBEAT."""
        if command == "PUBLISH":
            self._published(o, body)
        elif command == "DOCUMENTS":
            self._compare(o)
        elif command == "PUBLISHED" and o.verdict == "refused":  # after `conflict` comes the document that counts
            self._on_refused(o.name, o.reason)
        elif command == "HEARTBEAT" and o.documents not in ("", self.documents.digest):
            now = self._wall()
            if not 0 <= now - self._asked < ASK_AGAIN:
                self._asked = now
                self._tell_have(want=True)

    def _published(self, o: opt.Publish, body: Sequence[bytes]) -> None:
        try:
            signature = bytes.fromhex(o.signature)
            document = bytes(body[0]) if len(body) == 1 else b""
            new = Publication(self.documents.network, scope_of(o.name), o.version, o.type, document, signature)
            verdict = self.documents.take(new, self._wall())
        except (ValueError, Refused) as error:
            self._log.error("the document {name} is not taken: {error}", name=o.name, error=error)
            return
        if verdict == "news":
            self._on_document(new)
        elif verdict == "conflict":
            held = self.documents.get(o.name)
            assert held is not None
            self._send(held)

    def _compare(self, o: opt.DocumentsTold) -> None:
        for publication in self.documents.newer_than(o.have):
            self._send(publication)
        if o.want or self.documents.lacks(o.have):
            self._tell_have(want=False)
        self._on_compared()

    def _tell_have(self, want: bool) -> None:
        if self._tell is not None:
            self._tell("DOCUMENTS", {"have": self.documents.have(), "want": want}, ())

    def _send(self, publication: Publication) -> None:
        if self._tell is not None:
            options = {"name": name_of(publication), "version": publication.version, "type": publication.syntax}
            self._tell("PUBLISH", options | {"signature": publication.signature.hex()}, [publication.document])
