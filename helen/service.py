"""Starts, reloads and stops one Helen. wiring.py makes its parts."""

from __future__ import annotations

import contextlib
import functools
import importlib
import json
import os
import signal
import socket
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import attrs
from twisted.application.service import Service
from twisted.internet.defer import Deferred, gatherResults
from twisted.internet.error import CannotListenError, ReactorNotRunning
from twisted.internet.threads import deferToThread
from twisted.logger import Logger

from groundwork.atomic_write import write_durably
from helen import agents_port, interpreter, ports, systemd, wiring
from helen.departed_agents import EphemeralAgents
from helen.evaluation.clock_trust import ClockTrust
from helen.exit_in_time import ExitInTime
from helen.files.state_dir import StateError, why_unopened, why_unwritable
from helen.jobs.pipeline_status import LOOK_SECONDS
from helen.journal.values import JournalError
from helen.journal_troubles import JournalTroubles
from helen.notify.missed import StoredDecision, missed
from helen.parts import Parts
from helen.ports import is_loopback
from helen.reactor_watch import ReactorWatch
from helen.regular_calls import RegularCalls
from helen.sessions.listener import TICK_SECONDS
from helen.settings.settings import Settings, SettingsError
from helen.settings_reload import SettingsReload
from helen.storage.database import StoreFailed
from helen.tunnels.open_shells import SHELL
from helen.web.connections.web_tls import WebListener, WebTLS
from helen.web.label_warnings import all_warnings
from helen.web.pages.registry import PAGES
from helen.web.site import Web

RETRY_AFTER = 1  # seconds that agents are told to stay away while Helen restarts
REFRESH_SECONDS = 3_600.0  # between looks at certificates and manifests that age
SWEEP_SECONDS = 10.0  # between two looks for tokens of the HTTP API that have expired
TRUST_SECONDS = 30.0  # between two looks at agents' clocks while this machine's is in doubt
STORE_SECONDS = 1.0  # of the time to end, for what waits for the store; it tells the present, and is told again


class StartRefused(Exception):
    """Tells the parent of a daemon why it did not start: there is no terminal to print a sentence on."""


class StartOvertaken(Exception):
    """Ends a start that the end of Helen has overtaken: all parts are stopped by then, and none may begin."""


