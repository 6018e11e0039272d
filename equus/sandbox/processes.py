"""Start the zygote and the broker, restart and end them. Imports neither Twisted nor threads.

Both are new interpreters, not forks of the agent: they have no key, no descriptor and no memory of the agent, and a
restart does the same as the first start. They load while the agent is still importing Twisted.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
from contextlib import suppress
from pathlib import Path

from attrs import define, field

from equus.processes.process import python_environment, python_module
from equus.sandbox.frames import COLD

# Seconds to wait for a killed process. It ends in milliseconds, unless a thread hangs in the kernel (a dead file
# server).
END_SECONDS = 1.0
ZYGOTE = ("equus.processes.forking", "equus.sandbox.zygote")
BROKER = ("equus.sandbox.broker",)
# The system's resolver has no limit of its own. Asked so, each of two servers has had its two seconds before a look-up
# is given up (RESOLVE_SECONDS in equus/capabilities/address.py).
RESOLVER = {"RES_OPTIONS": "timeout:1 attempts:2"}


@define
class Child:
    """Holds one of the two processes and this side of its control socket."""

    process: subprocess.Popen[bytes]
    control: socket.socket

    @property
    def pid(self) -> int:
        return self.process.pid

    def end(self) -> None:
        """Kill the process, then close the socket: in the other order the child would report its lost socket."""
        self.process.kill()
        self.control.close()


@define
class Processes:
    """Holds the two processes of the sandbox. equus/main.py calls `start` before it imports anything large."""

    zygote: Child
    broker: Child
    _settings: str
    _python_path: tuple[Path, ...]
    _zygote_words: tuple[str, ...] = ()
    _ended: list[subprocess.Popen[bytes]] = field(factory=list)

    @classmethod
    def start(
        cls,
        policy_path: Path | None = None,
        state: Path | None = None,
        registry: str = "equus.capabilities.registry",
        python_path: tuple[Path, ...] = (),
        certificates: tuple[Path, ...] = (),
        private: tuple[Path, ...] = (),
        warm: bool = True,
    ) -> Processes:
        """Start both and return at once.

        policy_path: as for Policy.load. state: the agent's state folder (audit.log, the checks' own state); None keeps
        neither. registry: the module with the CALLS that the broker performs; python_path: more folders to find it in.
        certificates: files that may hold the agent's own certificate, for checks of its remaining time. private: files
        and folders that no grant opens, beside the state folder. warm: the zygote makes the runs after the first ones
        cheaper, for some hundredths of a second at its start.
        """
        settings = json.dumps(
            {
                "policy": str(policy_path.absolute()) if policy_path else None,
                "state": str(state.absolute()) if state else None,
                "registry": registry,
                "certificates": [str(path.absolute()) for path in certificates],
                "private": [str(path.absolute()) for path in (*filter(None, [state]), *private)],
            }
        )
        words = () if warm else (COLD,)
        zygote = _start(ZYGOTE, python_path, *words)
        return cls(zygote, _start(BROKER, python_path, settings), settings, python_path, words)

    def restart_zygote(self) -> None:
        """Kill the zygote, if it still runs, and start a new one. The kernel kills its workers with it."""
        self._discard(self.zygote)
        self.zygote = _start(ZYGOTE, self._python_path, *self._zygote_words)

    def restart_broker(self) -> None:
        """Kill the broker, if it still runs, and start a new one."""
        self._discard(self.broker)
        self.broker = _start(BROKER, self._python_path, self._settings)

    def _discard(self, child: Child) -> None:
        child.end()
        self._ended.append(child.process)
        self.collect()

    def collect(self) -> None:
        """Take the exit status of killed processes that have ended; never waits."""
        self._ended = [process for process in self._ended if process.poll() is None]

    def close(self) -> None:
        """Kill both and wait until they have ended, which takes some milliseconds. Runner.stop() calls this."""
        for child in (self.zygote, self.broker):
            child.end()
        for process in (self.zygote.process, self.broker.process, *self._ended):
            with suppress(subprocess.TimeoutExpired):
                process.wait(END_SECONDS)
        self._ended = []


def _start(module: tuple[str, ...], python_path: tuple[Path, ...], *arguments: str) -> Child:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setblocking(False)
    with theirs:
        process = subprocess.Popen(
            python_module(*module, str(theirs.fileno()), str(os.getpid()), *arguments),
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            env=python_environment(*python_path) | RESOLVER,
            cwd="/",
            start_new_session=True,  # a Ctrl-C in the agent's terminal is the agent's to act on
        )
    return Child(process, ours)
