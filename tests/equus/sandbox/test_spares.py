"""Test workers that wait for a run: each is given to one, holds nothing before, and goes when its settings change."""

import json
import os
import select
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from equus.policy.policy import Policy
from equus.sandbox.blocking import Sandbox
from equus.sandbox.job import Job
from equus.sandbox.spares import SPARES, Spares, Worker

PATIENCE = 60.0  # seconds for anything on a busy machine
MakeJob = Callable[..., Job]
Settle = Callable[[Sandbox], None]


@pytest.fixture
def own(new_sandbox: Callable[..., Sandbox], settle: Settle) -> Iterator[Sandbox]:
    """Yield a sandbox of this test's own, whose processes it may kill."""
    with new_sandbox() as sandbox:
        settle(sandbox)
        yield sandbox


def pid_of(pidfd: int | None) -> int:
    words = Path(f"/proc/self/fdinfo/{pidfd}").read_text().split()
    return int(words[words.index("Pid:") + 1])


def spares(sandbox: Sandbox) -> list[int]:
    """Return the ids of the processes that wait for a run."""
    return [pid_of(worker.pidfd) for worker in sandbox.runner._spares._waiting.values()]


def confined(sandbox: Sandbox) -> list[int]:
    """Wait until each spare is confined as a worker is before it reads its job, and return their process ids."""
    waiting, filtered = spares(sandbox), "2" if sandbox.runner.isolation == "strong" else "0"
    deadline = time.monotonic() + PATIENCE
    while any(
        status_of(pid)["Seccomp"] != filtered or limit_of(pid, "address space") == "unlimited" for pid in waiting
    ):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return waiting


def limit_of(pid: int, name: str) -> str:
    """Return the hard limit of a process."""
    return Path(f"/proc/{pid}/limits").read_text().split(f"Max {name} ")[1].split()[1]


def lives(pid: int) -> bool:
    """Return False for one that has ended, also where nobody has reaped it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def are_gone(pids: list[int]) -> None:
    """Wait until these processes have ended."""
    deadline = time.monotonic() + PATIENCE
    while any(map(lives, pids)):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def status_of(pid: int) -> dict[str, str]:
    rows = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (row.partition(":") for row in rows)}


@pytest.mark.adversary(32)
def test_a_worker_has_one_run_and_ends(own: Sandbox, job: MakeJob, settle: Settle) -> None:
    """Each run gets the oldest spare; no worker is used twice, and none is left."""
    used: list[int] = []
    for number in range(12):
        waiting = own.runner._spares._waiting
        assert len(waiting) == SPARES
        oldest = min(waiting)
        used.append(pid_of(waiting[oldest].pidfd))
        results: list[bytes] = []
        run = own.runner.run(job(f"last = (last or 'none') return 'ok', last .. {number}"), results.append)
        own.loop.until(lambda results=results: results, PATIENCE)
        assert run.worker == oldest
        assert json.loads(results[0])["summary"] == f"none{number}"
        settle(own)
    assert len(set(used)) == 12
    are_gone(used)


@pytest.mark.adversary(34)
def test_what_a_spare_holds(own: Sandbox) -> None:
    """A spare holds what a running worker holds: empty standard streams, two sockets, the filter, and no privileges."""
    for pid in confined(own):
        folder = Path(f"/proc/{pid}/fd")
        found = {int(entry.name): os.readlink(entry) for entry in folder.iterdir()}
        assert found.keys() == {0, 1, 2, 3, 4}
        assert {found[number] for number in (0, 1, 2)} == {"/dev/null"}
        assert found[3].startswith("socket:") and found[4].startswith("socket:")
        status = status_of(pid)
        assert (status["NoNewPrivs"], status["CapPrm"].strip("0"), status["Threads"]) == ("1", "", "1")
        limits = {name: limit_of(pid, name) for name in ("processes", "open files", "file size", "core file size")}
        assert limits == {"processes": "0", "open files": "16", "file size": "0", "core file size": "0"}


def test_the_job_lowers_the_limit_of_cpu_time(own: Sandbox, job: MakeJob) -> None:
    """A spare may compute as long as the policy allows, and the run that it gets no longer than the run's own time."""
    assert {limit_of(pid, "cpu time") for pid in confined(own)} == {"303"}  # 300 s, and the grace of both limits
    results: list[bytes] = []
    run = own.runner.run(job("while true do end", timeout=20.0), results.append)
    own.loop.until(lambda: run.worker, PATIENCE)
    pid, deadline = pid_of(run.pidfd), time.monotonic() + PATIENCE
    while limit_of(pid, "cpu time") != "23":
        assert time.monotonic() < deadline
        time.sleep(0.01)
    run.cancel()
    own.loop.until(lambda: results, PATIENCE)


