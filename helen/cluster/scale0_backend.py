"""Serves Helen and its agents as one backend of a Scale0 network: a client that may ask a broker may ask them.

    helen, helen.ID     status             JSON: what GET /api/v1/status says
                        file SHA256        a file that a published set names, as other Helens fetch it
                        tunnel...          a tunnel to an agent, for another Helen: served_tunnels.py
    equus.AGENT         CHECK [ARGS]       runs the check now; the answer is the result as the agent wrote it

An agent's service comes and goes with its connection, and carries the moment at which it attached: where two Helens
hold one agent the newest has it, and the other lets its connection go. Nothing is stored here, and the broker decides
which clients may ask. docs/scale0.rst has the codes.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from typing import Any

from attrs import frozen
from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from equus_protocol import one_off
from equus_protocol.codec import MAX_BLOB, Role, encode
from equus_protocol.errors import LocalProtocolError
from equus_protocol.messages import Check
from helen.agents.roster import Agent
from helen.cluster.attachments import Attachments
from helen.queries.live_queries import MAX_ASKED_SECONDS, QueryRefused, Target
from helen.sessions.session_service import SessionService
from scale0.endpoint.connection import KeyRing
from scale0.endpoint.document_holder import DocumentHolder
from scale0.endpoint.effects import Target as BrokerTarget
from scale0.endpoint.requests import NotAnswered
from scale0.wire.actions import CHECK
from scale0.worker import Holder, Refused, Reply, Request, Worker

AGENT_SERVICE = "equus."
CONCURRENCY = 500  # requests in flight: half of the questions that may be open, so that people can ask as well
DEFAULT_TIMEOUT = 60.0  # seconds of a request that names none, as Majordomo's never do; as long as Scale0 queues one
ASK_SECONDS = 2.0  # that a broker has to say whether a service is there
FETCH_SECONDS = 10.0  # for one file of at most a mebibyte
NO_ARGS = b"{}"

Note = Callable[[str, str, str], None]


@frozen
class Offer:
    """Answers for Helen itself: `status()` fires with plain JSON values, `file(sha256)` returns bytes or None.

    `tunnel(body)` answers what other Helens ask of tunnels, with parts now or later; None: it serves none.
    """

    status: Callable[[], Deferred[Any]]
    file: Callable[[str], bytes | None]
    tunnel: Callable[[Sequence[bytes]], Any] | None = None


class Scale0Backend:
    """Offers a service for each connected agent; `start` begins with those that are here.

    `note(actor, action, subject)` writes into the audit what peers ask agents to do.
    """

    log = Logger()

    def __init__(
        self, reactor: Any, sessions: SessionService, identity: str, brokers: Sequence[BrokerTarget], offer: Offer,
        keys: KeyRing | None = None, configured: Callable[[dict[str, Any]], None] | None = None,
        sharer: DocumentHolder | None = None, attachments: Attachments | None = None,
        note: Note = lambda actor, action, subject: None,
    ) -> None:  # fmt: skip
        self.identity = identity
        self._sessions = sessions
        self._offer = offer
        self._note = note
        self.attachments = attachments or Attachments(identity, None, reactor.seconds, time.time)
        self.worker = Worker(
            reactor, identity, brokers, self._asked, CONCURRENCY, keys, configured=configured,
            documents=sharer, seal=self.attachments.seal, superseded=self._superseded,
        )  # fmt: skip

    def start(self) -> None:
        """Connect to brokers and offer Helen and the agents that are connected."""
        self._sessions.attached.subscribe(self._attached)
        self._sessions.detached.subscribe(self._detached)
        self.worker.offer("helen", f"helen.{self.identity}")
        for agent in self._sessions.roster.connected():
            self._attached(agent)
        self.worker.startService()

    def stop(self) -> None:
        """Leave the brokers, which send further requests to others."""
        self._sessions.attached.unsubscribe(self._attached)
        self._sessions.detached.unsubscribe(self._detached)
        self.worker.stopService()

    @property
    def state(self) -> str:
        """Return the state of the session with the broker, in a word."""
        return str(self.worker.state.value)

    @property
    def trouble(self) -> str:
        """Return the reason for which there is no session with a broker; empty while there is one."""
        return self.worker.connection.trouble

    def is_there(self, service: str) -> Deferred[bool | None]:
        """Ask mmi.service whether a service is offered, here or at a broker in reach; None: there is no broker to
        ask.
        """
        asked = self.worker.ask("mmi.service", service.encode(), timeout=ASK_SECONDS)
        return asked.addCallbacks(lambda body: list(body) == [b"200"], no_answer)

    def fetch(self, identity: str, sha256: str) -> Deferred[bytes | None]:
        """Fetch a file of a published set from another Helen; None if it doesn't give it."""
        asked = self.worker.ask(f"helen.{identity}", b"file", sha256.encode(), timeout=FETCH_SECONDS)
        return asked.addCallbacks(lambda body: body[0] if body else None, no_answer)

    def ask_helen(self, identity: str, *body: bytes, timeout: float) -> Deferred[Sequence[bytes]]:
        """Ask another Helen. Fails with NotAnswered."""
        return self.worker.ask(f"helen.{identity}", *body, timeout=timeout)

    # ---------------------------------------------------------------------------------------------- agents

    def offer(self, agent: Agent) -> None:
        """Offer the service of an agent, so that requests for it come here."""
        self._attached(agent)

    def hide(self, agent: Agent) -> None:
        """Withdraw the service of an agent that is still connected, so that no further request comes."""
        self._detached(agent)

    def _attached(self, agent: Agent) -> None:
        """Offer with the time of attachment, in ms, as epoch: the newest wins as far as the clocks of Helens agree."""
        service = AGENT_SERVICE + agent.name
        self.worker.offer(service, epochs={service: epoch_of(agent)})

    def _detached(self, agent: Agent) -> None:
        self.worker.withdraw(AGENT_SERVICE + agent.name)

    def _superseded(self, service: str, holder: Holder | None) -> None:
        """Let a connection go if another Helen has held this agent since later than we have, and can prove it."""
        agent = self._sessions.roster.agents.get(service.removeprefix(AGENT_SERVICE))
        if not service.startswith(AGENT_SERVICE) or agent is None or agent.link is None:
            return
        why = self.attachments.why_not(service, agent.name, holder, epoch_of(agent))
        if why:
            self.log.error("{name} stays connected here: {why}", name=agent.name, why=why)
            return
        self.log.info("{name} is connected to another Helen since", name=agent.name)
        agent.link.drop("it is connected to another Helen since")

    # ---------------------------------------------------------------------------------------------- requests

    def _asked(self, request: Request) -> Any:
        if request.service.startswith(AGENT_SERVICE):
            return self._run(request)
        return self._answer(list(request.body))

    def _run(self, request: Request) -> Deferred[Reply]:
        """Ask the agent. A Deferred that is cancelled tells it to give up. Raises Refused for what can't be asked."""
        check, args = read_question(request.body)
        agent = self._sessions.roster.agents.get(request.service.removeprefix(AGENT_SERVICE))
        if agent is None or agent.link is None:
            raise Refused(404, "unknown_agent")
        self._note(f"scale0:{request.asked_by or 'a peer'}", CHECK.name, f"{check} on {agent.name}")
        timeout = min(request.timeout or DEFAULT_TIMEOUT, MAX_ASKED_SECONDS)
        answer: Deferred[Reply] = Deferred(lambda _: self._sessions.queries.abandon(run))
        try:
            run = self._sessions.ask(check, [agent], args, timeout, lambda told: settle(answer, told), lambda: None)
        except QueryRefused as refused:
            raise Refused(429, "too_many", [str(refused).encode()]) from refused
        return answer

    def _answer(self, body: list[bytes]) -> Any:
        if self._offer.tunnel is not None and body[0].startswith(b"tunnel"):
            return self._offer.tunnel(body)
        if body == [b"status"]:
            return self._offer.status().addCallback(lambda shown: json.dumps(shown, ensure_ascii=False).encode())
        if len(body) == 2 and body[0] == b"file":
            content = self._offer.file(body[1].decode("ascii", "replace"))
            if content is None:
                raise Refused(404, "unknown_file", [b"no published set of this Helen names it"])
            return content
        raise Refused(400, "malformed", [b"ask `status`, or `file` and a sha256 in hex"])


