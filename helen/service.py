"""Starts, reloads and stops one Helen. wiring.py makes its parts."""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import importlib
import json
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import attrs
from twisted.application.service import Service
from twisted.internet.defer import Deferred, gatherResults
from twisted.internet.error import CannotListenError, ReactorNotRunning
from twisted.internet.task import LoopingCall
from twisted.internet.threads import deferToThread
from twisted.logger import Logger

from groundwork.atomic_write import write_durably
from groundwork.clock_watch import NEWS_SECONDS, Jump
from helen import garbage_looks, heap_memory, ports, reactor_looks, systemd, wiring
from helen.departed_agents import EphemeralAgents
from helen.evaluation.clock_trust import ClockTrust
from helen.files.state_dir import StateError, why_unopened, why_unwritable
from helen.jobs.pipeline_status import LOOK_SECONDS
from helen.journal import lazy_parquet
from helen.journal.values import REFUSING, SEALING, WRITING, JournalError, Trouble
from helen.notify.missed import StoredDecision, missed
from helen.parts import Parts
from helen.ports import is_loopback
from helen.processor_wait import ProcessorWait
from helen.reactor_looks import ReactorLooks
from helen.sessions.listener import TICK_SECONDS, AgentListener, TLSListener
from helen.sessions.openssl_calls import MISSING
from helen.sessions.tls_hub import TLSHub
from helen.settings.settings import HUB, Settings, SettingsError
from helen.storage.database import StoreFailed
from helen.tunnels.open_shells import SHELL
from helen.web.connections.web_tls import WebListener, WebTLS
from helen.web.label_warnings import all_warnings
from helen.web.pages.registry import PAGES
from helen.web.site import Web

