"""Helen as one backend of a Scale0 network: whoever may ask a broker may ask her, and her agents.

    helen, helen.ID     status             JSON: what GET /api/v1/status says
                        file SHA256        a file that a published set names, as other Helens fetch it
    equus.AGENT         CHECK [ARGS]       runs the check now; the answer is the result as the agent wrote it

An agent's service comes and goes with its connection, and carries the moment at which it attached: where two Helens
hold one agent the newest has it, and the other lets its connection go. Nothing is stored here, and who may ask is the
broker's business. docs/scale0.rst has the codes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from attrs import frozen
from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from equus_protocol import once
from equus_protocol.codec import MAX_BLOB, Role, encode
from equus_protocol.errors import LocalProtocolError
from equus_protocol.messages import Check
from helen.house import House
from helen.roster import Agent
from helen.runs import MAX_ASKED_SECONDS, RunRefused, Target
from scale0.asking import NotAnswered
from scale0.link import Keys
from scale0.negotiation import Target as BrokerTarget
from scale0.sharer import Sharer
from scale0.worker import Refused, Reply, Request, Worker

AGENT_SERVICE = "equus."
CONCURRENCY = 500  # requests in flight: half of the questions that may be open, so that people can ask as well
DEFAULT_TIMEOUT = 60.0  # seconds of a request that names none, as Majordomo's never do; as long as Scale0 queues one
ASK_SECONDS = 2.0  # that a broker has to say whether somebody is there
FETCH_SECONDS = 10.0  # for one file of at most a mebibyte
NO_ARGS = b"{}"


@frozen
class Offer:
    """What this Helen answers beside her agents: `status()` as plain JSON values, `file(sha256)` or None."""

    status: Callable[[], dict[str, Any]]
    file: Callable[[str], bytes | None]


class Mesh:
    """`start` offers who is here; from then on the house's observers keep it so."""

    log = Logger()

    def __init__(
        self, reactor: Any, house: House, identity: str, brokers: Sequence[BrokerTarget], offer: Offer,
        keys: Keys | None = None, configured: Callable[[dict[str, Any]], None] | None = None,
        sharer: Sharer | None = None,
    ) -> None:  # fmt: skip
        self.identity = identity
        self._house = house
        self._offer = offer
        self.worker = Worker(
            reactor, identity, brokers, self._asked, CONCURRENCY, keys, configured=configured,
            withdrawn=self._withdrawn, sharer=sharer,
        )  # fmt: skip

    def start(self) -> None:
        self._house.on_attached.append(self._attached)
        self._house.on_detached.append(self._detached)
        self.worker.offer("helen", f"helen.{self.identity}")
        for agent in self._house.roster.connected():
            self._attached(agent)
        self.worker.startService()

    def stop(self) -> None:
        """Brokers are told, and send what comes from now on to others."""
        self._house.on_attached.remove(self._attached)
        self._house.on_detached.remove(self._detached)
        self.worker.stopService()

    @property
    def state(self) -> str:
        return str(self.worker.state.value)

    def is_there(self, service: str) -> Deferred[bool | None]:
        """mmi.service: whether somebody offers it, here or at a broker in reach; None: there is no broker to ask."""
        asked = self.worker.ask("mmi.service", service.encode(), timeout=ASK_SECONDS)
        return asked.addCallbacks(lambda body: list(body) == [b"200"], nobody)

    def fetch(self, identity: str, sha256: str) -> Deferred[bytes | None]:
        """A file of a published set, from another Helen; None if she doesn't give it."""
        asked = self.worker.ask(f"helen.{identity}", b"file", sha256.encode(), timeout=FETCH_SECONDS)
        return asked.addCallbacks(lambda body: body[0] if body else None, nobody)

    # ---------------------------------------------------------------------------------------------- agents

    def offer(self, agent: Agent) -> None:
        """Whoever asks for it finds it here."""
        self._attached(agent)

    def hide(self, agent: Agent) -> None:
        """It is here, and nobody shall ask it any more."""
        self._detached(agent)

    def _attached(self, agent: Agent) -> None:
        """The epoch is the time of its coming in milliseconds: the newest wins as far as the clocks of Helens agree."""
        service = AGENT_SERVICE + agent.name
        self.worker.offer(service, epochs={service: int(1_000 * (agent.connected_at or 0.0))})

    def _detached(self, agent: Agent) -> None:
        self.worker.withdraw(AGENT_SERVICE + agent.name)

    def _withdrawn(self, service: str) -> None:
        """Somebody holds this agent since later than we do: what we have is what it left behind."""
        agent = self._house.roster.agents.get(service.removeprefix(AGENT_SERVICE))
        if service.startswith(AGENT_SERVICE) and agent is not None and agent.link is not None:
            self.log.info("{name} is connected to another Helen since", name=agent.name)
            agent.link.drop("it is connected to another Helen since")

    # ---------------------------------------------------------------------------------------------- requests

    def _asked(self, request: Request) -> Any:
        if request.service.startswith(AGENT_SERVICE):
            return self._run(request)
        return self._answer(list(request.body))

    def _run(self, request: Request) -> Deferred[Reply]:
        """Raises Refused for what can't be asked; a Deferred that is cancelled tells the agent to give up."""
        check, args = read_question(request.body)
        agent = self._house.roster.agents.get(request.service.removeprefix(AGENT_SERVICE))
        if agent is None or agent.link is None:
            raise Refused(404, "unknown_agent")
        timeout = min(request.timeout or DEFAULT_TIMEOUT, MAX_ASKED_SECONDS)
        answer: Deferred[Reply] = Deferred(lambda _: self._house.runs.abandon(run))
        try:
            run = self._house.ask(check, [agent], args, timeout, lambda told: settle(answer, told), lambda: None)
        except RunRefused as refused:
            raise Refused(429, "too_many", [str(refused).encode()]) from refused
        return answer

    def _answer(self, body: list[bytes]) -> bytes:
        if body == [b"status"]:
            return json.dumps(self._offer.status(), ensure_ascii=False).encode()
        if len(body) == 2 and body[0] == b"file":
            content = self._offer.file(body[1].decode("ascii", "replace"))
            if content is None:
                raise Refused(404, "unknown_file", [b"no published set of this Helen names it"])
            return content
        raise Refused(400, "malformed", [b"ask `status`, or `file` and a sha256 in hex"])


def nobody(failure: Failure) -> None:
    """Whatever the code: there is no answer."""
    failure.trap(NotAnswered)


def read_question(body: Sequence[bytes]) -> tuple[str, bytes]:
    """The check's name and the blob of its arguments; Refused if no agent could be asked so."""
    if not 1 <= len(body) <= 2:
        raise Refused(400, "malformed", [b"the body is a check's name, and perhaps its arguments, a JSON object"])
    args = body[1] if len(body) == 2 and body[1] else NO_ARGS
    if body[0].startswith(once.RESERVED.encode()):
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
    """What became of the one agent that was asked, as Scale0 says it."""
    if not answer.called:
        answer.callback(to_reply(target))


def to_reply(target: Target) -> Reply:
    """Codes are those of docs/scale0.rst; the body of an error is a sentence, or what the agent said."""
    said = [target.blob] if target.blob else [(target.why or "").encode("utf-8", "replace")]
    if target.outcome == "answered":
        return Reply(said)
    if target.outcome == "refused":  # by its policy, or because 64 questions to it are open
        return Reply(said, 403, "not_allowed") if target.blob else Reply(said, 429, "too_many")
    code, reason = {"offline": (404, "unknown_agent"), "expired": (504, "deadline")}.get(
        target.outcome, (502, "worker_lost")
    )
    return Reply(said, code, reason)
