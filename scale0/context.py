"""What the parts of a broker share: its configuration, the time of the event in hand, and the effects it will have.

Pure. The parts (sessions, routing, fellows, management) never do anything: they append effects, which the service at
the edge performs in order. Time and randomness come in from outside, so that a test repeats to the letter.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import attrs

from scale0 import frames as wire
from scale0 import options as opt
from scale0.config import NO_POLICY, BrokerConfig, ServicePolicy
from scale0.failures import Failures
from scale0.frames import Dialect
from scale0.lru import Address
from scale0.publication import Publication
from scale0.timers import Timers

FRONTEND, BACKEND, PEER = "frontend", "backend", "peer"  # names of our sockets; links to fellows have their endpoints
LIVENESS = 3  # intervals of silence that end a session

Options = dict[str, Any]


@attrs.frozen
class Send:
    """Put a message on the wire. With a token it hands a request to a worker: then `undelivered` must be told."""

    address: Address
    frames: Sequence[bytes]
    token: bytes = b""


@attrs.frozen
class Probe:
    """Is the holder of an identity still there? Send it this and tell `probed` of the outcome."""

    address: Address
    frames: Sequence[bytes]
    claim: int


@attrs.frozen
class Verify:
    """Check a password against its scrypt record, in a thread; tell `verified`."""

    ticket: int
    stored: str
    password: str = attrs.field(repr=False)


@attrs.frozen
class Reload:
    """Read the configuration file again, in a thread; tell `reloaded`."""

    ticket: int


@attrs.frozen
class Store:
    """Make the state durable; tell `stored`, unless the ticket is 0."""

    ticket: int


@attrs.frozen
class Publish:
    """The configuration in force has changed: tell those who listen on config_pub_port."""


@attrs.frozen
class Announce:
    """A document is news: keep it, and tell those who listen on config_pub_port."""

    publication: Publication


@attrs.frozen
class Entered:
    """The broker has entered a state."""

    state: str


@attrs.frozen
class Log:
    level: str  # of twisted.logger: info, warn, error
    text: str


Effect = Send | Probe | Verify | Reload | Store | Publish | Announce | Entered | Log


@attrs.define(eq=False)
class Ends:
    """Where a broker can be reached, as bound."""

    frontend: str = ""
    backend: str = ""
    peer: str = ""
    public_key: str = ""


class Context:
    def __init__(self, config: BrokerConfig, version: int, rng: random.Random, token: Callable[[], bytes]) -> None:
        self.use(config, version)
        self.state = "joining"
        self.ends = Ends()
        self.rng, self.token = rng, token
        self.now = self.wall = 0.0
        self.effects: list[Effect] = []
        self.timers = Timers()
        self.failures = Failures()
        self.counts: Counter[str] = Counter()

    def use(self, config: BrokerConfig, version: int) -> None:
        """A configuration comes into force; what each request asks of it is looked up in no list."""
        self.config, self.version = config, version
        self._policies = {policy.name: policy for policy in config.service_config}
        self._served = frozenset(config.services)
        self._serves_all = "all" in self._served

    def policy(self, service: str) -> ServicePolicy:
        return self._policies.get(service, NO_POLICY)

    def serves(self, service: str) -> bool:
        return self._serves_all or service in self._served

    def later(self, key: tuple[Any, ...], seconds: float) -> None:
        self.timers.set(key, self.now + seconds)

    def log(self, level: str, text: str) -> None:
        self.effects.append(Log(level, text))

    def send(self, address: Address, frames: Sequence[bytes], token: bytes = b"") -> None:
        self.effects.append(Send(address, frames, token))

    def tell(
        self, address: Address, dialect: Dialect, command: str, options: Options, body: Sequence[bytes] = ()
    ) -> None:
        """A Scale0 message in the form that the other side speaks."""
        self.send(address, wire.scale0(dialect, command, opt.encode(options), body))

    @property
    def version_text(self) -> str:
        return str(self.version)

    @property
    def one_port(self) -> bool:
        """MDP allows clients and workers on one socket; then it is called frontend."""
        port = self.config.frontend_port
        return port != 0 and port == self.config.backend_port
