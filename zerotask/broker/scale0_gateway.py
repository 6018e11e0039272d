"""Offers the broker in a Scale0 network: the service `zerotask.broker`, and Titanic (RFC 9) on top of its tasks.

    zerotask.broker                  body: one JSON-RPC text; answer: one text, or no frame if none is wanted
    titanic.request   SERVICE BODY*  200 UUID, once the request is stored
    titanic.reply     UUID           200 BODY*, 300 not yet, 400 no such request, 500 it failed for good
    titanic.close     UUID           200; the request is deleted

A stored request is a task of the method `mdp:SERVICE`. A node in this module serves it by asking SERVICE through
Scale0, again and again until it answers. Scale0 does not name the client of a request: all its callers share one
connection, so calls of a node have to carry `node_id`, and none of them may do what is Helen's. Between machines both
of our connections are CURVE, with our key pair and the key that the broker there must prove to have. A key that is
bound to the identity NAME is good for both, since our client in that network has the identity NAME:client.
"""

from __future__ import annotations

import base64
import secrets
from collections.abc import Callable
from typing import Any

from attrs import field, frozen
from twisted.application.service import MultiService
from twisted.internet.defer import Deferred, maybeDeferred
from twisted.logger import Logger

from groundwork.authority import ALL
from scale0.client import Client as Scale0Client
from scale0.client import RequestFailed
from scale0.endpoint.connection import Keys
from scale0.endpoint.effects import Target
from scale0.wire.zap import AS_CLIENT
from scale0.worker import Request, Worker
from zerotask import errors
from zerotask.client import Client
from zerotask.errors import NoAnswer, RpcError, TaskFailed
from zerotask.node.node import Node
from zerotask.node.worker_processes import Tell, Work
from zerotask.tasks.connections import Caller
from zerotask.wire.jsonrpc import Fault, parse
from zerotask.wire.links import LocalLink

SERVICE = "zerotask.broker"
TITANIC = ("titanic.request", "titanic.reply", "titanic.close")
CONCURRENCY = 256  # requests of the network that the broker handles at once
NODE_SLOTS = 64  # stored requests that ask their services at once
TRY_WAIT = 60.0  # seconds for which one attempt waits for its service: as long as Scale0 queues a request
ATTEMPTS = 100  # of a stored request; with a backoff of up to 5 min a service may be away for 8 hours
ANSWER_WAIT = 90.0  # seconds in which the broker answers, a wait for a result included
MDP = "mdp:"

Receive = Callable[[Caller, bytes], None]


@frozen
class Scale0Network:
    """Names the brokers of a Scale0 network: backends for our services, frontends for what stored requests ask."""

    identity: str
    backends: tuple[Target, ...]
    frontends: tuple[Target, ...]
    keys: Keys | None = None  # our key pair; each target then names the key of the broker there


@frozen
class Scale0Connection:
    """Stands for the connection of all callers in the network; `deliver` answers one request."""

    name: str = "scale0"
    deliver: Callable[[bytes], bool] = field(eq=False, default=lambda text: False)


