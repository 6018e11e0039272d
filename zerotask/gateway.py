"""The broker in a Scale0 network: the service `zerotask.broker`, and Titanic (RFC 9) as a facade over its tasks.

    zerotask.broker                  body: one JSON-RPC text; answer: one text, or no frame where none is wanted
    titanic.request   SERVICE BODY*  200 UUID, once the request is stored
    titanic.reply     UUID           200 BODY*, 300 not yet, 400 no such request, 500 it failed for good
    titanic.close     UUID           200; the request is forgotten

A stored request is a task of the method `mdp:SERVICE`, which the node in here serves by asking SERVICE through Scale0,
again and again until somebody answers. Scale0 does not say who asks: its callers share one connection as far as names
are concerned, so calls of a node have to carry `node_id`. Between machines both of our connections are CURVE: with our
pair, and the key that the broker there must prove to have. A key that is bound to the identity NAME is good for both,
since the frontend calls itself NAME:client.
"""

from __future__ import annotations

import base64
import secrets
from collections.abc import Callable
from typing import Any

from attrs import field, frozen
from twisted.application.service import MultiService
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from scale0.client import Client as Scale0Client
from scale0.client import RequestFailed
from scale0.link import Keys
from scale0.negotiation import Target
from scale0.worker import Request, Worker
from scale0.zap import AS_CLIENT
from zerotask import errors
from zerotask.children import Tell, Work
from zerotask.client import Client
from zerotask.errors import NoAnswer, RpcError, TaskFailed
from zerotask.jsonrpc import Fault, parse
from zerotask.links import LocalLink
from zerotask.node import Node
from zerotask.roster import Caller

SERVICE = "zerotask.broker"
TITANIC = ("titanic.request", "titanic.reply", "titanic.close")
CONCURRENCY = 256  # requests of the network that are on their way in here at once
NODE_SLOTS = 64  # stored requests that wait for their services at once
TRY_WAIT = 60.0  # seconds for which one attempt waits for its service: as long as Scale0 queues by itself
ATTEMPTS = 100  # of a stored request; with backoff up to 5 min some 8 hours of a service's absence
ANSWER_WAIT = 90.0  # seconds in which the broker itself answers, a wait for a result included
MDP = "mdp:"

Receive = Callable[[Caller, bytes], None]


@frozen
class Scale0:
    """Brokers of a Scale0 network: where we offer our service, and where stored requests ask for theirs."""

    identity: str
    backends: tuple[Target, ...]
    frontends: tuple[Target, ...]
    keys: Keys | None = None  # our pair; each target then names the key of the broker there


@frozen
class NetworkLine:
    """All that comes through Scale0 is one connection; each request has its own way back."""

    name: str = "scale0"
    deliver: Callable[[bytes], bool] = field(eq=False, default=lambda text: False)


