"""Management requests: who may, how often, and what they are told. Pure: a part of the broker.

Accepted only where nobody can listen in: over CURVE, on ipc, on loopback. The password is compared in a thread by the
service at the edge; the limit comes before that, so that guessing costs the guesser and not the broker.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any

import attrs

from scale0 import config as cfg
from scale0.context import Context, Options, Reload, Store, Verify
from scale0.failures import WINDOW
from scale0.fellows import Fellows
from scale0.frames import Dialect
from scale0.lru import Address
from scale0.options import MAX_OPTIONS, ManagementReq, encode
from scale0.routing import Routing
from scale0.sessions import WARN_SKEW, Session, Sessions
from scale0.zap import Origin

PER_MINUTE = 5  # requests of one address; whoever comes by ipc or with a key that we know is not counted
ASKERS = 10_000  # names whose requests are counted at once
PENDING = 100  # requests that wait for their password to be checked; scrypt takes some 50 ms each
# Compared when the name is unknown, so that a stranger cannot tell names from passwords by the time they take.
NOBODYS_PASSWORD = "scrypt$16384$8$1$" + "00" * 16 + "$" + "00" * 64


@attrs.frozen
class Asked:
    address: Address
    origin: Origin
    dialect: Dialect
    request: ManagementReq


class Management:
    def __init__(self, context: Context, sessions: Sessions, routing: Routing, fellows: Fellows) -> None:
        self._c, self._sessions, self._routing, self._fellows = context, sessions, routing, fellows
        self._times: OrderedDict[str, deque[float]] = OrderedDict()
        self._pending: dict[int, Asked] = {}
        self._ticket = 0
        self.alarms: deque[str] = deque(maxlen=20)  # what an operator should know; the last few
        # Set by the broker.
        self.enter: Callable[[str], None] = lambda state: None
        self._commands: dict[str, Callable[[int, Asked], Any]] = {
            "status": self._status,
            "peers": self._peers,
            "clients": self._clients,
            "services": self._services,
            "config": self._config,
            "errors": lambda ticket, asked: self._c.failures.show(self._c.now),
            "clear_errors": self._clear_errors,
            "disable": self._change_state,
            "enable": self._change_state,
            "reload_config": self._reload,
            "reload": self._reload,
        }

    # ---------------------------------------------------------------------------------- who may

    def request(self, asked: Asked) -> None:
        refusal = self._refusal(asked)
        if refusal is not None:
            self._answer(asked, *refusal)
            return
        wanted = asked.request.auth_id
        stored = next((m.auth_password for m in self._c.config.management if m.auth_id == wanted), NOBODYS_PASSWORD)
        self._c.effects.append(Verify(self._admit(asked), stored, asked.request.auth_password))

    def _admit(self, asked: Asked) -> int:
        self._ticket += 1
        self._pending[self._ticket] = asked
        return self._ticket

    def perform(self, asked: Asked) -> None:
        """For somebody whose password was checked before. A broker that is disabled can be enabled, and no more."""
        if self._c.state == "disabled" and asked.request.command != "enable":
            self._answer(asked, 503, "disabled", "this broker is disabled; only enable is answered")
        else:
            self._do(self._admit(asked))

    def _refusal(self, asked: Asked) -> tuple[int, str, str] | None:
        if not asked.origin.is_trusted:
            return 403, "insecure_channel", "management is done over CURVE, ipc or loopback only"
        if not self._c.config.management:
            return 403, "not_allowed", "the configuration names no `management` credentials"
        if not asked.origin.is_known and self._too_often(asked.origin.name):
            return (
                429,
                "too_many",
                f"more than {PER_MINUTE} requests of this address within a minute: wait, or come by ipc",
            )
        if len(self._pending) >= PENDING:
            return 503, "busy", "too many management requests at once; ask again"
        return None

    def _too_often(self, name: str) -> bool:
        times = self._times.setdefault(name, deque(maxlen=PER_MINUTE))
        self._times.move_to_end(name)
        if len(self._times) > ASKERS:
            self._times.popitem(last=False)
        if len(times) == PER_MINUTE and self._c.now - times[0] < WINDOW:
            return True
        times.append(self._c.now)
        return False

    def verified(self, ticket: int, right: bool) -> None:
        asked = self._pending[ticket]
        if not right:
            del self._pending[ticket]
            self._c.failures.add(asked.origin.name, "bad credentials", self._c.now)
            self._answer(asked, 401, "bad_credentials", "no such auth_id, or not its password")
            return
        self._do(ticket)

    def _do(self, ticket: int) -> None:
        asked = self._pending[ticket]
        perform = self._commands.get(asked.request.command)
        if perform is None:
            del self._pending[ticket]
            known = ", ".join(self._commands)
            self._answer(asked, 400, "malformed", f"no such command: {asked.request.command!r}; there are {known}")
            return
        self._c.log("info", f"management: {asked.request.auth_id} asks for {asked.request.command}")
        data = perform(ticket, asked)
        if data is not None:
            del self._pending[ticket]
            self._answer(asked, 200, "ok", "", data)

    def _answer(self, asked: Asked, code: int, reason: str, message: str = "", data: Any = None) -> None:
        told: Options = {"code": code, "reason": reason, "message": message, "data": data or {}}
        body: list[bytes] = []
        if len(encode(told)) > MAX_OPTIONS:
            body, told["data"], told["data_in_body"] = [encode(data)], {}, True
        self._c.tell(asked.address, asked.dialect, "MANAGEMENTREP", told, body)

    # ------------------------------------------------------------------------- what takes a while

    def _change_state(self, ticket: int, asked: Asked) -> None:
        """Durable before it is said to be done."""
        self.wanted_state = "disabled" if asked.request.command == "disable" else "active"
        self._c.effects.append(Store(ticket))

    wanted_state = "active"

    def stored(self, ticket: int, error: str) -> None:
        asked = self._pending.pop(ticket, None)
        if asked is None:
            return
        if error:
            self._answer(asked, 500, "internal", f"the state could not be stored: {error}")
            return
        if asked.request.command == "enable":
            self.enter("active")
            self._answer(asked, 200, "ok")
        else:
            self._answer(asked, 200, "ok")
            self.enter("disabled")

    def _reload(self, ticket: int, asked: Asked) -> None:
        self._c.effects.append(Reload(ticket))

    def reloaded(self, ticket: int, error: str) -> None:
        asked = self._pending.pop(ticket, None)
        if error:
            self.alarms.append(error)
        if asked is not None:
            told = (400, "malformed", error) if error else (200, "ok", "")
            self._answer(asked, *told, {"config_version": self._c.version_text})

    def _clear_errors(self, ticket: int, asked: Asked) -> Options:
        return {"cleared": self._c.failures.clear(asked.request.key)}

    # ---------------------------------------------------------------------------------- what is so

    def _status(self, ticket: int, asked: Asked) -> Options:
        return self.status()

    def status(self) -> Options:
        sessions = self._sessions.all.values()
        skewed = [s.identity for s in sessions if abs(s.skew) > WARN_SKEW]
        return {
            "identity": self._c.config.identity,
            "state": self._c.state,
            "group": self._c.config.group,
            "config_version": self._c.version_text,
            "time": self._c.wall,
            "sessions": len(sessions),
            "services": sum(1 for _ in self._routing.lru.services()),
            "queued": self._routing.queues.total(),
            "running": len(self._routing.rows) - self._routing.queues.total(),
            "peers": sorted(self._fellows.all),
            "counts": dict(self._c.counts),
            "skewed_clocks": skewed[:100],
            "alarms": list(self.alarms),
        }

    def _peers(self, ticket: int, asked: Asked) -> Options:
        return {
            fellow.identity: {
                "state": fellow.state,
                "config_version": str(fellow.version),
                "channels": [f"{a}" for a, _ in fellow.channels],
                "services": len(fellow.table.entries),
                "table_seq": fellow.table.seq,
                "digest": fellow.table.digest,
            }
            for fellow in self._fellows.all.values()
        }

    def _clients(self, ticket: int, asked: Asked) -> Options:
        return {"clients": [self._show(s) for s in self._sessions.all.values() if s.role != "peer"]}

    def _show(self, session: Session) -> Options:
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
            "last_heartbeat": round(self._c.wall - (self._c.now - session.last_heard), 3),
            "config_version": str(session.version),
            "skew_ms": int(1000 * session.skew),
        }

    def _services(self, ticket: int, asked: Asked) -> Options:
        names = {*self._routing.lru.services(), *self._routing.queues}
        local = {s: [*self._routing.lru.counts(s), self._routing.queues.length(s)] for s in sorted(names)}
        return {"services": local, "LRU": self._lru()}

    def _lru(self) -> list[Options]:
        """The seed's list: each backend with its services and last_heartbeat, least recently used first."""
        backends = [s for s in self._sessions.all.values() if s.role == "backend" and s.worker is not None and s.ready]
        backends.sort(key=lambda s: s.worker.turn if s.worker else 0)
        return [
            {
                "identity": s.identity,
                "services": sorted(s.worker.services) if s.worker else [],
                "last_heartbeat": round(self._c.wall - (self._c.now - s.last_heard), 3),
            }
            for s in backends
        ]

    def _config(self, ticket: int, asked: Asked) -> Options:
        tree = cfg.dump(self._c.config)
        tree["management"] = [m.auth_id for m in self._c.config.management]  # never the passwords, hashed or not
        tree["LRU"], tree["error_clients"] = self._lru(), list(self._c.failures.show(self._c.now))
        return tree | {"state": self._c.state, "config_version": self._c.version_text}