class Scale0Gateway(MultiService):
    """Answers requests of the network with a Scale0 worker, and sends stored requests with a Scale0 client."""

    _log = Logger()

    def __init__(
        self,
        reactor: Any,
        network: Scale0Network,
        receive: Receive,
        link: Callable[[], LocalLink],
        is_open: bool = False,
    ) -> None:
        """Make a gateway that is not started. `is_open`: its callers, which have no names, may do what is Helen's."""
        MultiService.__init__(self)  # named, not super(): only so does mypy see that the call is Twisted's, untyped
        self._reactor, self._receive = reactor, receive
        self._roles = ALL if is_open else ()
        name, keys = network.identity, network.keys
        self.worker = Worker(reactor, name, network.backends, self._on_request, CONCURRENCY, keys)
        self.worker.offer(SERVICE, *TITANIC)
        self.network = Scale0Client(reactor, name + AS_CLIENT, network.frontends, keys)
        for service in (self.worker, self.network):
            MultiService.addService(self, service)
        self._tasks = Client(link(), reactor, "titanic")
        served: dict[str, dict[str, Any]] = {f"{MDP}*": {}}
        self._running: dict[str, Deferred[Any]] = {}
        self._node = Node(link(), reactor, "titanic", served, self._run, self._cancel, NODE_SLOTS)

    def troubles(self) -> list[str]:
        """Return a sentence for each end that has no session in the network."""
        ends = (("its service in Scale0", self.worker.connection), ("its client in Scale0", self.network.connection))
        return [f"{name}: {connection.trouble}" for name, connection in ends if connection.trouble]

    def startService(self) -> None:
        """Connect to the network, and to the broker in this process."""
        MultiService.startService(self)
        self._tasks.start()
        self._node.start()

    def stopService(self) -> Deferred[None]:
        """Give back what the node still works on, then leave the network."""
        return Deferred.fromCoroutine(self._stop())

    async def _stop(self) -> None:
        try:
            await self._node.stop(wait=0.5)
            await self._tasks.stop()
        except Exception:
            self._log.failure("The tasks of Titanic could not be given back")
        await maybeDeferred(MultiService.stopService, self)

    # --------------------------------------------------------------------------- requests of the network

    def _on_request(self, request: Request) -> Any:
        if request.service == SERVICE:
            return self._call(b"".join(request.body))
        return Deferred.fromCoroutine(self._titanic(request.service, list(request.body)))

    def _call(self, text: bytes) -> Deferred[Any]:
        """Pass a JSON-RPC text to the broker. If it wants no answer, the reply has no frame."""
        answer: Deferred[Any] = Deferred()

        def deliver(text: bytes) -> bool:
            """Answer the request; False if it has been answered, or given up."""
            if answer.called:
                return False
            answer.callback(text)
            return True

        self._receive(Caller(Scale0Connection(deliver=deliver), shared=True, roles=self._roles), text)
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
            if isinstance(error, RpcError) and error.code == errors.UNAUTHORISED:
                return [b"400"]  # a service of Helen's: who asks for it is not known here
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
        """Delete a request; an unknown one has been deleted already."""
        try:
            await self._tasks.call("client_task_close", {"task_id": task_id})
        except RpcError as error:
            if error.code != errors.TASK_UNKNOWN:
                raise
        return [b"200"]

    # --------------------------------------------------------------------------------- stored requests

    def _run(self, work: Work, tell: Tell) -> Deferred[Any]:
        service = work.method.removeprefix(MDP)
        reply = self.network.request(service, *_body(work.params), timeout=TRY_WAIT)
        self._running[work.id] = reply
        return reply.addCallbacks(_encoded, _failed).addBoth(self._done, work.id)

    def _done(self, result: Any, task_id: str) -> Any:
        self._running.pop(task_id, None)
        return result

    def _cancel(self, task_id: str) -> None:
        if task_id in self._running:
            self._running[task_id].cancel()


def wants_answer(text: bytes) -> bool:
    """Return True if JSON-RPC owes an answer to a text, as it does to one that cannot be read."""
    incoming = parse(text)
    return any(isinstance(entry, Fault) or entry.id is not None for entry in incoming.entries)


def _body(params: Any) -> list[bytes]:
    """Return the frames of a stored request. Any client may submit such a task, with any params."""
    try:
        (frames,) = params
        return [base64.b64decode(frame, validate=True) for frame in frames]
    except (TypeError, ValueError) as error:
        message = f"the params of {MDP}SERVICE are one array of frames in base64: {error}"
        raise TaskFailed(errors.INVALID_PARAMS, message, retry=False) from None


def _encoded(reply: Any) -> list[str]:
    return [base64.b64encode(frame).decode("ascii") for frame in reply.body]


def _failed(failure: Any) -> None:
    """Fail the attempt if no service answered in time: the next attempt may find one."""
    if failure.check(RequestFailed):
        raise TaskFailed(errors.FUNCTION_RAISED, f"Scale0 says {failure.value}")
    failure.raiseException()