RETRY_AFTER = 1  # seconds that agents are told to stay away while Helen restarts
# Sets how many more objects may come than go before the garbage collector looks at the new ones, which holds the
# reactor: at 50,000 it did so for 55 ms, half of them what requests had left behind. 2,000 take 2 ms.
# helen/garbage_looks.py looks earlier where as many go as come. A full look takes 0.1 s and more with 20,000 states,
# and is put off, for hours at the highest load: what ends here is in no cycle of ours.
COLLECT = (2_000, 10, 100_000)
# After so long a thread that computes lets another one run. An agent's ping takes the interpreter back three times
# (poll, recv, send), and the journal's threads compute while agents wait; Python's own figure is 5 ms.
SWITCH_SECONDS = 0.00005
REFRESH_SECONDS = 3_600.0  # between looks at certificates and manifests that age
SWEEP_SECONDS = 10.0  # between two looks for tokens of the HTTP API that have expired
TRUST_SECONDS = 30.0  # between two looks at agents' clocks while this machine's is in doubt
STOP_SECONDS = 4.5  # after which Helen leaves whatever hangs: SIGTERM ends it within 5 s
STORE_SECONDS = 1.0  # of those, for what waits for the store; it tells the present, and is told again
# Settings that SIGHUP changes; of the others the log says that they need a restart.
LIVE = ("minimum_equus", "rings", "names", "retention", "signing_keys", "trust_labels")


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
        self._loops: list[LoopingCall] = []
        self._web_tls: WebTLS | None = None
        self._troubles: dict[str, str] = {}  # of the journal, by its part, as long as they last
        self._exit_status = 0
        self._is_ending = False
        self.left = threading.Event()  # set at the very end, or by a test that outlives this service
        atexit.register(self._leave)  # of all that are registered from here on it runs last

    # ---------------------------------------------------------------------------------------------- starting

    def startService(self) -> None:
        """Open everything that can refuse to open; a refusal is one sentence and exit status 1.

        Raises StartRefused in a daemon, whose parent shows it, and SystemExit elsewhere.
        """
        super().startService()
        try:
            self._opened = wiring.wire(self._reactor, self._chosen, self._on_trouble, self._report_failure)
            self._live, self._watch, self._linter = self._opened.parts.live, self._opened.watch, self._opened.linter
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
        self._agents = self._listen_for_agents(given.get("agents"))
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

    def _listen_for_agents(self, given: int | None) -> Any:
        chosen, sessions = self._chosen, self._opened.parts.sessions
        encrypted = not chosen.insecure_plaintext
        if not encrypted:
            self.log.warn("--insecure-plaintext: no TLS, no identities; a peer that reaches this port may be any agent")
        accepting = AgentListener(self._reactor, sessions, sessions.connections, encrypted)
        is_hub = encrypted and self._takes_hub()
        listener: Any = accepting
        if encrypted and not is_hub:
            listener = TLSListener(self._opened.server_tls, accepting, sessions.fair_turns)
        agents = ports.listen(self._reactor, given, listener, chosen.listen)
        if is_hub:
            agents = TLSHub(self._reactor, agents, self._opened.server_tls, accepting, sessions.fair_turns)
        else:
            accepting.accepts_on(agents)
            agents.stopReading()
        self._ports.append(agents)
        self._live.address = ports.address_of(chosen.listen[0], agents.getHost())
        return agents

    def _takes_hub(self) -> bool:
        """Return False for Twisted's own TLS: by setting, or because pyOpenSSL has lost what the hub calls."""
        wanted = self._chosen.transport == HUB
        if wanted and MISSING:
            self.log.warn(
                "this pyOpenSSL lacks {names}: agents' TLS goes by way of Twisted, at a higher cost for each result",
                names=", ".join(MISSING),
            )
        return wanted and not MISSING

    def _run(self) -> None:
        signal.signal(signal.SIGTERM, self._terminate)  # twistd's own would end with the signal, not with status 0
        signal.signal(signal.SIGHUP, self._hang_up)
        opened = self._opened
        del self._opened  # what a start goes on from is as much as a segment
        begun = Deferred.fromCoroutine(self._begin(opened))
        begun.addErrback(lambda failure: failure.trap(StartOvertaken)).addErrback(self._failed)

    async def _begin(self, opened: wiring.Opened) -> None:
        parts, step = self.parts, self._step
        parts.clock.jumped.subscribe(self._on_jump)
        parts.clock.begin(opened.start.doubt, may_confirm=not opened.start.stepped)
        start = {"version": parts.version, "states": self._chosen.quotas["states"].most}
        parts.evaluator.began(opened.start.stepped, start)  # before all else that this Helen writes down
        await step(parts.authority.refresh(time.time()))
        await step(parts.library.load_contents())
        await step(parts.passive.start(opened.stored.kv, opened.recovered))
        await step(parts.targets.start(opened.stored.kv))
        await step(parts.forwarding.start(opened.stored.kv))
        await step(parts.pipeline.look())
        await step(self._watch.start())  # before the first look: a file saved between the two would wait for the next
        looked = parts.library.look()  # it asks a process, which reads while we go on
        await step(parts.assignments.start_from(opened.stored.assignments))
        parts.passive.begin()
        parts.targets.begin()
        parts.meshes.begin()
        parts.forwarding.begin()
        parts.rollout_control.start()
        told = functools.partial(_missed, parts.state / "history", opened.recovered)
        await step(parts.notifier.start(opened.judged_at, told, opened.start.stepped))
        parts.sessions.shells.recall(parts.notifier.groups.agents_of(SHELL))
        del opened, told
        for sentence in await step(all_warnings(parts)):
            self.log.warn("{sentence}", sentence=sentence)
        self._start_loops()
        if self._network is not None:
            await step(self._network.start())
        parts.drain.start()
        _set_up_interpreter()
        await step(deferToThread(self._write_run_file))
        self._serve()
        await looked

    async def _step(self, step: Awaitable[Any]) -> Any:
        """Return the result of a step of the start. Raises StartOvertaken if the end has begun meanwhile."""
        result = await step
        if self._is_ending:
            raise StartOvertaken
        return result

    def _start_loops(self) -> None:
        parts = self.parts
        self._watch_reactor()
        self._every(TICK_SECONDS, parts.sessions.sweep)
        self._every(TICK_SECONDS, parts.evaluator.tick)
        ephemeral = EphemeralAgents(parts, None if self._network is None else self._network.has_agent)
        ephemeral.start()
        self._every(TICK_SECONDS, ephemeral.look)
        self._every(TICK_SECONDS, parts.targets.tick)
        self._every(TICK_SECONDS, parts.meshes.tick)
        trust = ClockTrust(parts.clock, lambda: parts.evaluator.timeline.newest)
        self._every(TRUST_SECONDS, trust.look)
        self._every(SWEEP_SECONDS, lambda: self._web.sweep(self.parts.clock.settled()))
        if self._web_tls is not None:
            self._every(SWEEP_SECONDS, self._look_at_web_tls)
        self._every(TICK_SECONDS, parts.rollout_control.tick)
        self._every(REFRESH_SECONDS, self._refresh)
        self._every(LOOK_SECONDS, parts.pipeline.look)
        watchdog = systemd.watchdog_seconds()
        if watchdog is not None:
            self._every(watchdog, functools.partial(systemd.notify, "WATCHDOG=1"))

    def _watch_reactor(self) -> None:
        """Begin to look how late the reactor is. If the kernel does not tell what of that is a busy machine, log it."""
        kernel = ProcessorWait()
        if kernel.times() is None:
            self.log.info(
                "the kernel does not tell how long a thread waits for a processor (/proc/self/task/{tid}/schedstat):"
                " /metrics has how late the reactor is, and not what of that Helen held it",
                tid=threading.get_native_id(),
            )  # fmt: skip
        self._looks = ReactorLooks(self.parts.telemetry, self._reactor.seconds, kernel.times)
        self._looks.watch(self._reactor)
        self._every(reactor_looks.LOOK_SECONDS, self._measure_lag)

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

    def _every(self, interval: float, call: Callable[[], object]) -> None:
        """Call it every `interval` seconds, after a failure as well: one bad agent must not end Helen."""

        def attempt() -> None:
            try:
                call()
            except Exception:
                self.log.failure("{call}", call=call)

        loop = LoopingCall(attempt)
        loop.clock = self._reactor
        loop.start(interval, now=False).addErrback(self._failed)
        self._loops.append(loop)

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

    def _measure_lag(self) -> None:
        """Observe how late this call is, before it does anything that takes time."""
        self._looks.look()
        self.parts.clock.look()
        garbage_looks.look()

    def _on_jump(self, jump: Jump) -> None:
        """Log a step of the clock, or a sleep; a short stall of a busy machine is no news."""
        if jump.stepped:
            self.log.warn(
                "the clock was set {way} by {seconds:,.0f} s. Helen goes on by the new time; planned downtimes and"
                " what expires follow in an hour, if it stands", way="back" if jump.stepped < 0.0 else "ahead",
                seconds=abs(jump.stepped),
            )  # fmt: skip
        if jump.slept >= NEWS_SECONDS:
            self.log.warn("Helen stood still for {seconds:,.0f} s: no check is late for that", seconds=jump.slept)

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
        read = deferToThread(self._read_settings).addCallback(self._take_settings).addErrback(self._report_failure)
        read.addCallback(lambda _: self._refresh())  # of a certificate for the names of now
        parts = self.parts
        others = (parts.notifier, parts.passive, parts.targets, parts.forwarding)
        files = (parts.assignments, *(each.config_file for each in others))
        if self._web_tls is not None:
            self._look_at_web_tls()
        done = gatherResults([read, *(file.reread("SIGHUP") for file in files)])
        done.addErrback(self._report_failure)
        done.addCallback(lambda _: systemd.notify("READY=1"))

    def _take_settings(self, fresh: Settings) -> Deferred[None]:
        held = self._live.settings
        if (fresh.signing_keys is None) != (held.signing_keys is None):  # the place of the private key changes
            self.log.warn("changed, but only a restart makes it so: signing_keys")
            fresh = attrs.evolve(fresh, signing_keys=held.signing_keys)
        rest = attrs.evolve(fresh, **{name: getattr(held, name) for name in LIVE})
        if rest != held:
            before = attrs.asdict(held)
            names = ", ".join(name for name, value in attrs.asdict(rest).items() if value != before[name])
            self.log.warn("changed, but only a restart makes it so: {names}", names=names)
        chosen = self._live.settings = attrs.evolve(held, **{name: getattr(fresh, name) for name in LIVE})
        self.parts.sessions.minimum = chosen.minimum_equus
        self.parts.sessions.trust_labels(chosen.trust_labels)
        wiring.take_rings(self.parts.library, chosen)
        self.parts.authority.answer_to(chosen.names, wiring.host_of(chosen))
        self.parts.journal.retain(wiring.retention(chosen))
        return Deferred.fromCoroutine(self._reread_keys())

    async def _reread_keys(self) -> None:
        """Take the public keys of --signing-keys as their file is now. Raises StateError, and the old ones stay."""
        file = self._live.settings.signing_keys
        if file is not None and await self.parts.keys.reread(file):
            self.parts.key_rotation.take_quietly()

    def _on_trouble(self, trouble: Trouble) -> None:
        """Log a trouble or its end, and show the worst that lasts: without writing nothing is sealed either."""
        told = self._live.trouble
        if trouble.over:
            self._troubles.pop(trouble.part, None)
            self.log.info("{sentence}", sentence=trouble.sentence)
        elif trouble.part == REFUSING:
            self.log.critical("{sentence}", sentence=trouble.sentence)
        else:
            self._troubles[trouble.part] = trouble.sentence
        self._live.trouble = self._troubles.get(WRITING) or self._troubles.get(SEALING)
        if self._live.trouble not in (None, told):
            self.log.critical("{sentence}", sentence=self._live.trouble)
        if trouble.fatal:
            self.end(1)

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
        self._exit_status = self._exit_status or status
        self._begin_to_end()
        with contextlib.suppress(ReactorNotRunning):
            self._reactor.stop()

    def _begin_to_end(self) -> None:
        if not self._is_ending:
            self._is_ending = self._live.is_ending = True
            threading.Thread(target=self._leave_in_time, name="helen.end", daemon=True).start()

    def _leave_in_time(self) -> None:
        """Leave in time whatever hangs (a disk, most likely): it may hold the reactor or its threads for ever."""
        if self.left.wait(STOP_SECONDS):
            return
        print(f"helen: not everything could be written within {STOP_SECONDS:g} s; leaving", file=sys.stderr, flush=True)
        os._exit(self._exit_status or 1)

    def stopService(self) -> Deferred[None]:
        """Tell agents, write what waits, let go: within 5 s."""
        super().stopService()
        self._begin_to_end()
        systemd.notify("STOPPING=1")
        return Deferred.fromCoroutine(self._stop())

    async def _stop(self) -> None:
        parts, network = self.parts, self._network
        for loop in self._loops:
            if loop.running:
                loop.stop()
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

    def _leave(self) -> None:
        """Exit with our status at the very end, when twistd has put its own things away: it knows no status of ours."""
        self.left.set()
        if self._exit_status:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(self._exit_status)


def _missed(history: Path, recovered: Sequence[Any], cursor: int) -> Deferred[list[StoredDecision]]:
    return deferToThread(missed, history, recovered, cursor)


def _set_up_interpreter() -> None:
    """Let threads change often, and freeze what is here: the garbage collector needn't look at it for every result."""
    sys.setswitchinterval(SWITCH_SECONDS)
    heap_memory.keep()
    if gc.isenabled():  # else a person waits for the first result: 0.2 s, and little is to be found yet
        gc.collect()
        lazy_parquet.load()
    gc.freeze()
    gc.set_threshold(*COLLECT)
    gc.enable()


async def _done(result: Any) -> None:
    if isinstance(result, Deferred):
        await result
