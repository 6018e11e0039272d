"""Wires one agent together and runs it to its end. The only file that knows everybody.

It is imported after the sandbox's processes have been started, since it brings Twisted, threads and keys into the
process. Whatever a person got wrong ends here as a Refusal: one sentence on stderr, exit status 1.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import suppress
from typing import Any

from twisted.internet import reactor
from twisted.internet.error import ReactorNotRunning
from twisted.internet.threads import deferToThread
from twisted.logger import Logger

from equus import logs, servers, stage0
from equus.agent import Agent, Means
from equus.identity import Identity, IdentityError, IdentityStore, Token, read_identity
from equus.library import NOTHING, LibraryError, LibraryStore, read_folder
from equus.membership import Membership
from equus.policy import Policy
from equus.route import Route
from equus.sandbox.processes import Processes
from equus.sandbox.runner import Runner
from equus.secret_runner import SecretRunner
from equus.secrets import Secrets, SecretsError
from equus.settings import Settings
from equus.spool import Spool
from equus.spool_writer import SpoolWriter
from equus.update import Update
from equus.upgrade import Upgrades

log = Logger(namespace="equus")
STOP_WITHIN = 3.0  # seconds for goodbyes and the last sync
END_WITHIN = 4.5  # seconds until the process is gone; SIGTERM promises five


class Refusal(Exception):
    """Why the agent doesn't start."""


class Process:
    """This process: the agent, its signals and its exit status."""

    def __init__(self, settings: Settings, processes: Processes, policy: Policy, secrets: Secrets) -> None:
        self._settings = settings
        self._secrets = secrets
        self.status = 0
        self._is_ending = False
        identities = IdentityStore(settings.state)
        identity = choose_identity(settings, identities, time.time())
        membership = Membership(settings, identity, identities, time.time, deferToThread)
        version = stage0.installed_version()
        bare = Runner(reactor, processes, policy, parallel=policy.limits.parallel, log=log_of_check)
        runner = SecretRunner(reactor, bare, secrets)
        writer = SpoolWriter(
            open_spool(settings), reactor.callFromThread, lambda: self.agent.spool_changed(), self._spool_failed
        )
        update = make_update(settings, runner, lambda: self.agent.code_changed())
        route = Route(settings.servers, servers.load(settings.state))
        means = Means(
            reactor, time.time, runner, writer, membership, route, version, say, self.finish, deferToThread,
            stage0.say_loaded, Upgrades(settings.state),
        )  # fmt: skip
        self.agent = Agent(settings, means, policy, update)

    def run(self) -> int:
        reactor.callWhenRunning(self.agent.start)
        reactor.callWhenRunning(self._listen_for_signals)
        reactor.addSystemEventTrigger("before", "shutdown", self._stop)
        reactor.run()
        signal.setitimer(signal.ITIMER_REAL, 0)
        return self.status

    def finish(self, status: int, sentence: str) -> None:
        """The agent wants to end. Only the first wish counts."""
        if self._is_ending:
            return
        self._is_ending, self.status = True, status
        if sentence:
            tell = log.error if status else log.info
            tell("{sentence}", sentence=sentence)
        reactor.callLater(0, self._end)

    def _end(self) -> None:
        with suppress(ReactorNotRunning):  # a signal may have been quicker
            reactor.stop()

    def _stop(self) -> Any:
        """Whatever hangs (a resolver's thread, a dead disk), the process ends in time."""
        self._is_ending = True
        signal.signal(signal.SIGALRM, lambda *_: os._exit(self.status))
        signal.setitimer(signal.ITIMER_REAL, END_WITHIN)
        return self.agent.stop().addTimeout(STOP_WITHIN, reactor, lambda *_: None)

    def _listen_for_signals(self) -> None:
        """SIGTERM and SIGINT are Twisted's own and end the reactor."""
        signal.signal(signal.SIGHUP, lambda *_: reactor.callFromThread(self._reread))

    def _reread(self) -> None:
        try:
            self._secrets.read()
        except SecretsError as error:
            log.error("the secrets stay as they were: {error}", error=error)
        self.agent.reread(lambda: Policy.load(self._settings.policy))

    def _spool_failed(self, failure: BaseException) -> None:
        self.finish(1, f"the spool's disk failed: {failure}. Nothing more can be kept safely; stopping.")


def run(settings: Settings, processes: Processes, policy: Policy) -> tuple[int, bool | str]:
    """The exit status, and whether the agent wants to be started anew, or which version to be tried. Raises Refusal."""
    secrets = Secrets(settings.secrets, os.environ)
    try:
        secrets.read()
    except SecretsError as error:
        raise Refusal(str(error)) from error
    logs.begin(sys.stderr, os.environ, settings.log_level, secrets.hide)
    if settings.insecure_plaintext:
        log.warn("--insecure-plaintext: everything is readable and changeable on the way. Never use it on a network.")
    process = Process(settings, processes, policy, secrets)
    status = process.run()
    return status, process.agent.wants_trial or process.agent.wants_restart


def choose_identity(settings: Settings, store: IdentityStore, now: float) -> Identity | None:
    """Who we are: the files that were named, or a newer certificate for the same name; None if it is to be enrolled."""
    try:
        store.root()  # whoever can't say whose code to run doesn't run any
        if settings.insecure_plaintext:
            return None
        kept = store.load()
        chosen = kept
        if settings.certificate and settings.key and settings.ca:
            named = read_identity(settings.certificate, settings.key, settings.ca)
            renewed = kept is not None and kept.name == named.name and kept.not_before > named.not_before
            chosen = kept if renewed else named
            store.pin_beside(settings.certificate)
        if settings.join:
            Token.parse(settings.join)  # a slip of the pen is told now, and not when the certificate has expired
    except IdentityError as error:
        raise Refusal(str(error)) from error
    if chosen is None and not settings.join:
        raise Refusal(
            f"this agent has no identity yet ({settings.state} holds none). Run `helen token` on the Helen and give "
            "its token with --join, or give --certificate, --key and --ca."
        )
    trouble = chosen.trouble(now) if chosen is not None else None
    if trouble is not None and settings.join:
        return None
    if trouble is not None:
        log.error("{trouble}", trouble=trouble)
    return chosen


def open_spool(settings: Settings) -> Spool:
    try:
        return Spool(settings.state / "spool")
    except OSError as error:
        raise Refusal(f"the spool in {settings.state} can't be opened: {error.strerror} ({error.filename}).") from error


def make_update(settings: Settings, runner: SecretRunner, changed: Any) -> Update:
    """The code to begin with: the folder that was named, else the last good set of a Helen."""
    store = LibraryStore(settings.state)
    folder = settings.checks
    if folder is None:
        held = store.load()
        checks = held.checks if held else NOTHING
        return Update(checks, held, store, None, runner.inspect, time.time, changed, deferToThread)
    try:
        checks = read_folder(folder)
    except LibraryError as error:
        raise Refusal(f"--checks: {error}.") from error
    return Update(checks, None, store, lambda: read_folder(folder), runner.inspect, time.time, changed, deferToThread)


def log_of_check(check: str, text: str) -> None:
    log.info("check {check}: {text}", check=check, text=text)


def say(line: str) -> None:
    """Nobody may be reading any more; that is no reason to stop."""
    with suppress(OSError):
        print(line, flush=True)
