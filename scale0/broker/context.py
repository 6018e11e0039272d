"""Holds what the parts of a broker share: its configuration, the time of the present event, and the effects so far.

Pure. The parts (sessions, routing, peer_links, management) have no side effects: they append Effects, which service.py
performs in order. Time and randomness come in from outside, so that a test repeats exactly.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Any

import attrs

from scale0.broker.failures import Failures
from scale0.broker.grants import OPEN, Grants
from scale0.broker.requests.worker_pool import Address
from scale0.broker.timers import Timers
from scale0.config.schema import NO_POLICY, BrokerConfig, ServicePolicy
from scale0.documents.publication import Publication
from scale0.wire import frames as wire
from scale0.wire import options as opt
from scale0.wire.frames import Dialect

# Names of our sockets, first part of an Address. A *link*, our own connection to a peer broker, has its endpoint there.
FRONTEND, BACKEND, PEER = "frontend", "backend", "peer"
LIVENESS = 3  # intervals of silence that end a session
ALARMS = 20  # alarms that management shows; older ones are forgotten

Options = dict[str, Any]


@attrs.frozen
class Send:
    """Asks to send a message; if it is not sent, `undelivered` is called. With a token it is a request to a worker."""

    address: Address
    frames: Sequence[bytes]
    token: bytes = b""


@attrs.frozen
class Probe:
    """Asks if the holder of an identity is still connected: send it this, and call `probed` with the outcome."""

    address: Address
    frames: Sequence[bytes]
    claim: int


@attrs.frozen
class Verify:
    """Asks to check a password against its scrypt record, in a thread; `verified` takes the answer."""

    ticket: int
    stored: str
    password: str = attrs.field(repr=False)


@attrs.frozen
class Reload:
    """Asks to read the configuration file again, in a thread; `reloaded` takes the answer."""

    ticket: int


@attrs.frozen
class Store:
    """Asks to make the state durable; `stored` takes the answer, unless the ticket is 0."""

    ticket: int
    state: str = ""  # the state to store, if it is not entered yet


@attrs.frozen
class Publish:
    """Asks to publish the configuration on config_pub_port, as another one is in force."""


@attrs.frozen
class Announce:
    """Asks to store a document that is news, and to publish it on config_pub_port."""

    publication: Publication


@attrs.frozen
class Entered:
    """Tells that the broker has entered a state."""

    state: str


@attrs.frozen
class Log:
    """Asks to log a line."""

    level: str  # of twisted.logger: info, warn, error
    text: str


Effect = Send | Probe | Verify | Reload | Store | Publish | Announce | Entered | Log


@attrs.define(eq=False)
class Endpoints:
    """Holds the endpoints under which others reach this broker, as bound, and its public key."""

    frontend: str = ""
    backend: str = ""
    peer: str = ""
    public_key: str = ""


class Context:
    """Holds the state that all parts of one broker share; `rng` and `token` are its randomness.

    `now` (monotonic seconds) and `wall` (unix seconds) are the times of the present event.
    """

    def __init__(
        self, config: BrokerConfig, version: int, rng: random.Random, token: Callable[[], bytes], grants: Grants = OPEN
    ) -> None:
        self.use(config, version)
        self.grants = grants
        self.state = "joining"
        self.endpoints = Endpoints()
        self.rng, self.token = rng, token
        self.now = self.wall = 0.0
        self.late = 0.0  # seconds by which the present event comes after a timer that was due; more than load: a stall
        self._aged, self._aged_at = 0.0, float("-inf")
        self.effects: list[Effect] = []
        self.timers = Timers()
        self.failures = Failures()
        self.guesses = Failures()  # of passwords alone: a name that is banned here may not even ask for management
        self.counts: Counter[str] = Counter()
        self.alarms: deque[str] = deque(maxlen=ALARMS)  # faults that an operator should look at

    def use(self, config: BrokerConfig, version: int) -> None:
        """Put a configuration into force; lookups that each request needs become dictionaries and sets."""
        self.config, self.version = config, version
        self._policies = {policy.name: policy for policy in config.service_config}
        self._served = frozenset(config.services)
        self._serves_all = "all" in self._served

    def aged(self, seconds: float) -> None:
        """Note that messages may have waited for so many seconds, as this broker, or its machine, stood still."""
        self._aged, self._aged_at = seconds, self.now

    @property
    def age(self) -> float:
        """Return for how many seconds a message may have waited that is read now; 0 an interval after a stall."""
        return self._aged if self.now - self._aged_at <= self.config.default_heartbeat_interval else 0.0

    def policy(self, service: str) -> ServicePolicy:
        """Return what service_config says of a service."""
        return self._policies.get(service, NO_POLICY)

    def serves(self, service: str) -> bool:
        """Return True if this broker accepts requests for the service."""
        return self._serves_all or service in self._served

    def later(self, key: tuple[Any, ...], seconds: float) -> None:
        """Set a timer, in seconds from now."""
        self.at(key, self.now + seconds)

    def at(self, key: tuple[Any, ...], when: float) -> None:
        """Set a timer to a time, monotonic seconds."""
        self.timers.set(key, when, self.now)

    def alarm(self, text: str) -> None:
        """Note a fault that an operator should look at, and log it."""
        self.alarms.append(text)
        self.log("error", text)

    def alarm_once(self, text: str) -> None:
        """Note a fault that a peer may repeat; it is news again when 20 others have come since."""
        if text not in self.alarms:
            self.alarm(text)

    def log(self, level: str, text: str) -> None:
        """Log a line; `level` is info, warn or error."""
        self.effects.append(Log(level, text))

    def send(self, address: Address, frames: Sequence[bytes], token: bytes = b"") -> None:
        """Send frames; `token` is that of the request which they hand to a worker."""
        self.effects.append(Send(address, frames, token))

    def tell(
        self, address: Address, dialect: Dialect, command: str, options: Options, body: Sequence[bytes] = ()
    ) -> None:
        """Send a Scale0 command in the dialect of the other side."""
        self.send(address, wire.scale0(dialect, command, opt.encode(options), body))

    @property
    def version_text(self) -> str:
        """Return the version of the configuration in force, as it travels."""
        return str(self.version)

    @property
    def one_port(self) -> bool:
        """Return True if clients and workers use one socket, as MDP allows; then it is called frontend."""
        port = self.config.frontend_port
        return port != 0 and port == self.config.backend_port
