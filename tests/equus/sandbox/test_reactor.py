"""Test the sandbox under Twisted's reactor, as an ordinary user, and for a long run."""

import ctypes
import json
import os
import random
import re
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from equus.processes.process import python_environment
from equus.sandbox.blocking import Sandbox
from equus.sandbox.job import Job

HERE = Path(__file__).parent
PATIENCE = 60.0  # seconds for anything on a busy machine


def run_program(*command: str, **settings: Any) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, *command],
        env=python_environment(HERE / "registry"),
        capture_output=True,
        timeout=60,
        **settings,
    )
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


def test_under_twisted() -> None:
    """Under the real reactor, with the zygote killed half way, each job has one result, no reader is left, and the
    reactor ends.
    """
    found = run_program(str(HERE / "under_twisted.py"))
    by_check = {result["check"]: result for result in found["results"]}
    assert by_check.keys() == {*map(str, range(60)), "endless", "greedy"}
    assert len(found["results"]) == 62
    assert found["leftovers"] == 0
    killed = {name for name, result in by_check.items() if result.get("reason") == "killed"}
    assert len(killed) <= 8  # those that ran when the zygote was killed
    assert all(by_check[str(n)]["summary"] == str(n) for n in range(60) if str(n) not in killed)
    assert by_check["endless"]["reason"] in ("timeout", "killed")
    assert by_check["greedy"]["reason"] in ("memory", "killed")


AS_A_USER = """
import json, os, sys
from equus.sandbox.blocking import Sandbox
from equus.sandbox.job import Job
with Sandbox() as sandbox:
    good = b"return {summary='s', needs={'host'}, run=function(a, h) return 'ok', h.info().system end}"
    bad = b"return {summary='s', timeout='300ms', run=function() while true do end end}"
    documents = [json.loads(sandbox.run(Job('t', source))) for source in (good, bad)]
    family = {os.stat(f'/proc/{child.pid}').st_uid for child in (sandbox.processes.zygote, sandbox.processes.broker)}
    found = [*os.getresuid(), *family, sandbox.runner.isolation, documents[0]['summary'], documents[1]['reason']]
    json.dump(found, sys.stdout)
"""
NOBODY = 65_534
_KEEP_CAPABILITIES, _AMBIENT, _RAISE = 8, 47, 2  # PR_SET_KEEPCAPS, PR_CAP_AMBIENT and its PR_CAP_AMBIENT_RAISE
_READ_ANYTHING = (2, 1)  # CAP_DAC_READ_SEARCH; CAP_DAC_OVERRIDE where a container has only that


def become_nobody() -> None:
    """Become an ordinary user for good, between fork and exec, that can still read root's folders.

    The interpreter, its packages or this checkout may lie where only root can read. The one of root's capabilities that
    reads is kept; the zygote drops it, and nothing that is tested here asks for it.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    mine = int(re.search(r"CapPrm:\s*([0-9a-f]+)", Path("/proc/self/status").read_text())[1], 16)
    kept = next((number for number in _READ_ANYTHING if mine >> number & 1), None)
    libc.prctl(_KEEP_CAPABILITIES, 1, 0, 0, 0)
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)
    if kept is not None:
        sets = struct.pack("=IIIIII", *[1 << kept] * 3, 0, 0, 0)
        assert libc.capset(struct.pack("=Ii", 0x20080522, 0), sets) == 0
        assert libc.prctl(_AMBIENT, _RAISE, kept, 0, 0) == 0


def test_as_an_ordinary_user() -> None:
    """Strong isolation needs no privilege, neither for the agent nor for its workers: this test never runs them as
    root.
    """
    settings: dict[str, Any] = {"preexec_fn": become_nobody} if os.geteuid() == 0 else {}
    found: Any = run_program("-c", AS_A_USER, cwd="/", **settings)
    user = NOBODY if settings else os.geteuid()
    assert user != 0
    assert found == [user] * 4 + ["strong", "Linux", "timeout"]


ATTACKS = (
    "while true do end",
    'local s = "x" while true do s = s .. s end',
    "error('no')",
    'while true do print(string.rep("x", 1000)) end',
    "local function f() return coroutine.wrap(f)() end f()",
    "while true do host.echo(1) end",
    "return 'ok', string.rep('x', 3 * 1048576)",
)


def resident_kib(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * (os.sysconf("SC_PAGE_SIZE") // 1024)


@pytest.mark.adversary(32)
def test_a_short_soak(
    new_sandbox: Callable[..., Sandbox], job: Callable[..., Job], settle: Callable[[Sandbox], None]
) -> None:
    """Attacks and honest checks mixed at random leave each honest one right, and nothing grows."""
    order = random.Random(7)
    with new_sandbox() as sandbox:
        json.loads(sandbox.run(job("return 'ok'")))
        pids = (sandbox.processes.zygote.pid, sandbox.processes.broker.pid, os.getpid())
        wrong: list[Any] = []
        left = 0

        def judge(expected: str) -> Callable[[bytes], None]:
            def done(blob: bytes) -> None:
                nonlocal left
                left -= 1
                document = json.loads(blob)
                if expected and document.get("summary") != expected:
                    wrong.append((expected, document))

            return done

        def batch(size: int) -> None:
            nonlocal left
            for number in range(size):
                left += 1
                if order.random() < 0.25:
                    sandbox.runner.run(job(order.choice(ATTACKS), timeout=0.15), judge(""))
                else:
                    sandbox.runner.run(job(f"return 'ok', host.echo('n{number}')[1]"), judge(f"n{number}"))
            sandbox.loop.until(lambda: left == 0, PATIENCE)
            settle(sandbox)

        batch(60)
        before = [(len(os.listdir(f"/proc/{pid}/fd")), resident_kib(pid)) for pid in pids]
        batch(200)
        # The broker's threads close their ends a moment after the workers theirs, those of the first batch as well.
        sandbox.loop.until(
            lambda: all(len(os.listdir(f"/proc/{pid}/fd")) <= then[0] for pid, then in zip(pids, before, strict=True)),
            PATIENCE,
        )
        after = [(len(os.listdir(f"/proc/{pid}/fd")), resident_kib(pid)) for pid in pids]
        assert wrong == []
        assert all(now[1] - then[1] < 1024 for now, then in zip(after, before, strict=True)), (before, after)
        assert (sandbox.processes.zygote.pid, sandbox.processes.broker.pid) == pids[:2]
