"""Make the parts of one agent, run it to its end, and return its exit status.

It is imported after the sandbox's processes have been started, since it brings Twisted, threads and keys into the
process. Mistakes of the operator become StartRefused: one sentence on stderr, exit status 1.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import suppress
from importlib.util import find_spec
from typing import Any

from twisted.internet import reactor
from twisted.internet.error import ReactorNotRunning
from twisted.internet.threads import deferToThread
from twisted.logger import Logger

from equus import logs
from equus.agent import Agent
from equus.agent_parts import Parts
from equus.code import launcher
from equus.code.agent_upgrade import Upgrader
from equus.code.agent_versions import AgentVersions
from equus.code.library import EMPTY_SET, LibraryError, LibraryStore, read_folder
from equus.code.update import CodeSource, Updater
from equus.identity.identity import Identity, IdentityError, Token
from equus.identity.identity_store import IdentityStore, read_identity
from equus.link import server_list
from equus.link.route import Route
from equus.nrpe.newest import NewestResults
from equus.nrpe.server import NrpeError, listen
from equus.policy.policy import Policy, PolicyInForce
from equus.processes.accounts import PLUGINS, run_as_root
from equus.sandbox.processes import Processes
from equus.sandbox.runner import Runner
from equus.schedule.secret_runner import SecretRunner
from equus.secrets.references import Secrets, SecretsError
from equus.sessions.membership import Membership
from equus.settings import Settings
from equus.shell.program import ShellProgram
from equus.spool.memory_spool import MemorySpool
from equus.spool.spool import Spool
from equus.spool.spool_thread import SpoolThread
from groundwork.disk_faults import DISK_FAULTS
from groundwork.steady_reactor import use_monotonic_clock

use_monotonic_clock(reactor)  # before anything is scheduled

log = Logger(namespace="equus")
STOP_WITHIN = 3.0  # seconds for goodbyes and the last sync
END_WITHIN = 4.5  # seconds until the process is gone; SIGTERM promises five


class StartRefused(Exception):
    """Says that the agent can't start; the text says why, and what to do."""


class AgentProcess:
    """Runs the agent in this process, with its signals and its exit status."""

    def __init__(self, settings: Settings, processes: Processes, policy: Policy, secrets: Secrets) -> None:
        """Make all parts. Blocking. Raises StartRefused if the identity, the code or the spool can't be used."""
        self._settings = settings
        self._secrets = secrets
        self.status = 0
        self._is_ending = False
        identities = IdentityStore(settings.state)
        identity = choose_identity(settings, identities, time.time())
        membership = Membership(settings, identity, identities, time.time, deferToThread, reactor.seconds)
        version, in_force = launcher.installed_version(), PolicyInForce(policy)
        bare = Runner(reactor, processes, policy, parallel=policy.limits.parallel, log=log_of_check)
        runner = SecretRunner(reactor, bare, secrets)
        writer = SpoolThread(open_spool(settings), reactor.callFromThread, self._spool_failed, True)
        # With --once the agent ends before it could install a newer version.
        versions = AgentVersions(settings.state)
        upgrader = None if settings.once else Upgrader(versions, version, in_force, deferToThread)
        updater = Updater(
            code_source(settings), runner.inspect, membership.trusted_keys, in_force, upgrader, time.time,
            deferToThread, reactor.seconds,
        )  # fmt: skip
        route = Route(settings.servers, server_list.load(settings.state))
        parts = Parts(
            reactor, time.time, runner, writer, updater, in_force, membership, route, version, print_line, self.finish,
            deferToThread, launcher.report_loaded, shell_programs(settings, in_force, membership),
            answer_nrpe(settings, version),
        )  # fmt: skip
        self.agent = Agent(settings, parts)

    def run(self) -> int:
        """Run the reactor until the agent ends, and return its exit status."""
        reactor.callWhenRunning(self.agent.start)
        reactor.callWhenRunning(self._listen_for_signals)
        reactor.addSystemEventTrigger("before", "shutdown", self._stop)
        reactor.run()
        signal.setitimer(signal.ITIMER_REAL, 0)
        return self.status

    def finish(self, status: int, sentence: str) -> None:
        """End the agent with an exit status, and log a sentence unless it is empty. Only the first call counts."""
        if self._is_ending:
            return
        self._is_ending, self.status = True, status
        if sentence:
            write = log.error if status else log.info
            write("{sentence}", sentence=sentence)
        reactor.callLater(0, self._end)

    def _end(self) -> None:
        with suppress(ReactorNotRunning):  # a signal may have been quicker
            reactor.stop()

    def _stop(self) -> Any:
        """Stop the agent. A timer ends the process in time, even if a resolver's thread or a dead disk hangs."""
        self._is_ending = True
        signal.signal(signal.SIGALRM, lambda *_: os._exit(self.status))
        signal.setitimer(signal.ITIMER_REAL, END_WITHIN)
        return self.agent.stop().addTimeout(STOP_WITHIN, reactor, lambda *_: None)

    def _listen_for_signals(self) -> None:
        """Handle SIGHUP. SIGTERM and SIGINT are Twisted's own and end the reactor."""
        signal.signal(signal.SIGHUP, lambda *_: reactor.callFromThread(self._reread))

    def _reread(self) -> None:
        before = self._secrets.unbound
        try:
            self._secrets.read()
            _tell_unbound([name for name in self._secrets.unbound if name not in before])
        except SecretsError as error:
            log.error("the secrets stay as they were: {error}", error=error)
        self.agent.reread(lambda: Policy.load(self._settings.policy))

    def _spool_failed(self, failure: BaseException) -> None:
        self.finish(1, f"the spool failed: {failure!r}. Nothing more can be kept safely; stopping.")


