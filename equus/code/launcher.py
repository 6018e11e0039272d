"""Replace the running agent by another version: restart it, try a newer one, go back from one that fails.

*Restart*: a `reload` arrives and the installed package is another version than the running one. *Newer version*: the
manifest offers one and the host's policy allows it (agent_upgrade.py); it lies under STATE/upgrade (agent_versions.py).
Then this process becomes a launcher, which starts the newer agent as its child and waits until that reports, on a pipe,
that it has sent `loaded` to Helen. If so the child ends and the launcher becomes the newer agent; if not, it becomes
the older one again. So the process id stays the one that the machine's init knows. docs/agent.rst lists what each
version must do for older and newer ones.
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

from equus.code.agent_versions import MAX_STARTS, AgentVersions, is_newer
from equus.processes.process import die_with_parent

DISTRIBUTION = "helen-equus"
TRIAL_SECONDS = 60.0  # in which a newer version must have sent `loaded` to Helen
END_SECONDS = 6.0  # in which it must end after SIGTERM; agents promise five
LOADED_FD = "EQUUS_LOADED_FD"  # the pipe on which a version in trial reports that it has loaded
RUNNING_VERSION = "EQUUS_RUNS"  # the version under STATE/upgrade that this process runs
BASE_PATH = "EQUUS_BASE_PYTHONPATH"  # PYTHONPATH of the installed agent


_read_at: tuple[tuple[int | None, ...], str] = ((), "0")  # the folders of the path, and the version found in them


def installed_version() -> str:
    """Return the version of the installed package as it is now on disk. Blocking.

    The metadata is read only if a folder of the path has changed, as each installation changes one: an agent asks with
    each set of checks, and to read the metadata took a fifth of what that costs it.
    """
    global _read_at
    folders = tuple(map(_changed_at, sys.path))
    if _read_at[0] != folders:
        try:
            _read_at = folders, version(DISTRIBUTION)
        except PackageNotFoundError:  # or no descriptor was left to look with: that is not remembered
            return "0"
    return _read_at[1]


def _changed_at(folder: str) -> int | None:
    try:
        return os.stat(folder or ".").st_mtime_ns
    except OSError:
        return None


def command(arguments: Sequence[str]) -> list[str]:
    """Return the command that runs the agent again in this interpreter.

    With -P no module of the folder in which the agent was started can take the place of ours.
    """
    return [sys.executable, "-P", "-m", "equus.main", *arguments]


def restart(arguments: Sequence[str]) -> NoReturn:
    """Replace this process by the agent that is installed now. The caller has closed and synced its files."""
    _exec(command(arguments), os.environ)


def _exec(words: list[str], environment: Mapping[str, str]) -> NoReturn:
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(words[0], words, dict(environment))


def environment_of(folder: Path | None, running: str, given: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a process that runs the version `running` in a folder; None: the installed one."""
    ours = (RUNNING_VERSION, LOADED_FD, BASE_PATH)
    environment = {name: value for name, value in given.items() if name not in ours}
    base = given.get("PYTHONPATH", "")
    if RUNNING_VERSION in given:
        base = given.get(BASE_PATH, base)
    environment.pop("PYTHONPATH", None)
    path = [str(folder)] if folder is not None else []
    if path or base:
        environment["PYTHONPATH"] = os.pathsep.join([*path, *([base] if base else [])])
    return environment if folder is None else environment | {RUNNING_VERSION: running, BASE_PATH: base}


# ---------------------------------------------------------------------------------------------------- at the start


