"""Carries documents from backends to the broker, among brokers, and back. Pure: a part of the broker.

A backend that publishes a document says PUBLISH and is answered PUBLISHED. A document that is news goes to every peer
broker, to every backend that takes part (it has said DOCUMENTS or PUBLISH), and out on config_pub_port. A heartbeat
carries the digest of all documents; where the digests differ, DOCUMENTS lists what there is, and each side sends what
the other lacks.
"""

from __future__ import annotations

from collections.abc import Sequence

from scale0.broker.context import Announce, Context, Options
from scale0.broker.peers import Peers
from scale0.broker.session import Session
from scale0.broker.sessions import Sessions
from scale0.documents.collection import MOST, NOTHING, Documents, Rank, Refused, name_of, rank_of, scope_of
from scale0.documents.publication import Publication
from scale0.wire import options as opt
from scale0.wire.options import Fault


class Sharing:
    """Takes documents in, sends them on, and compares them with others."""

    def __init__(self, context: Context, sessions: Sessions, peers: Peers, documents: Documents) -> None:
        self._c, self._sessions, self._peers, self.documents = context, sessions, peers, documents
        self._refused: dict[str, Rank] = {}  # documents that would be refused again, so that none need be sent

    def configured(self) -> None:
        """Let the keys of the new configuration sign from now on; documents that are held stay."""
        if self.documents.keys != self._c.config.config_key:
            self.documents.keys = self._c.config.config_key
            self._refused.clear()

    # ---------------------------------------------------------------------------------- from others

    def publish(self, session: Session, o: opt.Publish, body: Sequence[bytes]) -> None:
        """Take a document from a backend or a peer broker, and answer a backend with the verdict.

        Raises Fault if the body or the signature is malformed.
        """
        session.shares = True
        if len(body) != 1:
            raise Fault(400, "malformed", "PUBLISH has one frame of body, the document")
        try:
            signature = bytes.fromhex(o.signature)
        except ValueError:
            raise Fault(400, "malformed", "`signature` is hexadecimal") from None
        new = Publication(self.documents.network, scope_of(o.name), o.version, o.type, bytes(body[0]), signature)
        verdict, why = self.take(new, session)
        if verdict == "conflict":
            self._send_held(session, o.name)
        if session.role != "peer":
            options: Options = {"name": o.name, "version": o.version, "verdict": verdict}
            self._c.tell(session.address, session.dialect, "PUBLISHED", options | ({"reason": why} if why else {}))

    def take(self, new: Publication, source: Session | None = None) -> tuple[str, str]:
        """Take a document from a session or (None) from config_sub_ports; return the verdict, and why it is refused."""
        before = self.documents.get(name_of(new) or "")
        try:
            verdict = self.documents.take(new, self._c.wall)
        except Refused as refused:
            self._c.counts["documents_refused"] += 1
            self._note_refused(new)
            return "refused", str(refused)
        replaces_same_version = verdict == "news" and before is not None and before.version == new.version
        if verdict == "conflict" or replaces_same_version:
            self._c.alarm(
                f"two documents {name_of(new)} of version {new.version}; the one with the greater digest is kept"
            )
        if verdict == "news":
            self._c.counts["documents"] += 1
            self._c.effects.append(Announce(new))
            self._pass_on(new, source)
        return verdict, ""

    def _send_held(self, session: Session, name: str) -> None:
        """Send the document that is held to a session that has another one of its version; the held one counts."""
        held = self.documents.get(name)
        if held is not None:
            self._send(session, held)

    def _note_refused(self, new: Publication) -> None:
        name = name_of(new)
        if name is not None and (name in self._refused or len(self._refused) < MOST):
            self._refused[name] = rank_of(new)

    def compared(self, session: Session, o: opt.DocumentsTold) -> None:
        """Send what a session lacks, by its list; tell it our list if it wants that, or has more than we have."""
        session.shares = True
        for publication in self.documents.newer_than(o.have):
            self._send(session, publication)
        missing = {name: rank for name, rank in o.have.items() if rank > self._refused.get(name, NOTHING)}
        if o.want or self.documents.lacks(missing):
            self._tell_have(session, want=False)

    def beat(self, session: Session, o: opt.Heartbeat) -> None:
        """Compare documents with a peer broker if its heartbeat has another digest."""
        if o.documents and o.documents != self.documents.digest:
            self.compare(session)

    # ------------------------------------------------------------------------------------ to others

    def compare(self, session: Session) -> None:
        """Ask a session for its list of documents, once an interval at most."""
        if self._c.now - session.compared_at >= session.interval:
            session.compared_at = self._c.now
            self._tell_have(session, want=True)

    def _tell_have(self, session: Session, want: bool) -> None:
        have = self.documents.have()
        for name, refused in self._refused.items():
            if refused > have.get(name, NOTHING) and len(have) < MOST:
                have[name] = refused
        options: Options = {"have": have, "want": want}
        self._c.tell(session.address, session.dialect, "DOCUMENTS", options)

    def _pass_on(self, new: Publication, source: Session | None) -> None:
        for session in self._sessions.all.values():
            if session is not source and session.shares and session.role == "backend" and not session.is_plain:
                self._send(session, new)
        for session in self._peers.main_channels():
            if source is None or session.identity != source.identity:
                self._send(session, new)

    def _send(self, session: Session, publication: Publication) -> None:
        options: Options = {"name": name_of(publication), "version": publication.version, "type": publication.syntax}
        options["signature"] = publication.signature.hex()
        self._c.tell(session.address, session.dialect, "PUBLISH", options, [publication.document])