@pytest.mark.parametrize("change", ["policy", "broker", "zygote"])
def test_they_go_when_what_they_were_made_with_changes(own: Sandbox, job: MakeJob, settle: Settle, change: str) -> None:
    """Spares are replaced when the policy's limits, the broker or the zygote change."""
    before = spares(own)
    if change == "policy":
        own.runner.reload(Policy.parse(b"[limits]\nmemory_mib = 40\n", None))
    else:
        os.kill(getattr(own.processes, change).pid, signal.SIGKILL)
        own.loop.until(lambda: not own.runner.ready, PATIENCE)
    settle(own)
    assert not set(spares(own)) & set(before)
    are_gone(before)
    assert json.loads(own.run(job("return 'ok', host.echo('x')[1]")))["summary"] == "x"
    hungry = json.loads(own.run(job("return 'ok', #string.rep('x', 30 * 2^20 | 0)")))
    assert hungry.get("reason") == ("memory" if change == "policy" else None)


@pytest.mark.adversary(37)
def test_a_spare_that_is_killed_costs_no_run(own: Sandbox, job: MakeJob, settle: Settle) -> None:
    """A spare that is killed costs no run: it is forgotten, and another one is made once a run is over."""
    killed = spares(own)
    for pid in killed:
        os.kill(pid, signal.SIGKILL)
    own.loop.until(lambda: not own.runner.spare, PATIENCE)
    assert json.loads(own.run(job("return 'ok', 'fine'")))["summary"] == "fine"
    settle(own)
    assert not set(spares(own)) & set(killed)


def test_more_runs_than_spares(own: Sandbox, job: MakeJob, settle: Settle) -> None:
    """Runs without a spare wait for a fork, and each has its result."""
    summaries: list[str] = []
    for number in range(30):
        own.runner.run(job(f"return 'ok', '{number}'"), lambda blob: summaries.append(json.loads(blob)["summary"]))
    own.loop.until(lambda: len(summaries) == 30, PATIENCE)
    assert sorted(summaries, key=int) == [str(number) for number in range(30)]
    settle(own)


def test_a_sandbox_that_stops_ends_them(new_sandbox: Callable[..., Sandbox], settle: Settle) -> None:
    """A sandbox that stops leaves no spare process and no descriptor."""
    descriptors = len(os.listdir("/proc/self/fd"))
    with new_sandbox() as sandbox:
        settle(sandbox)
        waiting = spares(sandbox)
        assert len(waiting) == SPARES
    are_gone(waiting)
    assert len(os.listdir("/proc/self/fd")) <= descriptors + 1  # one for the loop's own poll


# ------------------------------------------------------------------------------------------------ without processes


def test_a_zygote_that_is_out_of_reach() -> None:
    """A zygote that cannot be reached leaves no spare, and a run that needs a worker learns it."""
    asked: list[int] = []
    few = Spares(lambda number, job, calls: bool(asked.append(number)), 3)
    few.fill()
    assert (asked, few.ready) == ([1], 0)
    worker = few.take()
    assert (worker.number, worker.is_asked_for) == (2, False)
    worker.close()


def test_no_descriptors_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without descriptors there are no spares, and nothing stays open of a worker that could not be made."""
    before, left, pair = len(os.listdir("/proc/self/fd")), [1], socket.socketpair

    def socketpair(*args: Any) -> Any:
        if not left:
            raise OSError(24, "Too many open files")
        left.pop()
        return pair(*args)

    monkeypatch.setattr(socket, "socketpair", socketpair)
    few = Spares(lambda number, job, calls: True)
    few.fill()
    assert few._waiting == {}
    with pytest.raises(OSError, match="Too many open files"):
        few.take()
    assert len(os.listdir("/proc/self/fd")) <= before


def test_one_that_was_not_made_is_no_spare() -> None:
    """A worker that the zygote could not fork is no spare, and no other one is asked for at once."""
    asked: list[int] = []
    few = Spares(lambda number, job, calls: not asked.append(number))
    few.fill()
    assert asked == [1, 2]
    assert few.ended(1) and not few.ended(1) and not few.started(1, 0)
    assert asked == [1, 2]
    few.fill()
    assert asked == [1, 2, 3]
    worker = few.take()
    assert isinstance(worker, Worker) and worker.number == 2
    worker.close()
    few.discard()
    assert few._waiting == {}


def test_a_spare_that_was_just_killed_is_not_given_out() -> None:
    """Dead spares are passed over before their end is reported, and the run gets the next one."""
    kept = Spares(lambda number, job, calls: True)
    kept.fill()
    first, second = list(kept._waiting)
    ended = subprocess.Popen(["/bin/true"])
    pidfd = os.pidfd_open(ended.pid)
    assert select.select([pidfd], [], [], PATIENCE)[0]
    assert kept.started(first, pidfd)
    taken = kept.take()
    assert (taken.number, list(kept._waiting)) == (second, [])
    kept.fill()
    for number in list(kept._waiting):
        kept.started(number, os.pidfd_open(ended.pid))
    new = kept.take()
    assert new.pidfd is None and not kept._waiting
    ended.wait()
    for worker in (taken, new):
        worker.close()