def start_current_version(state: Path, is_allowed: bool, arguments: Sequence[str]) -> None:
    """Become the newer version that was confirmed on this host, if there is one; else return.

    The installed agent calls it at its start. A version that does not come up any more is marked as failed: starts are
    counted here, and an agent that comes up resets the count.
    """
    versions = AgentVersions(state)
    try:
        current = versions.state().current
    except OSError as error:  # of a disk that fails: checks run all the same
        _print_error(
            f"which version to run can't be read ({error}), so the installed one runs: mend the disk, then restart it"
        )
        return
    if current is None or RUNNING_VERSION in os.environ or not is_allowed:
        return
    if not is_newer(current, installed_version()) or not versions.folder_of(current).is_dir():
        return
    try:
        starts = versions.count_start()
    except OSError as error:  # a disk that fails is no fault of this version
        _print_error(f"the start of Equus {current} can't be counted: {error}")
        starts = 1
    if starts > MAX_STARTS:
        why = f"it had been proven, and then did not come up {MAX_STARTS} times in a row"
        versions.mark_failed(current, why)
        _print_error(f"Equus {current} is given up: {why}; the installed one runs")
        return
    _exec(command(arguments), environment_of(versions.folder_of(current), current, os.environ))


def report_loaded() -> None:
    """Report to the launcher, if this version is in trial, that `loaded` has been sent to Helen."""
    descriptor = os.environ.pop(LOADED_FD, None)
    if descriptor is not None:
        with suppress(OSError, ValueError):
            os.write(int(descriptor), b"loaded\n")
            os.close(int(descriptor))


# ---------------------------------------------------------------------------------------------------- trying out


def try_out(state: Path, newer: str, arguments: Sequence[str]) -> NoReturn:
    """Replace this process by a launcher that tries a newer version. The agent has ended and released its state."""
    _exec([sys.executable, "-P", "-m", "equus.code.launcher", str(state), newer, *arguments], os.environ)


class Trial:
    """Runs the trial of one newer version, which has TRIAL_SECONDS to load its checks."""

    def __init__(self, state: Path, newer: str, arguments: Sequence[str]) -> None:
        self._versions = AgentVersions(state)
        self._newer = newer
        self._arguments = arguments
        self._is_told_to_end = False
        self._child: subprocess.Popen[bytes] | None = None

    def run(self) -> NoReturn:
        """Start the newer version, wait for its report, and become that version or the one before."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._end)
        signal.signal(signal.SIGHUP, self._pass_on)
        folder = self._versions.folder_of(self._newer)
        reading, writing = os.pipe()
        self._child = subprocess.Popen(
            command(self._arguments),
            env=environment_of(folder, self._newer, os.environ) | {LOADED_FD: str(writing)},
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
            self._versions.confirm(self._newer)
            _exec(command(self._arguments), environment_of(folder, self._newer, os.environ))
        self._versions.mark_failed(self._newer, why)
        _print_error(f"Equus {self._newer} is undone: {why}; the one before runs again")
        restart(self._arguments)

    def _wait(self, reading: int) -> str | None:
        """Return None once the version has reported that it loaded, else why it won't."""
        assert self._child is not None
        until = time.monotonic() + TRIAL_SECONDS
        while (left := until - time.monotonic()) > 0 and not self._is_told_to_end:
            ready, _, _ = select.select([reading], [], [], min(left, 0.2))
            if not ready:
                continue
            if os.read(reading, 64).startswith(b"loaded"):
                return None
            return f"it ended with status {self._child.wait()} before it had told Helen what it loaded"
        return f"it had not told Helen what it loaded within {TRIAL_SECONDS:g} s"

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


def _print_error(sentence: str) -> None:
    """Print to the error stream in the form of the agent's log, because no logger runs here."""
    prefix = "<3>" if os.environ.get("JOURNAL_STREAM") else time.strftime("%Y-%m-%dT%H:%M:%SZ error    ", time.gmtime())
    print(f"{prefix}{sentence}", file=sys.stderr, flush=True)


def main() -> NoReturn:
    """Try a newer version; the arguments are the state folder, the version, and the arguments of the agent."""
    state, newer, *arguments = sys.argv[1:]
    Trial(Path(state), newer, arguments).run()


if __name__ == "__main__":
    main()
