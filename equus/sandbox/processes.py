"""Starts the zygote and the broker, and starts them again when they die. Imports neither Twisted nor threads.

Both are new interpreters, not forks of the agent: they hold no key, no descriptor and no memory of it, and starting
them again later is the same act as the first start. They load while the agent is still importing Twisted.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
from contextlib import suppress
from pathlib import Path

from attrs import define, field

from equus.sandbox.process import python_environment, python_module

# A killed process is gone in milliseconds, unless a thread of it hangs in the kernel (a dead file server).
END_SECONDS = 1.0
ZYGOTE = ("equus.sandbox.forking", "equus.sandbox.zygote")
BROKER = ("equus.sandbox.broker",)


@define
class Child:
    """One of the two processes, and our end of its control socket."""

    process: subprocess.Popen[bytes]
    control: socket.socket

    @property
    def pid(self) -> int:
        return self.process.pid

    def end(self) -> None:
        """Kill it; `collect` takes what is left. In this order: a child that finds its socket gone would tell of it."""
        self.process.kill()
        self.control.close()


@define
class Processes:
    """The two processes of the sandbox. equus/main.py calls `start` first thing."""

    zygote: Child
    broker: Child
    _settings: str
    _python_path: tuple[Path, ...]
    _dead: list[subprocess.Popen[bytes]] = field(factory=list)

    @classmethod
    def start(
        cls,
        policy_path: Path | None = None,
        state: Path | None = None,
        registry: str = "equus.capabilities.registry",
        python_path: tuple[Path, ...] = (),
        certificates: tuple[Path, ...] = (),
    ) -> Processes:
        """Start both and return at once.

        policy_path: as for Policy.load. state: the agent's state folder (audit.log, the checks' own state); None keeps
        neither. registry: the module whose CALLS the broker performs; python_path: where else to look for it.
        certificates: where the agent's own may lie, for checks that look at how long it lasts.
        """
        settings = json.dumps(
            {
                "policy": str(policy_path.absolute()) if policy_path else None,
                "state": str(state.absolute()) if state else None,
                "registry": registry,
                "certificates": [str(path.absolute()) for path in certificates],
            }
        )
        zygote = _start(ZYGOTE, python_path)
        return cls(zygote, _start(BROKER, python_path, settings), settings, python_path)

    def restart_zygote(self) -> None:
        """A new one in place of the old one, whatever that was doing; its workers die with it."""
        self._bury(self.zygote)
        self.zygote = _start(ZYGOTE, self._python_path)

    def restart_broker(self) -> None:
        self._bury(self.broker)
        self.broker = _start(BROKER, self._python_path, self._settings)

    def _bury(self, child: Child) -> None:
        child.end()
        self._dead.append(child.process)
        self.collect()

    def collect(self) -> None:
        """Take the exit status of those that have ended; never waits."""
        self._dead = [process for process in self._dead if process.poll() is None]

    def close(self) -> None:
        """End both, and wait for their ends: a killed process takes a few milliseconds. Runner.stop() does this."""
        for child in (self.zygote, self.broker):
            child.end()
        for process in (self.zygote.process, self.broker.process, *self._dead):
            with suppress(subprocess.TimeoutExpired):
                process.wait(END_SECONDS)
        self._dead = []


def _start(module: tuple[str, ...], python_path: tuple[Path, ...], *arguments: str) -> Child:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setblocking(False)
    with theirs:
        process = subprocess.Popen(
            python_module(*module, str(theirs.fileno()), str(os.getpid()), *arguments),
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            env=python_environment(*python_path),
            cwd="/",
            start_new_session=True,  # a Ctrl-C in the agent's terminal is the agent's to act on
        )
    return Child(process, ours)
