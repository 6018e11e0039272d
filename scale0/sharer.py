"""A backend's part in the documents of the network: what it holds, what it publishes, what it is told.

    sharer = Sharer(Documents("", keys), heard=..., compared=..., wall=time.time)
    worker = Worker(..., sharer=sharer)
    sharer.publish(publication)                 at once where there is a broker; the others when there is one again

The documents are compared with the broker's when a session begins, and whenever a beat tells another digest. `heard`
gets each document that was news; `compared` is called once it is known what the broker has, `refused` when it would not
take one of ours. What is held is not on disk: that is a matter of whoever keeps it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from twisted.logger import Logger

from scale0 import options as opt
from scale0.documents import Documents, Refused, name_of, scope_of
from scale0.publication import Publication

Tell = Callable[[str, dict[str, Any], Sequence[bytes]], bool]
ASK_AGAIN = 2.0  # seconds between two comparisons: about a beat


class Sharer:
    _log = Logger()

    def __init__(
        self,
        documents: Documents,
        heard: Callable[[Publication], None],
        compared: Callable[[], None],
        wall: Callable[[], float],
        refused: Callable[[str, str], None] = lambda name, why: None,
    ) -> None:
        self.documents = documents
        self._on_heard, self._on_compared, self._on_refused, self._wall = heard, compared, refused, wall
        self._tell: Tell | None = None
        self._asked = float("-inf")

    def begin(self, tell: Tell) -> None:
        """A session is ready."""
        self._tell, self._asked = tell, self._wall()
        self._say_have(want=True)

    def end(self) -> None:
        """There is no broker for the moment."""
        self._tell = None

    def publish(self, publication: Publication) -> str:
        """One of ours: kept, and told, if it is the newest. Raises Refused."""
        verdict = self.documents.take(publication, self._wall())
        if verdict == "news":
            self._send(publication)
        return verdict

    def listen(self, command: str, o: Any, body: Sequence[bytes]) -> None:
        """What the broker says."""
        if command == "PUBLISH":
            self._published(o, body)
        elif command == "DOCUMENTS":
            self._compare(o)
        elif command == "PUBLISHED" and o.verdict == "refused":  # after `conflict` comes the one that counts
            self._on_refused(o.name, o.reason)
        elif command == "HEARTBEAT" and o.documents not in ("", self.documents.digest):
            now = self._wall()
            if not 0 <= now - self._asked < ASK_AGAIN:
                self._asked = now
                self._say_have(want=True)

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
            self._on_heard(new)
        elif verdict == "conflict":
            held = self.documents.get(o.name)
            assert held is not None
            self._send(held)

    def _compare(self, o: opt.DocumentsTold) -> None:
        for publication in self.documents.newer_than(o.have):
            self._send(publication)
        if o.want or self.documents.lacks(o.have):
            self._say_have(want=False)
        self._on_compared()

    def _say_have(self, want: bool) -> None:
        if self._tell is not None:
            self._tell("DOCUMENTS", {"have": self.documents.have(), "want": want}, ())

    def _send(self, publication: Publication) -> None:
        if self._tell is not None:
            options = {"name": name_of(publication), "version": publication.version, "type": publication.form}
            self._tell("PUBLISH", options | {"signature": publication.signature.hex()}, [publication.document])
