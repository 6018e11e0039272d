"""Runs agents that each have a network namespace of their own, as machines have, in the namespace of one Helen.

nsenter ... python namespaces.py SERVER FOLDER NUMBER NAME...

Prints `NAME PID` for each agent, and goes on until SIGTERM. NUMBER is that of the first, which makes its address. Each
is a process with bench/fleet.py's agent, which is real but for its sandbox, and joins by the token in the environment
(EQUUS_JOIN). All modules are read once, before the processes fork: fifty interpreters that start take minutes on a
small machine. Each namespace has one device, with the way to Helen's; a process that is killed takes both with it.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from helen_running import Program, wait_until

import equus.agent
import equus.code.update
import equus.sessions.membership
import equus.spool.spool_thread
import helen.cli.base.client

PRELOADED = equus, helen  # the reactor is not among them: each process has its own
ADDRESS = "10.8.0.1"  # Helen's
ENTER = ["--user", "--net", "--preserve-credentials"]
NEW_NETWORK, DIES_WITH_PARENT = 0x40000000, 1  # of unshare(2), of prctl(2)
BENCH = Path(__file__).parents[2] / "bench"


class Outside:
    """Holds the namespace in which Helen is, and in which the agents' devices end. No rights of root are needed: it has
    a user's.
    """

    def __init__(self, folder: Path) -> None:
        self._next = 0  # the number of the next agent: its address
        words = ["unshare", "--user", "--map-root-user", "--net", "sh", "-c"]
        words.append(f"ip address add {ADDRESS}/32 dev lo && ip link set lo up && echo made && exec sleep infinity")
        self.holder = Program(words, folder / "namespace.log")
        wait_until(lambda: "made" in self.holder.said or self.holder.process.poll() is not None, "namespace")
        assert self.holder.process.poll() is None, self.holder.said

    @property
    def enter(self) -> list[str]:
        """Return the words before a command that is to run in the namespace, with the process id that it then has."""
        return ["nsenter", "--target", str(self.holder.process.pid), *ENTER]

    def agents(self, server: str, join: str, folder: Path, names: list[str]) -> Agents:
        """Start agents of these names. `server`: HOST:PORT of Helen; `join`: a token."""
        folder.mkdir()
        words = [*self.enter, sys.executable, __file__, server, str(folder), str(self._next), *names]
        self._next += len(names)
        return Agents(Program(words, folder / "agents.log", {"EQUUS_JOIN": join}), names)

    def end(self) -> None:
        self.holder.end()


class Agents:
    """Runs the agents of one token, each in its own namespace."""

    def __init__(self, program: Program, names: list[str]) -> None:
        self.program = program
        wait_until(lambda: program.said.count("\n") >= len(names) or program.process.poll() is not None, "processes")
        assert program.said.startswith(names[0]), program.said
        self.pids = {name: int(pid) for name, pid in map(str.split, program.said.splitlines()[: len(names)])}

    def vanish(self, name: str) -> None:
        """End without a word, as a machine does that is switched off."""
        os.kill(self.pids[name], signal.SIGKILL)

    def network_of(self, name: str) -> str:
        """Return the identity of an agent's network namespace."""
        return os.readlink(f"/proc/{self.pids[name]}/ns/net")

    def end(self) -> None:
        self.program.end()


# ---------------------------------------------------------------------------------------------- in the namespace


def live(server: str, state: Path, name: str, own: str) -> None:
    """Be an agent, in a namespace with this address, once the device is there."""
    lines = [f"address add {own}/32 dev eth0", "link set eth0 up", f"route add {ADDRESS}/32 dev eth0"]
    run("\n".join(lines))
    sys.path.insert(0, str(BENCH))
    fleet: Any = importlib.import_module("fleet")  # with the reactor
    reactor = fleet.reactor

    def finished(status: int, sentence: str) -> None:
        print(f"{name} ended with {status}: {sentence}", flush=True)
        os._exit(1)

    state.mkdir()
    settings = fleet.Settings((fleet.parse_server(server),), state, join=os.environ["EQUUS_JOIN"], name=name)
    spool = fleet.SpoolThread(
        fleet.Spool(state / "spool"), reactor.callFromThread, lambda fault: finished(1, str(fault))
    )
    policy = fleet.PolicyInForce(fleet.Policy.load(None))
    agent = fleet.make_agent(settings, fleet.OneThread().take(spool), policy, lambda line: None, finished)
    reactor.callWhenRunning(agent.start)
    reactor.run()


def run(lines: str) -> None:
    subprocess.run(["ip", "-batch", "-"], input=lines, text=True, check=True)


def fork(server: str, folder: Path, name: str, number: int) -> tuple[int, int]:
    """Return the process id of an agent whose namespace is there, and the pipe by which it is told to go on."""
    (made, say), (wait, go) = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        library = ctypes.CDLL(None)
        library.prctl(DIES_WITH_PARENT, signal.SIGKILL)
        if library.unshare(NEW_NETWORK):
            os._exit(1)
        os.write(say, b".")
        os.read(wait, 1)
        try:
            live(server, folder / name, name, address(number))
        finally:
            os._exit(1)
    os.read(made, 1)
    for end in (say, wait, made):
        os.close(end)
    return pid, go


def address(number: int) -> str:
    return f"10.9.{number // 250}.{number % 250 + 1}"


def main() -> None:
    server, folder, first, names = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4:]
    children = [fork(server, folder, name, number) for number, name in enumerate(names, first)]
    lines = []
    for number, (pid, _) in enumerate(children, first):
        device = f"to-{number}"
        lines += [f"link add {device} type veth peer name eth0 netns {pid}", f"link set {device} up"]
        lines.append(f"route add {address(number)}/32 dev {device}")
    run("\n".join(lines))
    for name, (pid, go) in zip(names, children, strict=True):
        print(name, pid, flush=True)
        os.write(go, b".")
    signal.sigwait({signal.SIGTERM})  # the agents end with this process


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    main()
