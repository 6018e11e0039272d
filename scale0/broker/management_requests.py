"""Answers management requests, after checking their origin, their number and their password. Pure.

A part of the broker. Requests are accepted only where no third party can listen in: over CURVE, on ipc, on loopback.
The service compares the password in a thread; the limit on requests comes before that, so that guessing costs the
guesser and not the broker.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable

import attrs

from groundwork.authority import Caller, decide
from scale0.broker.context import Context, Options, Reload, Store, Verify
from scale0.broker.failures import WINDOW
from scale0.broker.lifecycle import Lifecycle
from scale0.broker.peers import Peers
from scale0.broker.requests.routing import Routing
from scale0.broker.requests.worker_pool import Address
from scale0.broker.session import Session
from scale0.broker.sessions import WARN_SKEW, Sessions
from scale0.config import config as cfg
from scale0.wire.frames import Dialect
from scale0.wire.management_commands import ALIASES, BY_NAME
from scale0.wire.options import MAX_OPTIONS, ManagementReq, encode
from scale0.wire.zap import Origin

PER_MINUTE = 5  # requests of one address; those by ipc or with a key that is known are not counted
ASKERS = 10_000  # names of which requests are counted at once
PENDING = 100  # requests that wait for their password to be checked; scrypt takes some 50 ms each
# Compared when the name is unknown, so that names cannot be told from passwords by the time that a refusal takes.
DUMMY_RECORD = "scrypt$16384$8$1$" + "00" * 16 + "$" + "00" * 64


@attrs.frozen
class ManagementRequest:
    """Holds one request, and where its answer goes."""

    address: Address
    origin: Origin
    dialect: Dialect
    options: ManagementReq


class Management:
    """Checks and performs management requests; each has a ticket while it waits for the service."""

    def __init__(
        self, context: Context, sessions: Sessions, routing: Routing, peers: Peers, lifecycle: Lifecycle
    ) -> None:
        self._c, self._sessions, self._routing = context, sessions, routing
        self._peers, self._lifecycle = peers, lifecycle
        self._times: OrderedDict[str, deque[float]] = OrderedDict()
        self._pending: dict[int, ManagementRequest] = {}
        self._ticket = 0
        # One handler for each row of wire/management_commands.py. None as its result: the answer comes later.
        self._handlers: dict[str, Callable[[int, ManagementRequest], Options | None]] = {
            "status": lambda ticket, request: self.status(),
            "peers": self._show_peers,
            "clients": self._show_clients,
            "services": self._show_services,
            "config": self._show_config,
            "errors": lambda ticket, request: dict(self._c.failures.show(self._c.now)),
            "clear_errors": self._clear_errors,
            "disable": self._change_state,
            "enable": self._change_state,
            "reload_config": self._reload,
        }

    # ---------------------------------------------------------------------------------- checks

    def request(self, request: ManagementRequest) -> None:
        """Refuse a request, or have its password checked."""
        refusal = self._refusal(request)
        if refusal is not None:
            self._answer(request, *refusal)
            return
        wanted = request.options.auth_id
        stored = next((m.auth_password for m in self._c.config.management if m.auth_id == wanted), DUMMY_RECORD)
        self._c.effects.append(Verify(self._admit(request), stored, request.options.auth_password))

    def _admit(self, request: ManagementRequest) -> int:
        self._ticket += 1
        self._pending[self._ticket] = request
        return self._ticket

    def perform(self, request: ManagementRequest) -> None:
        """Perform a request of which the password was checked before; a disabled broker can only be enabled."""
        if self._c.state == "disabled" and request.options.command != "enable":
            self._answer(request, 503, "disabled", "this broker is disabled; only enable is answered")
        else:
            self._perform(self._admit(request))

    def _refusal(self, request: ManagementRequest) -> tuple[int, str, str] | None:
        if not request.origin.is_trusted:
            return 403, "insecure_channel", "management is done over CURVE, ipc or loopback only"
        if not self._c.config.management:
            return 403, "not_allowed", "the configuration names no `management` credentials"
        if not request.origin.is_known and self._too_often(request.origin.name):
            message = f"more than {PER_MINUTE} requests of this address within a minute: wait, or come by ipc"
            return 429, "too_many", message
        if len(self._pending) >= PENDING:
            return 503, "busy", "too many management requests at once; ask again"
        return None

    def _too_often(self, name: str) -> bool:
        times = self._times.setdefault(name, deque(maxlen=PER_MINUTE))
        self._times.move_to_end(name)
        if len(self._times) > ASKERS:
            self._times.popitem(last=False)
        is_over = len(times) == PER_MINUTE and self._c.now - times[0] < WINDOW
        if not is_over:
            times.append(self._c.now)
        return is_over

    def verified(self, ticket: int, right: bool) -> None:
        """Perform the request of this ticket if its password was right."""
        request = self._pending[ticket]
        if right:
            self._perform(ticket)
            return
        del self._pending[ticket]
        for failures in (self._c.failures, self._c.guesses):
            failures.add(request.origin.name, "bad credentials", self._c.now)
        self._answer(request, 401, "bad_credentials", "no such auth_id, or not its password")

    def _perform(self, ticket: int) -> None:
        request = self._pending[ticket]
        command = request.options.command
        handler = self._handlers.get(ALIASES.get(command, command))
        if handler is None:
            del self._pending[ticket]
            known = ", ".join([*self._handlers, *ALIASES])
            self._answer(request, 400, "malformed", f"no such command: {command!r}; there are {known}")
            return
        caller = Caller(f"auth_id {request.options.auth_id}", ("admin",), entry="management", key=request.origin.key)
        refusal = decide(caller, BY_NAME[ALIASES.get(command, command)].action)
        if refusal is not None:
            del self._pending[ticket]
            self._answer(request, 403, "not_allowed", refusal.why)
            return
        self._c.log("info", f"management: {request.options.auth_id} asks for {command}, from {request.origin.name}")
        data = handler(ticket, request)
        if data is not None:
            del self._pending[ticket]
            self._answer(request, 200, "ok", "", data)

    def _answer(
        self, request: ManagementRequest, code: int, reason: str, message: str = "", data: Options | None = None
    ) -> None:
        answer: Options = {"code": code, "reason": reason, "message": message, "data": data or {}}
        body: list[bytes] = []
        if len(encode(answer)) > MAX_OPTIONS:
            body, answer["data"], answer["data_in_body"] = [encode(data)], {}, True
        self._c.tell(request.address, request.dialect, "MANAGEMENTREP", answer, body)

    # -------------------------------------------------------------------- commands that change something

    def _change_state(self, ticket: int, request: ManagementRequest) -> None:
        """Have the new state stored; it is entered and answered once it is durable."""
        state = "disabled" if request.options.command == "disable" else "active"
        self._c.effects.append(Store(ticket, state))

    def stored(self, ticket: int, error: str) -> None:
        """Enter the state that was stored for this ticket, or answer with the error."""
        request = self._pending.pop(ticket, None)
        if request is None:
            return
        if error:
            self._answer(request, 500, "internal", f"the state could not be stored: {error}")
        elif request.options.command == "enable":
            self._lifecycle.enable()
            self._answer(request, 200, "ok")
        else:
            self._answer(request, 200, "ok")
            self._lifecycle.disable()

    def _reload(self, ticket: int, request: ManagementRequest) -> None:
        self._c.effects.append(Reload(ticket))

    def reloaded(self, ticket: int, error: str) -> None:
        """Answer the request that the configuration be read again."""
        request = self._pending.pop(ticket, None)
        if error:
            self._c.alarms.append(error)
        if request is not None:
            outcome = (400, "malformed", error) if error else (200, "ok", "")
            self._answer(request, *outcome, {"config_version": self._c.version_text})

    def _clear_errors(self, ticket: int, request: ManagementRequest) -> Options:
        self._c.guesses.clear(request.options.key)
        return {"cleared": self._c.failures.clear(request.options.key)}

    # --------------------------------------------------------------------------- commands that show something

    def status(self) -> Options:
        """Return the data of `status`: the broker's identity, its counts and its alarms, under the keys shown here."""
        sessions = self._sessions.all.values()
        skewed = [s.identity for s in sessions if abs(s.skew) > WARN_SKEW]
        return {
            "identity": self._c.config.identity,
            "state": self._c.state,
            "group": self._c.config.group,
            "config_version": self._c.version_text,
            "time": self._c.wall,
            "sessions": len(sessions),
            "services": sum(1 for _ in self._routing.pool.services()),
            "queued": self._routing.queues.total(),
            "running": len(self._routing.requests) - self._routing.queues.total(),
            "peers": sorted(self._peers.all),
            "counts": dict(self._c.counts),
            "skewed_clocks": skewed[:100],
            "alarms": list(self._c.alarms),
        }

    def _show_peers(self, ticket: int, request: ManagementRequest) -> Options:
        return {
            peer.identity: {
                "state": peer.state,
                "config_version": str(peer.version),
                "channels": [f"{a}" for a, _ in peer.channels],
                "services": len(peer.table.entries),
                "table_seq": peer.table.seq,
                "digest": peer.table.digest,
            }
            for peer in self._peers.all.values()
        }

    def _show_clients(self, ticket: int, request: ManagementRequest) -> Options:
        return {"clients": [self._describe(s) for s in self._sessions.all.values() if s.role != "peer"]}

    def _describe(self, session: Session) -> Options:
        worker = session.worker
        return {
            "identity": session.identity,
            "address": session.origin.address,
            "key": session.origin.key,
            "role": session.role,
            "dialect": session.dialect.value,
            "ready": session.ready,
            "services": len(worker.services) if worker else 0,
            "inflight": len(worker.inflight) if worker else 0,
            "last_heartbeat": self._last_heartbeat(session),
            "config_version": str(session.version),
            "skew_ms": int(1000 * session.skew),
        }

    def _last_heartbeat(self, session: Session) -> float:
        """Return when something was received last, unix seconds."""
        return round(self._c.wall - (self._c.now - session.last_received), 3)

    def _show_services(self, ticket: int, request: ManagementRequest) -> Options:
        names = {*self._routing.pool.services(), *self._routing.queues}
        counts = {s: [*self._routing.pool.counts(s), self._routing.queues.length(s)] for s in sorted(names)}
        return {"services": counts, "LRU": self._least_recently_used()}

    def _least_recently_used(self) -> list[Options]:
        """Return each backend with its services and last_heartbeat, the least recently used first."""
        ready = [s for s in self._sessions.all.values() if s.role == "backend" and s.ready]
        backends = sorted(((s, s.worker) for s in ready if s.worker is not None), key=lambda each: each[1].turn)
        return [
            {"identity": s.identity, "services": sorted(worker.services), "last_heartbeat": self._last_heartbeat(s)}
            for s, worker in backends
        ]

    def _show_config(self, ticket: int, request: ManagementRequest) -> Options:
        tree = cfg.dump(self._c.config)
        tree["management"] = [m.auth_id for m in self._c.config.management]  # never the passwords, hashed or not
        tree["LRU"] = self._least_recently_used()
        tree["error_clients"] = list(self._c.failures.show(self._c.now))
        return tree | {"state": self._c.state, "config_version": self._c.version_text}