def run(settings: Settings, processes: Processes, policy: Policy) -> tuple[int, bool | str]:
    """Run an agent to its end.

    Return its exit status, and the version to try next, or True if the agent is to be started again. Raises
    StartRefused if it can't start.
    """
    secrets = Secrets(settings.secrets, os.environ)
    try:
        secrets.read()
    except SecretsError as error:
        raise StartRefused(str(error)) from error
    logs.begin(sys.stderr, os.environ, settings.log_level, secrets.hide)
    if settings.insecure_plaintext:
        log.warn("--insecure-plaintext: everything is readable and changeable on the way. Never use it on a network.")
    _tell_unbound(secrets.unbound)
    if run_as_root([each.user for each in (*policy.plugins.values(), *policy.programs.values())]):
        told = "programs without a `user` run as root: name one for each in {policy}, or make an account {account}"
        log.warn(told, policy=policy.path, account=PLUGINS)
    process = AgentProcess(settings, processes, policy, secrets)
    status = process.run()
    return status, process.agent.wants_trial or process.agent.wants_restart


def _tell_unbound(names: list[str]) -> None:
    """Log the names of secrets that a run may send to any address: an assignment chooses it."""
    if names:
        told = "secrets without destinations go to whatever address an assignment names: {names}. Add `to` to each"
        log.warn(told, names=", ".join(names))


def choose_identity(settings: Settings, store: IdentityStore, now: float) -> Identity | None:
    """Return the identity to use: that of the named files, or a newer certificate for the same name.

    None means that the agent must enrol. `now` is unix seconds. Raises StartRefused if files can't be used, or if there
    is neither an identity nor a token.
    """
    try:
        store.root()  # an agent that can't read its signing keys must not run any code
        if settings.insecure_plaintext:
            return None
        chosen = _newest_identity(settings, store)
        if settings.join:
            Token.parse(settings.join)  # a mistyped token is refused now, not when the certificate has expired
    except IdentityError as error:
        raise StartRefused(str(error)) from error
    if chosen is None and not settings.join:
        raise StartRefused(
            f"this agent has no identity yet ({settings.state} holds none). Run `helen token` on the Helen and give "
            "its token with --join, or give --certificate, --key and --ca."
        )
    trouble = chosen.trouble(now) if chosen is not None else None
    if trouble is not None and settings.join:
        return None
    if trouble is not None:
        log.error("{trouble}", trouble=trouble)
    return chosen


def _newest_identity(settings: Settings, store: IdentityStore) -> Identity | None:
    """Return the identity of the named files or of the state folder, whichever is newer; None if there is none."""
    kept = store.load()
    if not (settings.certificate and settings.key and settings.ca):
        return kept
    named = read_identity(settings.certificate, settings.key, settings.ca)
    store.pin_beside(settings.certificate)
    is_renewed = kept is not None and kept.name == named.name and kept.not_before > named.not_before
    return kept if is_renewed else named


def open_spool(settings: Settings) -> Spool | MemorySpool:
    """Open the spool of the state folder; if its disk is full or fails, one in memory.

    Reports on the disk then wait there for a start after the repair. Raises StartRefused if the folder is not ours.
    """
    try:
        return Spool(settings.state / "spool")
    except OSError as error:
        if error.errno in DISK_FAULTS:
            return MemorySpool(error.strerror or str(error))
        raise StartRefused(
            f"the spool in {settings.state} can't be opened: {error.strerror} ({error.filename})."
        ) from error


def code_source(settings: Settings) -> CodeSource:
    """Return the code to begin with: the folder of --checks, or else the last good set of a Helen.

    Raises StartRefused if the folder can't be read.
    """
    store = LibraryStore(settings.state)
    folder = settings.checks
    if folder is None:
        held = store.load()
        return CodeSource(held.checks if held else EMPTY_SET, store, held)
    try:
        checks = read_folder(folder)
    except LibraryError as error:
        raise StartRefused(f"--checks: {error}.") from error
    return CodeSource(checks, store, read_local=lambda: read_folder(folder))


def shell_programs(settings: Settings, policy: PolicyInForce, membership: Membership) -> dict[str, ShellProgram]:
    """Return the program of tunnels to SSH, none where the extra `shell` is not installed."""
    if find_spec("bcrypt") is None or find_spec("appdirs") is None:
        if policy.current.shell is not None:
            log.error("the policy has [shell], and the extra is missing: pip install 'helen-equus[shell]'")
        return {}
    if policy.current.shell is not None and os.geteuid() != 0:
        log.error("the policy has [shell], and this agent is not root: it can't change users, and lets nobody in")
    return {"ssh": ShellProgram(policy, settings.state, lambda: membership.identity, reactor, deferToThread)}


def answer_nrpe(settings: Settings, version: str) -> NewestResults | None:
    """Listen for check_nrpe if that is wanted, and return what it is answered from. Raises StartRefused if it can't."""
    if settings.nrpe is None or settings.once:
        return None
    newest = NewestResults(version, time.monotonic)
    try:
        listen(reactor, settings.nrpe, newest.answer)
    except NrpeError as error:
        raise StartRefused(str(error)) from error
    return newest


def log_of_check(check: str, text: str) -> None:
    """Log a line that a check has logged."""
    log.info("check {check}: {text}", check=check, text=text)


def print_line(line: str) -> None:
    """Print a line to stdout; that its reader may be gone is no reason to stop."""
    with suppress(OSError):
        print(line, flush=True)
