"""How documents travel: from backends to the broker, among brokers, and back. Pure: a part of the broker.

Whoever publishes says PUBLISH and is told PUBLISHED. What is news goes to every fellow broker, to every backend that
takes part (it has said DOCUMENTS or PUBLISH), and out on config_pub_port. A beat carries the digest of all that is
held; where it is another one, DOCUMENTS tells what there is, and each side sends what the other lacks.
"""

from __future__ import annotations

from collections.abc import Sequence

from scale0 import options as opt
from scale0.context import Announce, Context, Options
from scale0.documents import MOST, NOTHING, Documents, Rank, Refused, name_of, rank_of, scope_of
from scale0.fellows import Fellows
from scale0.options import Fault
from scale0.publication import Publication
from scale0.sessions import Session, Sessions


class Sharing:
    def __init__(self, context: Context, sessions: Sessions, fellows: Fellows) -> None:
        self._c, self._sessions, self._fellows = context, sessions, fellows
        self.documents = Documents(context.config.network, context.config.config_key)
        self.alarms: list[str] = []  # for the broker, which shows them
        self._refused: dict[str, Rank] = {}  # what would be refused again: nobody need send it
        fellows.joined.append(self._compare)

    def configured(self) -> None:
        """Other keys may sign from now on; what was taken before stays."""
        if self.documents.keys != self._c.config.config_key:
            self.documents.keys = self._c.config.config_key
            self._refused.clear()

    # ---------------------------------------------------------------------------------- from others

    def publish(self, session: Session, o: opt.Publish, body: Sequence[bytes]) -> None:
        """A document that somebody has made, or has and believes that we lack."""
        session.shares = True
        if len(body) != 1:
            raise Fault(400, "malformed", "PUBLISH has one frame of body, the document")
        try:
            signature = bytes.fromhex(o.signature)
        except ValueError:
            raise Fault(400, "malformed", "`signature` is hexadecimal") from None
        new = Publication(self.documents.network, scope_of(o.name), o.version, o.type, bytes(body[0]), signature)
        verdict, why = self.heard(new, session)
        if verdict == "conflict":
            self._give_way(session, o.name)
        if session.role != "peer":
            told: Options = {"name": o.name, "version": o.version, "verdict": verdict}
            self._c.tell(session.address, session.dialect, "PUBLISHED", told | ({"reason": why} if why else {}))

    def heard(self, new: Publication, source: Session | None = None) -> tuple[str, str]:
        """From a session, or (without one) from config_sub_ports: the verdict, and why if it is refused."""
        before = self.documents.get(name_of(new) or "")
        try:
            verdict = self.documents.take(new, self._c.wall)
        except Refused as refused:
            self._c.counts["documents_refused"] += 1
            self._note_refused(new)
            return "refused", str(refused)
        replaces_a_twin = verdict == "news" and before is not None and before.version == new.version
        if verdict == "conflict" or replaces_a_twin:
            text = f"two documents {name_of(new)} of version {new.version}; the one with the greater digest is kept"
            self.alarms.append(text)
        if verdict == "news":
            self._c.counts["documents"] += 1
            self._c.effects.append(Announce(new))
            self._pass_on(new, source)
        return verdict, ""

    def _give_way(self, session: Session, name: str) -> None:
        """The other one of that version is the one that counts: whoever holds this one takes it."""
        held = self.documents.get(name)
        if held is not None:
            self._send(session, held)

    def _note_refused(self, new: Publication) -> None:
        name = name_of(new)
        if name is not None and (name in self._refused or len(self._refused) < MOST):
            self._refused[name] = rank_of(new)

    def compared(self, session: Session, o: opt.DocumentsTold) -> None:
        """What somebody has: they are sent what they lack, and told what we have if they want to know, or have more."""
        session.shares = True
        for publication in self.documents.newer_than(o.have):
            self._send(session, publication)
        missing = {name: rank for name, rank in o.have.items() if rank > self._refused.get(name, NOTHING)}
        if o.want or self.documents.lacks(missing):
            self._tell_have(session, want=False)

    def beat(self, session: Session, o: opt.Heartbeat) -> None:
        """A fellow's beat."""
        if o.documents and o.documents != self.documents.digest:
            self._compare(session)

    def extras(self, session: Session) -> Options:
        """What a beat carries for those who take part."""
        return {"documents": self.documents.digest} if session.shares or session.role == "peer" else {}

    # ------------------------------------------------------------------------------------ to others

    def _compare(self, session: Session) -> None:
        """Ask what they have, once an interval at most."""
        if self._c.now - session.compared >= session.interval:
            session.compared = self._c.now
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
        for session in self._fellows.main_channels():
            if source is None or session.identity != source.identity:
                self._send(session, new)

    def _send(self, session: Session, publication: Publication) -> None:
        options: Options = {"name": name_of(publication), "version": publication.version, "type": publication.form}
        options["signature"] = publication.signature.hex()
        self._c.tell(session.address, session.dialect, "PUBLISH", options, [publication.document])
