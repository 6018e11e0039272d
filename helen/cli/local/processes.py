"""Run a Helen and agents as processes of this machine, for `helen quickstart` and `helen demo`. They end with it."""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from helen.cli.base.failures import Failed

if TYPE_CHECKING:
    from helen.cli.base.client import Client

START_SECONDS = 20.0  # that a process may take to say that it is up
STOP_SECONDS = 6.0
TRUSTED = ("role", "site")  # keys of labels that agents may give themselves here: it is the operator's own machine
_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG
# Helen's imports take longer than anything else at a start, so they begin before there is anything to run: it then
# waits at its standard input. None of the objects they make is garbage; Helen turns the collector on when it has begun.
# Its sockets are open already: no other program takes its ports meanwhile, and agents connect before it runs.
WAITING_TWISTD = (
    "import gc; gc.disable(); import os, sys, helen.tap; from helen import systemd;"
    "from twisted.scripts.twistd import run;"
    "systemd.hand_over(agents=int(sys.argv.pop(1)), web=int(sys.argv.pop(1)));"
    "os.read(0, 1) or sys.exit(); os.dup2(os.open(os.devnull, os.O_RDONLY), 0); run()"
)
TWISTD = "from twisted.scripts.twistd import run; run()"
EQUUS = "from equus.main import main; main(prog_name='equus')"


def listening(host: str, wanted: int) -> socket.socket:
    """Return a listening socket on this port if it is free, else on any other.

    Raises Failed if the host is no address of this machine.
    """
    for port in (wanted, 0):
        with contextlib.suppress(OSError):
            return socket.create_server((host, port), backlog=128)
    raise Failed(f"no port of {host} can be had: is it an address of this machine?")


def address_of(opened: socket.socket, name: str = "") -> str:
    """Return HOST:PORT of a socket; `name` replaces the host, since Helen's certificate is for that name."""
    host, port = opened.getsockname()[:2]
    return f"{name or host}:{port}"


@contextlib.contextmanager
def until_stopped() -> Iterator[None]:
    """Raise KeyboardInterrupt on SIGTERM as on Ctrl-C, so that the processes are ended in order on the way out."""

    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


class Local:
    """Manage one folder with a Helen's state, agents' states and logs, and the processes that use them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.state = folder / "helen"
        self._processes: list[tuple[str, subprocess.Popen[bytes]]] = []
        self.run: dict[str, Any] = {}

    @property
    def client(self) -> Client:
        """Return a client of this Helen; imported late, since HTTP takes its time."""
        client: Client = importlib.import_module("helen.cli.base.client").Client(self.state)
        return client

    def start_helen(self, listen: str, web: str, *more: str) -> None:
        """Start Helen on these addresses, with further flags."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._helen = self._start("helen", ["-c", TWISTD, *self._twistd(listen, web), *more])

    def start_helen_behind(
        self, agents: socket.socket, web: socket.socket, name: str, prepare: Callable[[], None]
    ) -> None:
        """Start Helen, as `name`, on open sockets; it reads and writes nothing until `prepare` has returned."""
        self.folder.mkdir(parents=True, exist_ok=True)
        descriptors = (agents.fileno(), web.fileno())
        words = ["-c", WAITING_TWISTD, *map(str, descriptors), *self._twistd(address_of(agents, name), address_of(web))]
        self._helen = self._start("helen", words, descriptors, subprocess.PIPE)
        assert self._helen.stdin is not None
        with self._helen.stdin as gate:  # closed without a byte if `prepare` fails: then Helen ends
            prepare()
            gate.write(b"!")

    def _twistd(self, listen: str, web: str) -> list[str]:
        flags = ["--state", str(self.state), "--listen", listen, "--web", web, "--name", "localhost"]
        flags += [word for key in TRUSTED for word in ("--trust-label", key)]
        return ["-n", "--pidfile=", "helen", *flags]

    def wait_for_helen(self) -> None:
        """Wait until Helen accepts connections; raises Failed if it ends, or takes longer than START_SECONDS."""
        until = time.monotonic() + START_SECONDS
        while not self._is_up(self._helen.pid):
            if self._helen.poll() is not None or time.monotonic() > until:
                raise Failed(f"Helen did not start:\n{tail(self.log('helen'))}")
            time.sleep(0.02)

    def start_agent(self, name: str, labels: Sequence[str] = (), server: str = "") -> None:
        """Start an agent; it enrols by a token if it has no identity yet."""
        state, token = self.folder / name, ""
        words = ["-c", EQUUS, "--server", server or self.run["agents"], "--state", str(state)]
        if not (state / "agent.pem").exists():
            token = self.client.post("/api/v1/tokens", {"agent": name})["token"]
            words += ["--join", "-", "--name", name]
        words += [word for label in labels for word in ("--label", label)]
        with tempfile.TemporaryFile() as line:  # a token among the arguments would show in the list of processes
            line.write(token.encode() + b"\n")
            line.seek(0)
            self._start(name, words, stdin=line.fileno())

    def end_agent(self, name: str) -> None:
        """End the agent of this name, and no other."""
        for started, process in [each for each in self._processes if each[0] == name]:
            process.terminate()
            process.wait(STOP_SECONDS)
            self._processes.remove((started, process))

    def log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def check_alive(self) -> None:
        """Raise Failed, with the end of its log, if one of the processes has ended."""
        for name, process in self._processes:
            if process.poll() is not None:
                raise Failed(f"{name} has ended with status {process.returncode}:\n{tail(self.log(name))}")

    def stop(self) -> None:
        """End all processes: the agents first, so that Helen hears of it."""
        for _, process in reversed(self._processes):
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)
        for _, process in reversed(self._processes):
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._processes.clear()

    def _start(
        self, name: str, words: list[str], keep: Sequence[int] = (), stdin: int = subprocess.DEVNULL
    ) -> subprocess.Popen[bytes]:
        with open(self.log(name), "ab") as log:
            process = _spawn([sys.executable, *words], log, keep, stdin)
        self._processes.append((name, process))
        return process

    def _is_up(self, pid: int) -> bool:
        with contextlib.suppress(OSError, ValueError):
            run = json.loads((self.state / "run.json").read_text())
            if run["pid"] == pid:
                self.run = run
                return True
        return False


def _spawn(words: list[str], log: IO[bytes], keep: Sequence[int], stdin: int) -> subprocess.Popen[bytes]:
    """Start a process in a session of its own, so that Ctrl-C reaches this program alone; it dies with this program."""
    prctl = ctypes.CDLL(None).prctl
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("HELEN_", "EQUUS_"))}
    return subprocess.Popen(
        words,
        stdin=stdin,
        stdout=log,
        stderr=log,
        start_new_session=True,
        pass_fds=keep,
        env=environment | {"PYTHONUNBUFFERED": "1"},
        preexec_fn=lambda: prctl(_DIE_WITH_PARENT, signal.SIGTERM),
    )


def tail(path: Path, lines: int = 12) -> str:
    """Return the last lines of a log."""
    return "\n".join(path.read_text("utf-8", "replace").splitlines()[-lines:])
