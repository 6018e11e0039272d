"""Keep the zygote and the broker running for the Runner: send them messages, restart them when they end.

The Runner decides what an end means for its runs; this module knows the two processes only.
"""

from __future__ import annotations

import json
import logging
from typing import Any, Literal, Protocol

from equus.sandbox import frames
from equus.sandbox.heartbeat import Heartbeat
from equus.sandbox.links import ControlLink, close_all
from equus.sandbox.processes import Processes

Which = Literal["zygote", "broker"]

# Seconds before the n-th restart of a process that keeps failing; the first restart is immediate.
RESTART_DELAYS = (0.0, 0.1, 0.3, 1.0)
# After so many failures in a row, each before both processes were ready, jobs get a result instead of waiting on.
MOST_FAILED_STARTS = 4

_log = logging.getLogger("equus.sandbox")


class ProcessListener(Protocol):
    """Receives the events of both processes. The Runner is one."""

    @property
    def running(self) -> int: ...
    def on_ready(self) -> None: ...
    def on_lost(self, which: Which) -> None: ...
    def on_started(self, number: int, descriptors: list[int]) -> None: ...
    def on_not_started(self, number: int, errno: int) -> None: ...
    def on_ended(self, number: int, status: int, cpu_ms: int, peak_kib: int) -> None: ...


class Children:
    """Supervises the zygote and the broker, and passes their messages on to the listener."""

    def __init__(self, reactor: Any, processes: Processes, listener: ProcessListener) -> None:
        self._reactor = reactor
        self._processes = processes
        self._listener = listener
        self._stopped = False
        self._calls: dict[str, str] | None = None  # known once the broker is ready
        self.filtered: bool | None = None  # known once the zygote is ready: the seccomp filter works
        self._failed_starts: dict[Which, int] = {"zygote": 0, "broker": 0}
        # A stopped zygote is noticed without pings: no worker starts. A stopped broker would let each run time out.
        self._heartbeat = Heartbeat(
            reactor, lambda: self._broker.send(b'{"ping": true}'), lambda: listener.running > 0, self._broker_is_silent
        )
        self._zygote = self._link_zygote()
        self._broker = self._link_broker()

    @property
    def ready(self) -> bool:
        return self.filtered is not None and self._calls is not None

    @property
    def failing(self) -> bool:
        """Return True while one of them keeps ending before it is ready."""
        return max(self._failed_starts.values()) >= MOST_FAILED_STARTS

    def launch(self, number: int, memory: int, cpu: int, job: int, calls: int) -> bool:
        """Ask the zygote for a worker with these two descriptors. Return False if the zygote can't be reached."""
        message = frames.LAUNCH.pack(frames.LAUNCH_KIND, number, memory, cpu)
        return self._zygote.send(message, job, calls)

    def attach(
        self,
        check: str,
        state: str | None,
        deadline: float,
        calls: int,
        secrets: tuple[str, ...] = (),
        bound: tuple[tuple[str, ...], ...] = (),
    ) -> None:
        """Hand the broker the socket of one run's calls. If that fails, the closed socket ends the run.

        deadline: monotonic seconds. state: the key of its host.state; None: an empty one for this run alone.
        secrets, bound: those of Job.
        """
        document: dict[str, Any] = {"check": check, "state": state, "deadline": deadline, "secrets": secrets}
        document["bound"] = bound
        self._broker.send(json.dumps(document).encode(), calls)
        self._heartbeat.begin()

    def reload_policy(self) -> None:
        """Tell the broker to read its policy file again."""
        self._broker.send(b'{"reload": true}')

    def stop(self) -> None:
        """End both processes and pass on nothing more."""
        self._stopped = True
        self._heartbeat.stop()
        self._zygote.close()
        self._broker.close()
        self._processes.close()

    # -------------------------------------------------------------------------------------------- messages

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
            self._send_calls_if_ready()
        elif kind == frames.STARTED_KIND:
            self._listener.on_started(frames.STARTED.unpack(message)[1], descriptors)
        elif kind == frames.ENDED_KIND:
            self._listener.on_ended(*frames.ENDED.unpack(message)[1:])
        elif kind == frames.NOT_STARTED_KIND:
            _kind, number, errno = frames.STARTED.unpack(message)
            self._listener.on_not_started(number, errno)

    def _from_broker(self, message: bytes, descriptors: list[int]) -> None:
        close_all(descriptors)
        document = json.loads(message)
        if "pong" in document:
            self._heartbeat.answered()
            return
        if "fault" in document:
            _log.error("the broker keeps its old policy: %s", document["fault"])
            return
        self._calls = document["calls"]
        self._send_calls_if_ready()

    def _send_calls_if_ready(self) -> None:
        """Give the broker's list of calls to the zygote, for its workers, and report that both are ready."""
        if not self.ready:
            return
        self._failed_starts = {"zygote": 0, "broker": 0}
        self._zygote.send(bytes([frames.CALLS_KIND]) + json.dumps(self._calls).encode())
        self._listener.on_ready()

    # -------------------------------------------------------------------------------------------- restarts

    def _broker_is_silent(self) -> None:
        _log.error("the broker has stopped answering; it is replaced")
        self.lost("broker")

    def lost(self, which: Which) -> None:
        """Restart one of the two, which has ended or no longer answers."""
        if self._stopped:
            return
        if which == "zygote":
            self.filtered = None
            self._zygote.close()
        else:
            self._calls = None
            self._heartbeat.stop()
            self._broker.close()
        failures = self._failed_starts[which]
        self._failed_starts[which] = failures + 1
        _log.error("the %s has ended; it is started again", which)
        self._reactor.callLater(RESTART_DELAYS[min(failures, len(RESTART_DELAYS) - 1)], self._restart, which)
        self._listener.on_lost(which)

    def _restart(self, which: Which) -> None:
        if self._stopped:
            return
        if which == "zygote":
            self._processes.restart_zygote()
            self._zygote = self._link_zygote()
        else:
            self._processes.restart_broker()
            self._broker = self._link_broker()