class HelenService(Service):
    """Runs one Helen, from opening its state directory to letting go of it."""

    log = Logger()
    name = "helen"

    def __init__(self, reactor: Any, chosen: Settings, read_settings: Callable[[], Settings]) -> None:
        self._chosen = chosen
        self._reactor = reactor
        self._read_settings = read_settings
        self._made_by = os.getpid()
        self._ports: list[Any] = []
        self._calls = RegularCalls(reactor, self._failed)
        self._web_tls: WebTLS | None = None
        self._troubles = JournalTroubles(self.end)
        self._is_ending = False
        self._exit = ExitInTime()

    # ---------------------------------------------------------------------------------------------- starting

    def startService(self) -> None:
        """Open everything that can refuse to open; a refusal is one sentence and exit status 1.

        Raises StartRefused in a daemon, whose parent shows it, and SystemExit elsewhere.
        """
        super().startService()
        try:
            self._opened = wiring.wire(self._reactor, self._chosen, self._troubles.take, self._report_failure)
            self._live, self._watch, self._linter = self._opened.parts.live, self._opened.watch, self._opened.linter
            self._troubles.live = self._live
            self._bind()
        except (StateError, JournalError, CannotListenError, OSError) as error:
            sentence = why_unwritable(self._chosen.state, error) or why_unopened(error) or ports.sentence_of(error)
            self._refuse_to_start(sentence, error)
        self._reactor.callWhenRunning(self._run)

    def _refuse_to_start(self, sentence: str, error: Exception) -> None:
        if os.getpid() != self._made_by:  # a daemon: its parent waits for this, and the log has it all
            self.log.critical("helen: {sentence}", sentence=sentence)
            raise StartRefused(sentence) from error
        # Not sys.stderr: by now that is a log, which would put the time and its own name in front.
        print(f"helen: {sentence}", file=sys.__stderr__, flush=True)
        raise SystemExit(1) from error

    def _bind(self) -> None:
        """Take the ports now, so that a taken one is told at once; agents are accepted when `_begin` has finished."""
        given = systemd.sockets(systemd.first_environment())
        parts, chosen = self._opened.parts, self._chosen
        self._listen_for_agents(given.get("agents"))
        if chosen.network.is_wanted:  # an extra: an installation that doesn't use it need not have what it imports
            self._network = importlib.import_module("helen.cluster.helen_network").HelenNetwork(parts)
        else:
            self._network = None
        self.parts: Parts = attrs.evolve(parts, network=self._network)
        stored = self._opened.stored
        self._web = Web(self.parts, stored.web_tokens, stored.web_sessions, PAGES)
        self._web.start()
        if chosen.web is not None or "web" in given:
            host, port = chosen.web or ("127.0.0.1", 0)
            site: Any = self._web.tcp_site()
            if chosen.web_tls is not None:
                self._web_tls = WebTLS(chosen.web_tls)
                site = WebListener(self._web_tls, site)
            bound = ports.listen(self._reactor, given.get("web"), site, (host, port))
            self._ports.append(bound)
            self._live.web = ports.address_of(host, bound.getHost())
        (parts.state / "control.sock").unlink(missing_ok=True)  # of a crash: the lock on the state directory is ours
        self._folder = ports.open_folder(parts.state)
        control = ports.listen_beside(self._reactor, self._folder, "control.sock", self._web.control_site())
        self._ports.append(control)
        parts.drain.open()
        if self._network is not None:
            self._network.open()

    def _listen_for_agents(self, given: int | None) -> None:
        opened, chosen = self._opened, self._chosen
        self._agents = agents_port.listen_for_agents(
            self._reactor, chosen, opened.parts.sessions, opened.server_tls, given
        )
        self._ports.append(self._agents)
        self._live.address = ports.address_of(chosen.listen[0], self._agents.getHost())

    def _run(self) -> None:
        signal.signal(signal.SIGTERM, self._terminate)  # twistd's own would end with the signal, not with status 0
        signal.signal(signal.SIGHUP, self._hang_up)
        opened = self._opened
        del self._opened  # what a start goes on from is as much as a segment
        begun = Deferred.fromCoroutine(self._begin(opened))
        begun.addErrback(lambda failure: failure.trap(StartOvertaken)).addErrback(self._failed)

    async def _begin(self, opened: wiring.Opened) -> None:
        parts, step = self.parts, self._step
        self._reactor_watch = ReactorWatch(parts, self._reactor)
        parts.clock.jumped.subscribe(self._reactor_watch.jumped)
        parts.clock.begin(opened.start.doubt, may_confirm=not opened.start.stepped)
        start = {"version": parts.version, "states": self._chosen.quotas["states"].most}
        parts.evaluator.began(opened.start.stepped, start)  # before all else that this Helen writes down
        await self._start_parts(opened)
        del opened
        for sentence in await step(all_warnings(parts)):
            self.log.warn("{sentence}", sentence=sentence)
        self._start_loops()
        if self._network is not None:
            await step(self._network.start())
        parts.drain.start()
        interpreter.set_up()
        await step(deferToThread(self._write_run_file))
        self._serve()
        await self._looked

    async def _start_parts(self, opened: wiring.Opened) -> None:
        """Start the parts in the order in which they need each other."""
        parts, step = self.parts, self._step
        await step(parts.authority.refresh(time.time()))
        await step(parts.library.load_contents())
        await step(parts.passive.start(opened.stored.kv, opened.recovered))
        await step(parts.targets.start(opened.stored.kv))
        await step(parts.forwarding.start(opened.stored.kv))
        await step(parts.pipeline.look())
        await step(self._watch.start())  # before the first look: a file saved between the two would wait for the next
        self._looked = parts.library.look()  # it asks a process, which reads while we go on
        await step(parts.assignments.start_from(opened.stored.assignments))
        parts.passive.begin()
        parts.targets.begin()
        parts.meshes.begin()
        parts.forwarding.begin()
        parts.rollout_control.start()
        told = functools.partial(_missed, parts.state / "history", opened.recovered)
        await step(parts.notifier.start(opened.judged_at, told, opened.start.stepped))
        parts.sessions.shells.recall(parts.notifier.groups.agents_of(SHELL))

    async def _step(self, step: Awaitable[Any]) -> Any:
        """Return the result of a step of the start. Raises StartOvertaken if the end has begun meanwhile."""
        result = await step
        if self._is_ending:
            raise StartOvertaken
        return result

    def _start_loops(self) -> None:
        parts, every = self.parts, self._calls.every
        self._reactor_watch.begin(every)
        every(TICK_SECONDS, parts.sessions.sweep)
        every(TICK_SECONDS, parts.evaluator.tick)
        ephemeral = EphemeralAgents(parts, None if self._network is None else self._network.has_agent)
        ephemeral.start()
        every(TICK_SECONDS, ephemeral.look)
        every(TICK_SECONDS, parts.targets.tick)
        every(TICK_SECONDS, parts.meshes.tick)
        trust = ClockTrust(parts.clock, lambda: parts.evaluator.timeline.newest)
        every(TRUST_SECONDS, trust.look)
        every(SWEEP_SECONDS, lambda: self._web.sweep(self.parts.clock.settled()))
        if self._web_tls is not None:
            every(SWEEP_SECONDS, self._look_at_web_tls)
        every(TICK_SECONDS, parts.rollout_control.tick)
        every(REFRESH_SECONDS, self._refresh)
        every(LOOK_SECONDS, parts.pipeline.look)
        watchdog = systemd.watchdog_seconds()
        if watchdog is not None:
            every(watchdog, functools.partial(systemd.notify, "WATCHDOG=1"))

    def _serve(self) -> None:
        self._agents.startReading()
        self._live.is_serving = True
        print(f"Helen listens on {self._live.address}", flush=True)
        if self._live.web is not None:
            self._tell_web(self._live.web)
        systemd.notify("READY=1", f"STATUS=listening on {self._live.address}")

    def _tell_web(self, address: str) -> None:
        """Log where the HTTP API is, and that others can read along, unless the operator has said so."""
        chosen = self._live.settings
        scheme = "http" if chosen.web_tls is None else "https"
        self.log.info("the HTTP API is on {scheme}://{address}", scheme=scheme, address=address)
        if chosen.web_tls is None and not chosen.web_plain and not is_loopback(address):
            self.log.warn(
                "--web {address} speaks plain HTTP to other machines: anyone between reads tokens, and browsers of"
                " other machines can't log in. Give --web-tls CERT,KEY, or say --web-plain if you mean it",
                address=address,
            )  # fmt: skip

    def _write_run_file(self) -> None:
        names = self._live.settings.names
        run = {
            "pid": os.getpid(),
            "agents": self._live.address,
            "web": self._live.web,
            "version": self.parts.version,
            "name": names[0] if names else socket.gethostname(),
            "checks": str(self.parts.library.folder),
        }
        write_durably(self.parts.state / "run.json", json.dumps(run).encode() + b"\n", 0o644)

    # ---------------------------------------------------------------------------------------------- running

    def _refresh(self) -> Deferred[Any]:
        renewed = self.parts.authority.refresh(time.time()).addErrback(self._report_failure)
        return gatherResults([renewed, self.parts.library.look()])

    def _look_at_web_tls(self) -> Deferred[None]:
        assert self._web_tls is not None
        return Deferred.fromCoroutine(self._web_tls.look()).addErrback(self._report_failure)

    def reload(self) -> None:
        """Read settings, certificates, assignments and checks again, as SIGHUP asks for; no connection is dropped."""
        systemd.notify("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1_000}")
        self.log.info("SIGHUP: reading settings, certificates, assignments and checks again")
        read = deferToThread(self._read_settings).addCallback(SettingsReload(self._live, self.parts).take)
        read.addErrback(self._report_failure)
        read.addCallback(lambda _: self._refresh())  # of a certificate for the names of now
        parts = self.parts
        others = (parts.notifier, parts.passive, parts.targets, parts.forwarding)
        files = (parts.assignments, *(each.config_file for each in others))
        if self._web_tls is not None:
            self._look_at_web_tls()
        done = gatherResults([read, *(file.reread("SIGHUP") for file in files)])
        done.addErrback(self._report_failure)
        done.addCallback(lambda _: systemd.notify("READY=1"))

    def _report_failure(self, failure: Any) -> None:
        unwritable = why_unwritable(self._chosen.state, failure.value)
        if unwritable is not None or failure.check(SettingsError, StateError, StoreFailed):  # a sentence says all
            self.log.error("{sentence}", sentence=unwritable or failure.getErrorMessage())
        else:
            self.log.failure("a task in the background", failure)

    def _failed(self, failure: Any) -> None:
        self._report_failure(failure)
        self.log.critical("Helen can't go on")
        self.end(1)

    # ---------------------------------------------------------------------------------------------- ending

    def _terminate(self, *_: Any) -> None:
        self._reactor.callFromThread(self.end, 0)

    def _hang_up(self, *_: Any) -> None:
        self._reactor.callFromThread(self.reload)

    def end(self, status: int) -> None:
        """Stop the reactor, and leave with this exit status; the first one that is not 0 counts."""
        self._exit.status = self._exit.status or status
        self._begin_to_end()
        with contextlib.suppress(ReactorNotRunning):
            self._reactor.stop()

    def _begin_to_end(self) -> None:
        if not self._is_ending:
            self._is_ending = self._live.is_ending = True
            self._exit.begin()

    def stopService(self) -> Deferred[None]:
        """Tell agents, write what waits, let go: within 5 s."""
        super().stopService()
        self._begin_to_end()
        systemd.notify("STOPPING=1")
        return Deferred.fromCoroutine(self._stop())

    async def _stop(self) -> None:
        parts, network = self.parts, self._network
        self._calls.stop()
        for part in (self._watch, parts.drain, parts.assignments, parts.passive):
            part.stop()
        left = None if network is None else Deferred.fromCoroutine(network.leave())
        for port in self._ports:
            await _done(port.stopListening())
        self._web.stop()
        parts.sessions.say_goodbye(RETRY_AFTER)
        await parts.sessions.all_gone()
        if left is not None:
            await left.addErrback(self._report_failure)
            await Deferred.fromCoroutine(network.close()).addErrback(self._report_failure)
        self._linter.stop()
        parts.evaluator.stop()
        for stop in (parts.forwarding.stop, parts.notifier.stop):
            put_away = stop().addTimeout(STORE_SECONDS, self._reactor)
            await put_away.addErrback(self._report_failure)
        parts.journal.change("helen_stop", {"version": parts.version})
        await deferToThread(parts.journal.close)
        await parts.evaluator.save()
        closed = parts.store.close().addTimeout(STORE_SECONDS, self._reactor)
        await closed.addErrback(self._report_failure)
        for name in ("run.json", "control.sock"):
            with contextlib.suppress(OSError):  # of a disk that can't be written: the next start replaces both
                (parts.state / name).unlink(missing_ok=True)
        os.close(self._folder)


def _missed(history: Path, recovered: Sequence[Any], cursor: int) -> Deferred[list[StoredDecision]]:
    return deferToThread(missed, history, recovered, cursor)


async def _done(result: Any) -> None:
    if isinstance(result, Deferred):
        await result
