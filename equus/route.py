"""Where to dial next, in which protocol version, and after how long. Pure: no clock, no socket.

Theory of operation. Servers are tried in order, the next one after each failure, and the first again after a connection
that lived. The wait between two attempts is exponential with *full* jitter (uniform between nothing and the cap of the
moment), so that ten thousand agents that lost the same Helen don't come back together. The cap grows once all servers
have failed, so that the loss of one Helen after another keeps nobody from those who live. What Helen asks for with
`retry-after=N` is a least: the backoff is added to it.
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
MAX_RETRY_AFTER = 86_400  # seconds; what goes beyond is taken for this: a day's silence must be a person's decision
VERSION_MEMORY = 3_600.0  # seconds for which a Helen that refused `hello 2` is greeted with `hello 1` at once

_RETRY_AFTER = re.compile(r";\s*retry-after=(0|[1-9][0-9]{0,8})(?:;|$)")
_UNSUPPORTED = "unsupported-protocol-version"


def retry_after(error: str) -> int:
    """The least delay that an `error` message carries, or 0."""
    match = _RETRY_AFTER.search(error)
    return min(int(match[1]), MAX_RETRY_AFTER) if match else 0


class Route:
    """The attempts so far, and what follows from them.

    `told` are the servers that the agent was given, `learnt` those that a Helen has named; they come after all of ours.
    """

    def __init__(self, told: Sequence[Server], learnt: Sequence[Server] = (), rng: random.Random | None = None) -> None:
        self._told = tuple(told)
        self._learnt = tuple(learnt)
        self._random = rng or random.SystemRandom()
        self._index = 0
        self._old_ones: dict[str, float] = {}  # address -> until when it is greeted in version 1
        self.failures = 0
        self.delay = 0.0  # before the next attempt

    @property
    def servers(self) -> tuple[Server, ...]:
        return self._told + self._learnt

    def has_choice(self) -> bool:
        """Whether there is another server to go to."""
        return len(self.servers) > 1

    @property
    def server(self) -> Server:
        """The one to dial next."""
        return self.servers[self._index % len(self.servers)]

    def learn(self, servers: Sequence[Server]) -> None:
        """What Helen says of others; ours stay in front, and none is there twice."""
        ours = {server.address for server in self._told}
        self._learnt = tuple(server for server in servers if server.address not in ours)

    def version(self, now: float) -> int:
        """How to greet `server`."""
        return 1 if self._old_ones.get(self.server.address, now) > now else 2

    def ended(self, now: float, lived: float = 0.0, error: str = "", at_once: bool = False) -> None:
        """An attempt is over: it failed, or the connection lived so long, perhaps ended by Helen's `error`.

        `at_once` is for the agent's own wishes, such as coming back with a new certificate.
        """
        if at_once:
            self.failures, self.delay = 0, 0.0
        elif error.partition(";")[0] == _UNSUPPORTED:
            self._refused(now)
        else:
            self._failed(lived, retry_after(error))

    def _refused(self, now: float) -> None:
        """`hello 2` refused: try `hello 1` at once, but only as the first thing that goes wrong; storms begin so."""
        address, version = self.server.address, self.version(now)
        if version == 2:
            self._old_ones[address] = now + VERSION_MEMORY
            if self.failures == 0:
                self.delay = 0.0
                return
        else:
            del self._old_ones[address]
        self._failed(0.0, 0)

    def _failed(self, lived: float, least: float) -> None:
        if lived >= LIVED:
            self.failures, self._index = 0, 0
        else:
            self._index = (self._index + 1) % len(self.servers)
        if lived >= LIVED_WITH_CHOICE and self.has_choice():
            self.failures = 0  # one Helen has gone, and the next one has done nothing yet
        # 2**9 is beyond the cap already; the bound keeps the power from growing for ever.
        ceiling = min(CAP, BASE * 2.0 ** min(self.failures // len(self.servers), 9))
        self.failures += 1
        self.delay = least + self._random.uniform(0.0, ceiling)