def epoch_of(agent: Agent) -> int:
    """Return when an agent was attached, in unix milliseconds."""
    return int(1_000 * (agent.connected_at or 0.0))


def no_answer(failure: Failure) -> None:
    """Turn any failure of a request into None."""
    failure.trap(NotAnswered)


def read_question(body: Sequence[bytes]) -> tuple[str, bytes]:
    """Return the check's name and the blob of its arguments. Raises Refused if no agent could be asked so."""
    if not 1 <= len(body) <= 2:
        raise Refused(400, "malformed", [b"the body is a check's name, and perhaps its arguments, a JSON object"])
    args = body[1] if len(body) == 2 and body[1] else NO_ARGS
    if body[0].startswith(one_off.RESERVED.encode()):
        raise Refused(400, "malformed", [b"such names are the protocol's own"])
    if len(args) > MAX_BLOB:
        raise Refused(413, "too_large", [f"arguments have at most {MAX_BLOB} bytes".encode()])
    try:
        check = body[0].decode("utf-8")
        encode(Check(check, 1, b""), Role.HELEN)
    except (UnicodeDecodeError, LocalProtocolError) as error:
        raise Refused(400, "malformed", [f"no check can be called so: {error}".encode()]) from error
    return check, args


def settle(answer: Deferred[Reply], target: Target) -> None:
    """Answer with the outcome of the one agent that was asked."""
    if not answer.called:
        answer.callback(to_reply(target))


def to_reply(target: Target) -> Reply:
    """Return the reply of Scale0 for an outcome; the body of an error is a sentence, or the agent's own document."""
    said = [target.blob] if target.blob else [(target.why or "").encode("utf-8", "replace")]
    if target.outcome == "answered":
        return Reply(said)
    if target.outcome == "refused":  # by its policy, or because 64 questions to it are open
        return Reply(said, 403, "not_allowed") if target.blob else Reply(said, 429, "too_many")
    code, reason = {"offline": (404, "unknown_agent"), "expired": (504, "deadline")}.get(
        target.outcome, (502, "worker_lost")
    )
    return Reply(said, code, reason)
