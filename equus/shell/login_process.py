"""Fork the processes of SSH sessions: each leads a session and a group of its own, and is another user before it moves.

Twisted's own processes of a command without a terminal stay in the group of this server, so a signal to that group
would end the server; and they enter a folder before they have given up the rights of root.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from twisted.internet.process import Process, PTYProcess

from equus.shell.account import Account

NOT_FOUND, NOT_STARTED = 127, 126  # exit statuses, as those of a shell


def start(
    reactor: Any, protocol: Any, account: Account, executable: str, arguments: Sequence[bytes],
    environment: Mapping[str, str], terminal: tuple[int, int, str] | None,
) -> None:  # fmt: skip
    """Start the process of an account that runs a program, with a terminal (master, slave, name) or with pipes.

    `protocol` hears of it. Raises OSError if no process can be made.
    """
    words = reactor, executable, arguments, environment, account.home, protocol, account
    if terminal is None:
        _PlainProcess(*words)
    else:
        _TerminalProcess(*words, usePTY=terminal)


class _AsUser:
    """Takes the last steps of a child, between fork and exec. Twisted calls the account `uid` here."""

    def _execChild(
        self, path: str, uid: Account, _gid: None, executable: str, arguments: Sequence[bytes],
        environment: Mapping[str, str],
    ) -> None:  # fmt: skip
        """Become the user, go to its home or else to the root, and execute. Never returns."""
        try:
            _become(uid)
            os.chdir("/")
            with suppress(OSError):
                os.chdir(path)
            os.execve(executable, arguments, environment)
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or str(error)
            os.write(2, f"equus: {executable} can't be started: {why}\n".encode("utf-8", "replace"))
            os._exit(NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_STARTED)


def _become(account: Account) -> None:
    if os.geteuid() == 0:
        os.setgroups(account.groups)
        os.setresgid(account.gid, account.gid, account.gid)
        os.setresuid(account.uid, account.uid, account.uid)


class _PlainProcess(_AsUser, Process):
    def _trySpawnInsteadOfFork(self, *_: Any) -> bool:
        return False

    def _setupChild(self, fdmap: dict[int, int]) -> None:
        super()._setupChild(fdmap)
        os.setsid()


class _TerminalProcess(_AsUser, PTYProcess):
    """Leads a session already: Twisted sees to that, for its terminal."""
