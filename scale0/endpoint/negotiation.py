"""Negotiates a client's session with a broker: which broker to connect to, what to send, when to give up. Pure.

Events and the time go in, effects come out; connection.py carries them out, broker_choice.py names the broker.
Frontends and backends differ in one thing: a backend says READY before it is ACTIVE. Times are monotonic seconds
(`now`) and unix seconds (`wall`).

| State      | Leaves by                                                                                          |
|------------|----------------------------------------------------------------------------------------------------|
| LOST       | a new socket after a while: the preferred broker three times, then NEEDBROKER at the others        |
| DIALLING   | handshake -> CHECKING, or asking if this broker is only to name another; nothing in 6 s -> LOST    |
| ASKING     | USEBROKER -> DIALLING there; an error, or nothing in 2 s -> LOST, at the next broker               |
| CHECKING   | CONFIG or CONFIGACK -> CONFIGURED; 2 s, 3 tries -> LOST                                            |
| CONFIGURED | READY sent -> ACTIVE (frontends at once)                                                           |
| ACTIVE     | FORCENEGOTIATE -> CHECKING; 3 intervals of silence, a broken connection, or a second handshake     |
|            | (the broker was restarted, which a DEALER does not report), or 408 heartbeat_lost -> LOST; a       |
|            | backend that stood still for so long that the broker may have given it up -> CHECKING              |
| BACKOFF    | retry_after_ms is over -> LOST; 503 and 421 ask the others for a broker instead                    |
| STOPPED    | never: the broker refuses this client for good (401, 403, 426)                                     |
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import Any

from scale0.endpoint.broker_choice import BrokerChoice
from scale0.endpoint.effects import Configured, Dial, Effect, SendCommand, State, StateChanged, Target
from scale0.wire import options as opt

CHECK_TIMEOUT, CHECK_TRIES = 2.0, 3
DIAL_TIMEOUT = 6.0  # seconds; a refusal shows at once, and a restarted broker has thousands of handshakes to do
FIRST_DELAY, LONGEST_DELAY = 0.25, 30.0  # seconds between connections, doubling, with full jitter
LIVENESS = 3
DEFAULT_RETRY = 30.0  # seconds after an error that names none
NEVER = frozenset({401, 403, 426})
ELSEWHERE = frozenset({421, 503})
LAPSED = 408


class Negotiation:
    """Runs the state machine of one client. `services` is read whenever they are told to a broker."""

    def __init__(
        self,
        role: str,
        identity: str,
        targets: Sequence[Target],
        rng: random.Random,
        interval: float | None = None,
    ) -> None:
        """Begin without a broker. `interval`: the wanted seconds between heartbeats, None for the broker's default."""
        self.role, self.identity, self._rng = role, identity, rng
        self.state = State.LOST
        self.services: list[str] = []
        self.version = "0"
        self.interval = interval or 2.5
        self._wanted_interval = interval
        self.choice = BrokerChoice(role, targets)
        self.target: Target | None = None
        self._tries = 0
        self._deadline: float | None = None
        self._beat_at: float | None = None
        self._received_at = 0.0
        self._seen = 0.0  # time of the last event
        self._doubts = False  # this process stood still for so long that the broker may have given it up
        self._handshakes = 0
        self._effects: list[Effect] = []

    # ------------------------------------------------------------------------------------- events

    def start(self, now: float) -> list[Effect]:
        """Connect to the first broker; `now` is monotonic seconds."""
        self._seen = now
        self._dial(self.choice.next(), now)
        return self._take()

    def handshake(self, now: float, wall: float) -> list[Effect]:
        """Go on after a handshake, at `now` (monotonic) and `wall` (unix seconds).

        A second one on the same socket means that the broker was restarted and has forgotten this client.
        """
        self._at(now)
        self._handshakes += 1
        if self._handshakes > 1 and self.state not in (State.STOPPED, State.BACKOFF, State.LOST):
            self._lose(now, "the broker was restarted", self._rng.random() * FIRST_DELAY)
        elif self.state is State.DIALLING:
            self._received_at = now
            if self.choice.is_asking:
                self._become(State.ASKING)
                self._deadline = now + CHECK_TIMEOUT
                options = {"identity": self.identity, "services": self.services[:1000], "failed": self.choice.failed}
                self._effects.append(SendCommand("NEEDBROKER", options))
            else:
                self._tries = 0
                self._check(now, wall)
        return self._take()

    def refused(self, now: float) -> list[Effect]:
        """Learn that the broker refused the handshake: one side's key is not what the other expects (monotonic)."""
        if self.state is State.DIALLING:
            self._failed_here(now, "the connection is refused: keys do not match")
        return self._take()

    def failed(self, why: str, now: float) -> list[Effect]:
        """Learn that no socket could be opened, for this reason (monotonic)."""
        if self.state is State.DIALLING:
            self._failed_here(now, why)
        return self._take()

    def disconnected(self, now: float) -> list[Effect]:
        """Learn that the connection broke, or could not be made, so that silence need not be waited for (monotonic)."""
        if self.state in (State.DIALLING, State.ASKING, State.CHECKING, State.CONFIGURED, State.ACTIVE):
            never = self.state is State.DIALLING
            self._failed_here(now, "no connection can be made" if never else "the connection was lost")
        return self._take()

    def received(self, command: str, o: Any, body: Sequence[bytes], now: float, wall: float) -> list[Effect]:
        """Take any command of the broker, at `now` (monotonic) and `wall` (unix seconds)."""
        self._at(now)
        self._received_at = now
        self._check_in_doubt(now, wall)
        if command in ("CONFIG", "CONFIGACK") and self.state in (State.CHECKING, State.ACTIVE):
            self._configured(command, o, body, now)
        elif command == "FORCENEGOTIATE" and self.state in (State.CONFIGURED, State.ACTIVE):
            self._tries = 0
            self._check(now, wall)
        elif command == "DISCONNECTERROR":
            self._error(o, now)
        elif command == "DISCONNECT":
            self._lose(now, "the broker has ended the session")
        elif command == "USEBROKER" and self.state is State.ASKING:
            self._use(o, now)
        return self._take()

    def tick(self, now: float, wall: float) -> list[Effect]:
        """Send the heartbeat and end the waiting that is due, at `now` (monotonic) and `wall` (unix seconds)."""
        self._at(now)
        self._check_in_doubt(now, wall)
        if self.state is State.ACTIVE and now - self._received_at > LIVENESS * self.interval:
            self._failed_here(now, f"nothing received for {LIVENESS} intervals")
        if self._beat_at is not None and now >= self._beat_at and self.state in (State.ACTIVE, State.CHECKING):
            self._beat_at = now + self.interval
            self._effects.append(SendCommand("HEARTBEAT", {"time": wall, "config_version": self.version}))
        if self._deadline is not None and now >= self._deadline:
            self._deadline = None
            self._timed_out(now, wall)
        return self._take()

    def ready_sent(self, now: float) -> list[Effect]:
        """Become active, as the backend has sent READY; `now` is monotonic seconds."""
        if self.state is State.CONFIGURED:
            self._activate(now)
        return self._take()

    def leave(self) -> list[Effect]:
        """End the session with DISCONNECT, for good."""
        if self.state in (State.ACTIVE, State.CONFIGURED, State.CHECKING):
            self._effects.append(SendCommand("DISCONNECT", {}))
        self._deadline = self._beat_at = None
        self._become(State.STOPPED, "left")
        return self._take()

    @property
    def due(self) -> float | None:
        """Return the time at which `tick` is wanted next, monotonic seconds."""
        times = [t for t in (self._deadline, self._beat_at) if t is not None]
        if self.state is State.ACTIVE:
            times.append(self._received_at + LIVENESS * self.interval)
        return min(times, default=None)

    def set_known_brokers(self, groups: Iterable[dict[str, Any]], preferred: str) -> None:
        """Take the brokers of the configuration: its groups, and the identity of the preferred one."""
        self.choice.learn(groups, preferred)

    # --------------------------------------------------------------------------------------- steps

    def _at(self, now: float) -> None:
        """Note the time of an event. One that comes late, as this process stood still, moves deadlines of silence.

        Messages that the broker sent meanwhile wait in the socket, and are read within the interval that is left at
        least.
        """
        due, before, self._seen = self.due, self._seen, now
        late = 0.0 if due is None else now - max(due, before)
        if late <= self.interval:
            return
        self._received_at = min(now, max(self._received_at + late, now - (LIVENESS - 1) * self.interval))
        if self._deadline is not None and self.state not in (State.LOST, State.BACKOFF):
            self._deadline = max(self._deadline + late, now + self.interval)
        self._doubts = late > (LIVENESS - 1) * self.interval

    def _check_in_doubt(self, now: float, wall: float) -> None:
        """Let a backend negotiate anew on its connection if the broker may have given its requests to others.

        The answer comes behind all that waits in the socket, also behind the end of the session, if there is one.
        """
        if self._doubts and self.role == "backend" and self.state is State.ACTIVE:
            self._tries = 0
            self._check(now, wall)
        self._doubts = False

    def _take(self) -> list[Effect]:
        effects, self._effects = self._effects, []
        return effects

    def _become(self, state: State, why: str = "", code: int = 0) -> None:
        if state is not self.state:
            self.state = state
            self._effects.append(StateChanged(state, why, code))

    def _check(self, now: float, wall: float) -> None:
        self._tries += 1
        self._become(State.CHECKING)
        self._deadline = now + CHECK_TIMEOUT
        options: dict[str, Any] = {
            "identity": self.identity,
            "services": self.services if len(self.services) <= 200 else [],  # READY and SERVICES tell them all
            "config_type": "JSON",
            "config_version": self.version,
            "role": self.role,
            "time": wall,
        }
        if self._wanted_interval:
            options["hbeatinterval"] = self._wanted_interval
        if token := self.choice.token_of(self.target):
            options["token"] = token
        self._effects.append(SendCommand("CHECKCONFIG", options))

    def _configured(self, command: str, o: opt.ConfigTold, body: Sequence[bytes], now: float) -> None:
        self._deadline = None
        self.version = o.config_version
        self.interval = o.hbeatinterval or self.interval
        self.choice.configured()
        document = b"".join(body) if command == "CONFIG" else None
        self._become(State.CONFIGURED)
        self._effects.append(Configured(document, o.config_type, o.config_version))
        if self.role == "frontend":
            self._activate(now)

    def _activate(self, now: float) -> None:
        self._beat_at = now + self.interval
        self._become(State.ACTIVE)

    def _error(self, o: opt.DisconnectError, now: float) -> None:
        why = f"{o.code} {o.reason}: {o.message}"
        if o.code in NEVER:
            self._deadline = self._beat_at = None
            self._become(State.STOPPED, why, o.code)
        elif self.state is State.ASKING:
            self._ask_next(now, why)
        elif o.code == LAPSED:
            self._lose(now, why)  # one side stood still for a while: nothing is wrong with either
        elif o.code in ELSEWHERE and self.choice.send_away(self.target):
            self._lose(now, why, self._rng.random() * FIRST_DELAY)
        else:
            self._beat_at = None
            self._become(State.BACKOFF, why, o.code)
            self._deadline = now + (o.retry_after_ms / 1000 or (3 * self.interval if o.code == 409 else DEFAULT_RETRY))

    def _timed_out(self, now: float, wall: float) -> None:
        if self.state in (State.LOST, State.BACKOFF):
            self._dial(self.choice.next(), now)
        elif self.state is State.CHECKING and self._tries < CHECK_TRIES:
            self._check(now, wall)
        elif self.state is State.ASKING:
            self._ask_next(now, "NEEDBROKER was not answered")
        else:
            self._failed_here(now, "no answer")

    def _use(self, o: opt.UseBroker, now: float) -> None:
        endpoint = o.frontend if self.role == "frontend" else o.backend
        self.choice.named()
        if endpoint:
            self._dial(Target(endpoint, o.public_key, o.identity), now)
        else:
            self._ask_next(now, "USEBROKER without an endpoint")

    # ---------------------------------------------------------------------- the broker to connect to

    def _dial(self, target: Target, now: float) -> None:
        self.target, self._handshakes = target, 0
        self._become(State.DIALLING)
        self._effects.append(Dial(target))
        self._deadline = now + DIAL_TIMEOUT

    def _failed_here(self, now: float, why: str) -> None:
        """Give up this broker for now. The third time others are asked for a broker."""
        if self.choice.is_asking:
            self._ask_next(now, why)
            return
        self.choice.fail(self.target)
        self._lose(now, why)

    def _ask_next(self, now: float, why: str) -> None:
        """Ask the next broker; when none is left, begin again with the first choice, later."""
        has_another = self.choice.skip()
        self._lose(now, why, self._rng.random() * FIRST_DELAY if has_another else None)

    def _lose(self, now: float, why: str, delay: float | None = None) -> None:
        """Be without a broker, and connect again after `delay` seconds, or after a growing random delay."""
        self._beat_at = None
        self._become(State.LOST, why)
        longest = min(LONGEST_DELAY, FIRST_DELAY * 2 ** min(self.choice.failures, 20))
        self._deadline = now + (self._rng.random() * longest if delay is None else delay)
