"""Decide when an agent ends so that another version of it takes over, and report that this one works."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import ensureDeferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from equus.code import launcher
from equus.code.agent_upgrade import Upgrader


class Restarts:
    """Ends the agent by `finish`, with a status and a sentence; of several calls the first counts.

    `version` is the one that runs. `upgrader` is None if this host takes no newer versions. `loaded` is called at the
    first `loaded`: the launcher waits for it.
    """

    log = Logger()

    def __init__(
        self,
        version: str,
        upgrader: Upgrader | None,
        finish: Callable[[int, str], None],
        defer_to_thread: Callable[..., Any],
        loaded: Callable[[], None],
    ) -> None:
        self.wants_restart = False
        self.wants_trial: str | None = None  # a newer version that is ready to be tried
        self._version, self._upgrader, self._finish = version, upgrader, finish
        self._defer_to_thread, self._loaded = defer_to_thread, loaded
        self._has_loaded = self._is_stopping = False
        if upgrader is not None:
            upgrader.installed.subscribe(self._try_out)

    def start(self) -> None:
        """Record that this version has started, if it is on trial."""
        if self._upgrader is not None:
            ensureDeferred(self._upgrader.confirm_start()).addErrback(self._start_not_confirmed)

    def stop(self) -> None:
        """Begin nothing more, because the agent stops."""
        self._is_stopping = True

    def has_loaded(self) -> None:
        """Report the first `loaded` to the launcher, because it shows that this version works."""
        if not self._has_loaded:
            self._has_loaded = True
            self._loaded()

    def look(self) -> None:
        """Restart the agent if another version of it has been installed."""
        self._defer_to_thread(launcher.installed_version).addCallback(self._restart_if_other)

    def _restart_if_other(self, installed: str) -> None:
        if installed != self._version and not (self._is_stopping or self.wants_trial):
            self.wants_restart = True
            self._finish(0, f"Equus {installed} is installed and {self._version} runs: starting anew")

    def _try_out(self, newer: str) -> None:
        if not self._is_stopping:
            self.wants_trial = newer
            self._finish(0, f"Equus {newer} is installed beside {self._version}: trying it out")

    def _start_not_confirmed(self, failure: Failure) -> None:
        self.log.error("the start of this version can't be recorded: {why}", why=failure.getErrorMessage())
