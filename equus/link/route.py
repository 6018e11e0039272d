"""Decide which server to dial next, in which protocol version, and after how long. Pure: no clock, no socket.

Theory of operation. Servers are tried in order, the next one after each failure, and the first again after a connection
that lasted. The wait between two attempts is exponential with *full* jitter (uniform between nothing and the cap of the
moment), so that ten thousand agents that lost the same Helen don't come back together. The cap grows only once all
servers have failed, so that the loss of one Helen after another keeps no agent from those that run. The seconds of
Helen's `retry-after=N` are a minimum: the backoff is added to them.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

from equus.settings import Server

BASE = 1.0  # seconds: the first wait is uniform in 0..1
CAP = 300.0  # seconds: five minutes, docs/protocol.rst section 3
LIVED = 60.0  # seconds after which a connection counts as good, and backoff begins anew
LIVED_WITH_CHOICE = 10.0  # seconds, the same with another server to go to: longer than a crash at start takes
# A longer one is cut to an hour: a Helen that was taken over must not send the agents away from their operators.
MAX_RETRY_AFTER = 3_600  # seconds
AVOIDED = 3_600.0  # seconds for which a Helen that keeps news back is passed over, if there is another
VERSION_MEMORY = 3_600.0  # seconds for which a Helen that refused `hello 2` is greeted with `hello 1` at once

_RETRY_AFTER = re.compile(r";\s*retry-after=(0|[1-9][0-9]{0,8})(?:;|$)")
_UNSUPPORTED = "unsupported-protocol-version"


def retry_after(error: str) -> int:
    """Return the minimum delay in seconds that the text of an `error` asks for, or 0."""
    match = _RETRY_AFTER.search(error)
    return min(int(match[1]), MAX_RETRY_AFTER) if match else 0


class Route:
    """Holds the servers, the attempts so far, and the server and delay of the next one.

    `configured` are the servers of the agent's settings, `learnt` those that a Helen has named. They are tried after
    all configured ones.
    """

    def __init__(
        self, configured: Sequence[Server], learnt: Sequence[Server] = (), rng: random.Random | None = None
    ) -> None:
        self._configured = tuple(configured)
        self._learnt = tuple(learnt)
        self._random = rng or random.SystemRandom()
        self._index = 0
        self._version_1_until: dict[str, float] = {}  # by address, by the caller's clock
        self._avoided_until: dict[str, float] = {}  # the same
        self.failures = 0
        self.delay = 0.0  # seconds before the next attempt

    @property
    def servers(self) -> tuple[Server, ...]:
        """Return all servers, in the order in which they are tried."""
        return self._configured + self._learnt

    def has_choice(self) -> bool:
        """Return True if there is more than one server."""
        return len(self.servers) > 1

    @property
    def server(self) -> Server:
        """Return the server to dial next."""
        return self.servers[self._index % len(self.servers)]

    def learn(self, servers: Sequence[Server]) -> None:
        """Replace the learnt servers by a list of Helen's, less those that are configured."""
        configured = {server.address for server in self._configured}
        self._learnt = tuple(server for server in servers if server.address not in configured)

    def avoid(self, address: str, now: float) -> None:
        """Pass over a Helen for an hour, as long as there is another one; `now` is monotonic seconds."""
        self._avoided_until = {each: until for each, until in self._avoided_until.items() if until > now}
        self._avoided_until[address] = now + AVOIDED

    def _pass_over(self, now: float) -> None:
        for _ in self.servers:
            if self._avoided_until.get(self.server.address, now) <= now:
                return
            self._index = (self._index + 1) % len(self.servers)

    def version(self, now: float) -> int:
        """Return the protocol version in which to greet `server`; `now` is monotonic seconds."""
        return 1 if self._version_1_until.get(self.server.address, now) > now else 2

    def ended(
        self, now: float, lived: float = 0.0, error: str = "", at_once: bool = False, served: bool = False
    ) -> None:
        """Take note that an attempt has failed or a connection has ended, and choose the next server and delay.

        `now` is monotonic seconds, `lived` the seconds that the connection lasted, `error` the text of Helen's `error`.
        `served`: Helen has acknowledged reports on it. If it then asks for a delay (a quota, for one), that is all the
        wait there is. Otherwise a spool that comes back in parts would be minutes late with each, and its agent would
        seem away.
        `at_once` is for ends that the agent itself wanted, such as coming back with a new certificate.
        """
        if at_once:
            self.failures, self.delay = 0, 0.0
        elif error.partition(";")[0] == _UNSUPPORTED:
            self._refused(now)
        else:
            least = retry_after(error)
            self._failed(LIVED if served and least else lived, least)
        self._pass_over(now)

    def _refused(self, now: float) -> None:
        """Try `hello 1` at once after `hello 2` was refused, but only as the first failure: else storms begin so."""
        address, version = self.server.address, self.version(now)
        if version == 2:
            self._version_1_until[address] = now + VERSION_MEMORY
            if self.failures == 0:
                self.delay = 0.0
                return
        else:
            del self._version_1_until[address]
        self._failed(0.0, 0)

    def _failed(self, lived: float, least: float) -> None:
        if lived >= LIVED:
            self.failures, self._index = 0, 0
        else:
            self._index = (self._index + 1) % len(self.servers)
        if lived >= LIVED_WITH_CHOICE and self.has_choice():
            self.failures = 0  # one Helen has gone, and the next one has not been tried yet
        # 2**9 is beyond the cap already; the bound keeps the power from growing for ever.
        ceiling = min(CAP, BASE * 2.0 ** min(self.failures // len(self.servers), 9))
        self.failures += 1
        self.delay = least + self._random.uniform(0.0, ceiling)