class Gateway(MultiService):
    """A worker for what the network asks of us, and a client for what stored requests ask of the network."""

    _log = Logger()

    def __init__(
        self,
        reactor: Any,
        network: Scale0,
        receive: Receive,
        link: Callable[[], LocalLink],
    ) -> None:
        super().__init__()
        self._reactor, self._receive = reactor, receive
        name, keys = network.identity, network.keys
        self.worker = Worker(reactor, name, network.backends, self._asked, CONCURRENCY, keys)
        self.worker.offer(SERVICE, *TITANIC)
        self.network = Scale0Client(reactor, name + AS_CLIENT, network.frontends, keys)
        for service in (self.worker, self.network):
            service.setServiceParent(self)
        self._tasks = Client(link(), reactor, "titanic")
        served: dict[str, dict[str, Any]] = {f"{MDP}*": {}}
        self._running: dict[str, Deferred[Any]] = {}
        self._node = Node(link(), reactor, "titanic", served, self._run, self._cancel, NODE_SLOTS)

    def startService(self) -> None:
        super().startService()
        self._tasks.start()
        self._node.start()

    async def _stop(self) -> None:
        await self._node.stop(wait=0.5)
        await self._tasks.stop()

    def stopService(self) -> Deferred[Any]:
        stopped = Deferred.fromCoroutine(self._stop())
        return stopped.addBoth(lambda _: super(Gateway, self).stopService())

    # -------------------------------------------------------------------------- what the network asks

    def _asked(self, request: Request) -> Any:
        if request.service == SERVICE:
            return self._call(b"".join(request.body))
        return Deferred.fromCoroutine(self._titanic(request.service, list(request.body)))

    def _call(self, text: bytes) -> Deferred[Any]:
        """A JSON-RPC text. One that wants no answer is answered without a frame, after its turn."""
        answer: Deferred[Any] = Deferred()

        def deliver(text: bytes) -> bool:
            if answer.called:
                return False
            answer.callback(text)
            return True

        self._receive(Caller(NetworkLine(deliver=deliver), shared=True), text)
        if not answer.called and not wants_answer(text):
            answer.callback(())
        return answer.addTimeout(ANSWER_WAIT, self._reactor)

    async def _titanic(self, service: str, body: list[bytes]) -> list[bytes]:
        try:
            if service == "titanic.request":
                return await self._store(body)
            task_id = b"".join(body).decode("ascii", "replace").lower()
            return await (self._fetch(task_id) if service == "titanic.reply" else self._forget(task_id))
        except (RpcError, NoAnswer) as error:
            self._log.error("{service} failed: {error}", service=service, error=error)
            return [b"500"]

    async def _store(self, body: list[bytes]) -> list[bytes]:
        if not body or not body[0]:
            return [b"400"]
        frames = [base64.b64encode(frame).decode("ascii") for frame in body[1:]]
        task_id, wanted = secrets.token_hex(16), {"time_limit": 2 * TRY_WAIT, "max_attempts": ATTEMPTS}
        method = MDP + body[0].decode("utf-8", "replace")
        return [b"200", (await self._tasks.submit(method, [frames], task_id, **wanted)).encode()]

    async def _fetch(self, task_id: str) -> list[bytes]:
        try:
            return [b"200", *(base64.b64decode(frame) for frame in await self._tasks.result(task_id))]
        except TaskFailed:
            return [b"500"]
        except RpcError as error:
            return [{errors.NOT_FINISHED: b"300"}.get(error.code, b"400")]

    async def _forget(self, task_id: str) -> list[bytes]:
        """An unknown one is forgotten already."""
        try:
            await self._tasks.call("client_task_close", {"task_id": task_id})
        except RpcError as error:
            if error.code != errors.TASK_UNKNOWN:
                raise
        return [b"200"]

    # ------------------------------------------------------------------- what stored requests ask of it

    def _run(self, work: Work, tell: Tell) -> Deferred[Any]:
        service = work.method.removeprefix(MDP)
        asked = self.network.request(service, *_body(work.params), timeout=TRY_WAIT)
        self._running[work.id] = asked
        return asked.addCallbacks(_encoded, _failed).addBoth(self._done, work.id)

    def _done(self, result: Any, task_id: str) -> Any:
        self._running.pop(task_id, None)
        return result

    def _cancel(self, task_id: str) -> None:
        if task_id in self._running:
            self._running[task_id].cancel()


def wants_answer(text: bytes) -> bool:
    """Whether JSON-RPC owes an answer to this text; what cannot be read is answered too."""
    incoming = parse(text)
    return any(isinstance(entry, Fault) or entry.id is not None for entry in incoming.entries)


def _body(params: Any) -> list[bytes]:
    """Any client may submit such a task, with whatever parameters."""
    try:
        (frames,) = params
        return [base64.b64decode(frame, validate=True) for frame in frames]
    except (TypeError, ValueError) as error:
        said = f"the parameters of {MDP}SERVICE are one array of frames in base64: {error}"
        raise TaskFailed(errors.INVALID_PARAMS, said, retry=False) from None


def _encoded(reply: Any) -> list[str]:
    return [base64.b64encode(frame).decode("ascii") for frame in reply.body]


def _failed(failure: Any) -> None:
    """No service, no answer in time: another attempt may find one."""
    if failure.check(RequestFailed):
        raise TaskFailed(errors.FUNCTION_RAISED, f"Scale0 says {failure.value}")
    failure.raiseException()
