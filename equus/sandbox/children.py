"""The zygote and the broker as the Runner sees them: ready or not, told things, started again when they die.

Which runs that costs is the Runner's to say; here is only what the two processes themselves are.
"""

from __future__ import annotations

import json
import logging
from typing import Any, Literal, Protocol

from equus.sandbox import frames
from equus.sandbox.links import ControlLink, close_all
from equus.sandbox.processes import Processes
from equus.sandbox.watch import Watch

Which = Literal["zygote", "broker"]

# The wait before the n-th start of a process that keeps dying; a first death is answered at once.
RESTART_DELAYS = (0.0, 0.1, 0.3, 1.0)
# So many deaths in a row, each before both were ready: jobs are answered instead of kept waiting.
HOPELESS = 4

_log = logging.getLogger("equus.sandbox")


class Audience(Protocol):
    """Who is told what the two say, and whose runs depend on them."""

    @property
    def running(self) -> int: ...
    def on_ready(self) -> None: ...
    def on_lost(self, which: Which) -> None: ...
    def on_started(self, number: int, descriptors: list[int]) -> None: ...
    def on_not_started(self, number: int, errno: int) -> None: ...
    def on_ended(self, number: int, status: int, cpu_ms: int, peak_kib: int) -> None: ...


class Children:
    """Both processes, watched."""

    def __init__(self, reactor: Any, processes: Processes, audience: Audience) -> None:
        self._reactor = reactor
        self._processes = processes
        self._audience = audience
        self._stopped = False
        self._calls: dict[str, str] | None = None  # of a broker that is ready
        self.filtered: bool | None = None  # of a zygote that is ready: whether the seccomp filter works
        self._deaths: dict[Which, int] = {"zygote": 0, "broker": 0}
        # A zygote that is stopped shows by itself: no worker starts. A broker lets each of its runs time out.
        self._watch = Watch(
            reactor, lambda: self._broker.send(b'{"ping": true}'), lambda: audience.running > 0, self._on_silent_broker
        )
        self._zygote = self._link_zygote()
        self._broker = self._link_broker()

    @property
    def ready(self) -> bool:
        return self.filtered is not None and self._calls is not None

    @property
    def hopeless(self) -> bool:
        """Whether one of them keeps dying before it is ready."""
        return max(self._deaths.values()) >= HOPELESS

    def launch(self, number: int, memory: int, cpu: int, job: int, calls: int) -> bool:
        """Ask for a worker with these two ends. False when the zygote can't be asked."""
        message = frames.LAUNCH.pack(frames.LAUNCH_KIND, number, memory, cpu)
        return self._zygote.send(message, job, calls)

    def attach(self, check: str, state: str | None, deadline: float, calls: int, secrets: tuple[str, ...] = ()) -> None:
        """Let the broker answer the calls that come over this end. A broker that can't be told ends the run itself.

        `state` is whose host.state it is; None: nobody's, for this run alone.
        """
        document: dict[str, Any] = {"check": check, "state": state, "deadline": deadline, "secrets": secrets}
        self._broker.send(json.dumps(document).encode(), calls)
        self._watch.begin()

    def reload_policy(self) -> None:
        self._broker.send(b'{"reload": true}')

    def stop(self) -> None:
        """No more is heard of either, and both end."""
        self._stopped = True
        self._watch.stop()
        self._zygote.close()
        self._broker.close()
        self._processes.close()

    # -------------------------------------------------------------------------------------------- what they say

    def _link_zygote(self) -> ControlLink:
        channel = self._processes.zygote.control
        return ControlLink(self._reactor, channel, self._from_zygote, lambda: self.lost("zygote"))

    def _link_broker(self) -> ControlLink:
        channel = self._processes.broker.control
        return ControlLink(self._reactor, channel, self._from_broker, lambda: self.lost("broker"))

    def _from_zygote(self, message: bytes, descriptors: list[int]) -> None:
        kind = message[0]
        if kind == frames.READY_KIND:
            self.filtered = frames.READY.unpack(message)[1]
            self._introduce()
        elif kind == frames.STARTED_KIND:
            self._audience.on_started(frames.STARTED.unpack(message)[1], descriptors)
        elif kind == frames.ENDED_KIND:
            self._audience.on_ended(*frames.ENDED.unpack(message)[1:])
        elif kind == frames.NOT_STARTED_KIND:
            _kind, number, errno = frames.STARTED.unpack(message)
            self._audience.on_not_started(number, errno)

    def _from_broker(self, message: bytes, descriptors: list[int]) -> None:
        close_all(descriptors)
        document = json.loads(message)
        if "pong" in document:
            self._watch.answered()
            return
        if "fault" in document:
            _log.error("the broker keeps its old policy: %s", document["fault"])
            return
        self._calls = document["calls"]
        self._introduce()

    def _introduce(self) -> None:
        """Workers know the names of calls from the zygote, and it from the broker."""
        if not self.ready:
            return
        self._deaths = {"zygote": 0, "broker": 0}
        self._zygote.send(bytes([frames.CALLS_KIND]) + json.dumps(self._calls).encode())
        self._audience.on_ready()

    # -------------------------------------------------------------------------------------------- deaths

    def _on_silent_broker(self) -> None:
        _log.error("the broker has stopped answering; it is replaced")
        self.lost("broker")

    def lost(self, which: Which) -> None:
        """One of the two has ended, or must be taken for dead. A new one starts."""
        if self._stopped:
            return
        if which == "zygote":
            self.filtered = None
            self._zygote.close()
        else:
            self._calls = None
            self._watch.stop()
            self._broker.close()
        deaths = self._deaths[which]
        self._deaths[which] = deaths + 1
        _log.error("the %s has ended; it is started again", which)
        self._reactor.callLater(RESTART_DELAYS[min(deaths, len(RESTART_DELAYS) - 1)], self._restart, which)
        self._audience.on_lost(which)

    def _restart(self, which: Which) -> None:
        if self._stopped:
            return
        if which == "zygote":
            self._processes.restart_zygote()
            self._zygote = self._link_zygote()
        else:
            self._processes.restart_broker()
            self._broker = self._link_broker()
