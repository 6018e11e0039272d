"""Which Equus runs: starting this one anew, trying a newer one out, and going back from one that gets nowhere.

*Anew*: a `reload` arrives and the installed package is another one than runs. *Newer*: the manifest brings one and the
host's policy allows it (upgrading.py); it lies under STATE/upgrade (upgrade.py). Then this process becomes a stage0,
which starts the newer agent as its child and waits until that says, on a pipe, that it has told Helen `loaded`. If so
the child ends and stage0 becomes the newer agent; if not, it becomes the older one again. So the process id stays what
the machine's init knows. What a version must keep to for those before and behind it is in docs/agent.rst.
"""

from __future__ import annotations

import functools
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import NoReturn

from equus.sandbox.process import die_with_parent
from equus.upgrade import MAX_STARTS, Upgrades, is_newer

DISTRIBUTION = "helen-equus"
HEALTH_SECONDS = 60.0  # that a newer version has until it must have told Helen `loaded`
END_SECONDS = 6.0  # that it has to end by itself; SIGTERM promises five
LOADED_FD = "EQUUS_LOADED_FD"  # the pipe on which a version that is tried out says `loaded`
RUNS = "EQUUS_RUNS"  # the version under STATE/upgrade that this process image is
BASE_PATH = "EQUUS_BASE_PYTHONPATH"  # what PYTHONPATH was before any of this


def installed_version() -> str:
    """Of the package that Python finds first, as it is now on disk. Blocking: it reads the metadata."""
    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:
        return "0"


def command(arguments: Sequence[str]) -> list[str]:
    """What runs this agent again, in this interpreter; -P: never what lies in the folder that we were started in."""
    return [sys.executable, "-P", "-m", "equus.main", *arguments]


def restart(arguments: Sequence[str]) -> NoReturn:
    """Replace this process. Everything that must be flushed has been."""
    _become(command(arguments), os.environ)


def _become(words: list[str], environment: Mapping[str, str]) -> NoReturn:
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(words[0], words, dict(environment))


def environment_of(place: Path | None, known: str, given: Mapping[str, str]) -> dict[str, str]:
    """For a process that runs the version that lies there; None: the installed one."""
    environment = {name: value for name, value in given.items() if name not in (RUNS, LOADED_FD, BASE_PATH)}
    base = given.get(BASE_PATH, given.get("PYTHONPATH", "")) if RUNS in given else given.get("PYTHONPATH", "")
    environment.pop("PYTHONPATH", None)
    path = [str(place)] if place is not None else []
    if path or base:
        environment["PYTHONPATH"] = os.pathsep.join([*path, *([base] if base else [])])
    return environment if place is None else environment | {RUNS: known, BASE_PATH: base}


# ---------------------------------------------------------------------------------------------------- at the start


def step_aside(state: Path, is_allowed: bool, arguments: Sequence[str]) -> None:
    """At the start of the installed agent: become the newer version that has been proven here, if there is one.

    One that does not come up any more (it is counted, and agents that come up say so) is given up.
    """
    upgrades = Upgrades(state)
    current = upgrades.standing().current
    if current is None or RUNS in os.environ or not is_allowed:
        return
    if not is_newer(current, installed_version()) or not upgrades.place(current).is_dir():
        return
    if upgrades.count_start() > MAX_STARTS:
        why = f"it had been proven, and then did not come up {MAX_STARTS} times in a row"
        upgrades.give_up(current, why)
        _say(f"Equus {current} is given up: {why}; the installed one runs")
        return
    _become(command(arguments), environment_of(upgrades.place(current), current, os.environ))


def say_loaded() -> None:
    """Helen has been told `loaded`: if somebody waits to hear whether this version is any good, it is."""
    descriptor = os.environ.pop(LOADED_FD, None)
    if descriptor is not None:
        with suppress(OSError, ValueError):
            os.write(int(descriptor), b"loaded\n")
            os.close(int(descriptor))


# ---------------------------------------------------------------------------------------------------- trying out


def try_out(state: Path, newer: str, arguments: Sequence[str]) -> NoReturn:
    """Become the stage0 of a version that has been installed. The agent has ended: nothing of it holds the state."""
    _become([sys.executable, "-P", "-m", "equus.stage0", str(state), newer, *arguments], os.environ)


class Trial:
    """One newer version and its sixty seconds."""

    def __init__(self, state: Path, newer: str, arguments: Sequence[str]) -> None:
        self._upgrades = Upgrades(state)
        self._newer = newer
        self._arguments = arguments
        self._is_told_to_end = False
        self._child: subprocess.Popen[bytes] | None = None

    def run(self) -> NoReturn:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._end)
        signal.signal(signal.SIGHUP, self._pass_on)
        place = self._upgrades.place(self._newer)
        reading, writing = os.pipe()
        self._child = subprocess.Popen(
            command(self._arguments),
            env=environment_of(place, self._newer, os.environ) | {LOADED_FD: str(writing)},
            pass_fds=[writing],
            preexec_fn=functools.partial(die_with_parent, os.getpid()),
        )
        os.close(writing)
        why = self._wait(reading)
        os.close(reading)
        self._stop_child()
        if self._is_told_to_end:
            sys.exit(0)
        if why is None:
            self._upgrades.prove(self._newer)
            _become(command(self._arguments), environment_of(place, self._newer, os.environ))
        self._upgrades.give_up(self._newer, why)
        _say(f"Equus {self._newer} is undone: {why}; the one before runs again")
        restart(self._arguments)

    def _wait(self, reading: int) -> str | None:
        """None once it has said `loaded`, else why it won't."""
        assert self._child is not None
        until = time.monotonic() + HEALTH_SECONDS
        while (left := until - time.monotonic()) > 0 and not self._is_told_to_end:
            ready, _, _ = select.select([reading], [], [], min(left, 0.2))
            if not ready:
                continue
            if os.read(reading, 64).startswith(b"loaded"):
                return None
            return f"it ended with status {self._child.wait()} before it had told Helen what it loaded"
        return f"it had not told Helen what it loaded within {HEALTH_SECONDS:g} s"

    def _stop_child(self) -> None:
        assert self._child is not None
        self._child.terminate()
        try:
            self._child.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()

    def _end(self, *_: object) -> None:
        self._is_told_to_end = True

    def _pass_on(self, number: int, _: object) -> None:
        if self._child is not None:
            self._child.send_signal(number)


def _say(sentence: str) -> None:
    """On the error stream, as the agent's log does; there is no logger here."""
    prefix = "<3>" if os.environ.get("JOURNAL_STREAM") else time.strftime("%Y-%m-%dT%H:%M:%SZ error    ", time.gmtime())
    print(f"{prefix}{sentence}", file=sys.stderr, flush=True)


def main() -> NoReturn:
    state, newer, *arguments = sys.argv[1:]
    Trial(Path(state), newer, arguments).run()


if __name__ == "__main__":
    main()
