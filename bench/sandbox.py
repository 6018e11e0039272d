#!/usr/bin/env python3
"""Measures what a check costs in the sandbox, beside the same work in one process; and runs a soak of attacks.

    bench/sandbox.py [--count N]            the figures, about 20 s
    bench/sandbox.py --soak SECONDS         attacks and honest checks at random; fails on one wrong answer

Targets: a check p50 <= 2 ms, a host call p50 <= 100 us, kill and reap p99 <= 10 ms. Each of these is wall time on this
machine with whatever else runs on it; the load average is printed with them. The CPU of a run is that of all four
processes. Its floor is a process with the same modules that forks and does nothing: a child for each run can't cost
less than that.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lupa.lua54 import LuaRuntime

from equus.processes.process import python_environment
from equus.sandbox.blocking import Sandbox
from equus.sandbox.job import Job

CHECK = """
local check = {{ summary = "bench", needs = {{ "host" }}, args = {{ warn = {{ type = "range", default = "80" }} }} }}
function check.run(args, host)
  {body}
end
return check
"""
TYPICAL = """
  local seen = {}
  local text = string.rep("MemTotal:  24684000 kB\\n", 40)
  for key, value in text:gmatch("(%w+):%s+(%d+) kB") do seen[key] = tonumber(value) end
  host.metric("used", 41.5, { unit = "%", warn = args.warn, crit = "90", labels = { path = "/" } })
"""
# The same without a host: what lupa alone takes in the agent's own process, which is what the sandbox is the price of.
IN_PROCESS = (
    "return function() local metrics = {} local host = { metric = function(...) metrics[1] = {...} end } "
    'local args = { warn = "80" } ' + TYPICAL + " return metrics end"
)

ROUNDS = 5
# Prints the milliseconds of CPU that a fork and the end of the child take in the zygote: as it is loaded, and with the
# pages pinned that its workers write to.
FLOOR = """
import gc, os, socket, sys
from equus.processes.forking import prepare
prepare()
from equus.sandbox import zygote as z
interpreter = z.Interpreter()
z.rehearse()
gc.collect(), gc.freeze(), gc.disable()
z.prctl(z.PR_SET_NO_NEW_PRIVS, 1)
control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
zygote = z.Zygote(control, interpreter, z.Confinement(os.getpid(), z.address_space(), z.Filter()), True)
def fork():
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
def forks(count):
    for _ in range(20):
        fork()
    before = os.times()
    for _ in range(count):
        fork()
    print(sum(b - a for a, b in list(zip(before, os.times()))[:4]) / count * 1e3)
forks(int(sys.argv[1]))
interpreter.settle()
zygote._pin_pages()
forks(int(sys.argv[1]))
"""
# The same in a C program that has nothing loaded.
FLOOR_C = r"""
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
static double used(int whose) {
    struct rusage usage;
    getrusage(whose, &usage);
    return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e3
        + (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e3;
}
int main(int argc, char **argv) {
    int count = argc > 1 ? atoi(argv[1]) : 1;
    for (int i = 0; i < count; i++) {
        pid_t pid = fork();
        if (pid == 0) _exit(0);
        waitpid(pid, NULL, 0);
    }
    printf("%f\n", (used(RUSAGE_SELF) + used(RUSAGE_CHILDREN)) / count);
}
"""

ATTACKS = {
    "loop": "while true do end",
    "pcall loop": "while true do pcall(function() while true do end end) end",
    "coroutine loop": "coroutine.wrap(function() while true do end end)()",
    "handler loop": "xpcall(error, function() while true do end end)",
    "pattern": 'string.find(string.rep("a", 40), string.rep(".-", 12) .. "b")',
    "table.move": "table.move({}, 1, math.maxinteger - 1, 2)",
    "doubled string": 'local s = "x" while true do s = s .. s end',
    "tables": "local t = {} while true do t[#t + 1] = {} end",
    "gsub recursion": 'local function f() return (string.gsub("x", "x", f)) end f()',
    "resume recursion": "local function f() return coroutine.wrap(f)() end f()",
    "flood": 'while true do print(string.rep("z", 1000)) end',
    "poison": "_G.error = nil string.format = nil setmetatable(_G, {__index = error}) error()",
    "calls": "while true do host.uptime() end",
    "long text": 'return "ok", string.rep("x", 3 * 1048576)',
}


def milliseconds(action: Callable[[], Any], count: int) -> list[float]:
    taken = []
    for _ in range(count):
        began = time.perf_counter()
        action()
        taken.append((time.perf_counter() - began) * 1e3)
    return sorted(taken)


def line(what: str, taken: list[float], unit: str = "ms", target: str = "") -> None:
    factor = 1e3 if unit == "us" else 1
    p50, p99 = (taken[int(len(taken) * part)] * factor for part in (0.5, 0.99))
    print(f"{what:<46} p50 {p50:8.2f} {unit}   p99 {p99:8.2f} {unit}   min {taken[0] * factor:8.2f} {unit}   {target}")


def job(body: str, **settings: Any) -> Job:
    return Job("bench", CHECK.format(body=body).encode(), **settings)


def figures(count: int) -> None:
    lua = LuaRuntime(encoding=None, register_eval=False, register_builtins=False)
    line("in process: load and run the typical check", milliseconds(lambda: lua.execute(IN_PROCESS)(), count))
    began = time.perf_counter()
    with Sandbox() as sandbox:
        sandbox.run(job("return 'ok'"))
        print(f"{'both processes started, first result':<46}     {(time.perf_counter() - began) * 1e3:8.0f} ms")
        trivial = one_by_one(sandbox, job("return 'ok'"), count)
        line('sandbox: return "ok"', trivial, target="<= 2 ms")
        line("sandbox: the typical check", one_by_one(sandbox, job(TYPICAL), count), target="<= 2 ms")
        cpu(sandbox, count)
        throughput(sandbox, count)
        calls(sandbox)
        kills(sandbox, min(count, 100))
        memory(sandbox)


def one_by_one(sandbox: Sandbox, each: Job, count: int) -> list[float]:
    """From run() to the result, each after the end of the worker before it."""
    taken = []
    for _ in range(count):
        taken += milliseconds(lambda: sandbox.run(each), 1)
        sandbox.loop.until(lambda: not sandbox.runner.running, 5)
    return sorted(taken)


def cpu(sandbox: Sandbox, count: int) -> None:
    """Return the CPU of one run by process, and the floors of this machine at this moment: medians of interleaved
    rounds.
    """
    rounds: list[tuple[float, ...]] = []
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder, "floor")
        Path(folder, "floor.c").write_text(FLOOR_C)
        subprocess.run(["cc", "-O2", "-o", program, f"{program}.c"], check=True)
        floors = ([sys.executable, "-c", FLOOR, str(count)], [str(program), str(count)])
        for _ in range(ROUNDS):
            told = [subprocess.run(each, env=python_environment(), capture_output=True, check=True) for each in floors]
            rounds.append((*one_round(sandbox, count), *(float(row) for each in told for row in each.stdout.split())))
    agent, forks, workers, calls, bare, pinned, in_c = (statistics.median(each) for each in zip(*rounds, strict=True))
    total = statistics.median(sum(each[:4]) for each in rounds)
    least, most = min(sum(each[:4]) for each in rounds), max(sum(each[:4]) for each in rounds)
    print(
        f"{'CPU of the typical check':<46}     {total:8.2f} ms ({least:.2f} to {most:.2f}): worker {workers:.2f}, "
        f"zygote {forks:.2f}, agent {agent:.2f}, broker {calls:.2f}\n"
        f"{'a fork alone, and the end of the child':<46}     {bare:8.2f} ms of the same Python, {pinned:.2f} with its "
        f"pages pinned, {in_c:.2f} of a C program; {total / bare:.1f} x"
    )


def one_round(sandbox: Sandbox, count: int) -> list[float]:
    """Return the milliseconds of agent, zygote, workers and broker for one run, from so many."""
    zygote, broker = sandbox.processes.zygote.pid, sandbox.processes.broker.pid
    marks = []
    for _ in range(2):
        marks.append((time.process_time(), cpu_of(zygote), cpu_of_children(zygote), cpu_of(broker)))
        if len(marks) == 1:
            one_by_one(sandbox, job(TYPICAL), count)
    return [(after - before) / count * 1e3 for before, after in zip(*marks, strict=True)]


def cpu_of(pid: int) -> float:
    """Seconds of CPU of a process, with all its threads; CPUCLOCK_SCHED of linux/posix-timers.h."""
    return time.clock_gettime(~pid << 3 | 2)


def cpu_of_children(pid: int) -> float:
    """Seconds of CPU of the children that this process has waited for."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")


def throughput(sandbox: Sandbox, count: int) -> None:
    results: list[bytes] = []
    before, began = os.times(), time.perf_counter()
    for _ in range(count):
        sandbox.runner.run(job(TYPICAL), results.append)
    sandbox.loop.until(lambda: len(results) == count, 60)
    took, after = time.perf_counter() - began, os.times()
    cpu = statistics.median(json.loads(blob)["cpu_ms"] for blob in results)
    agent = (after.user + after.system - before.user - before.system) / count * 1e3
    print(
        f"{'8 side by side':<46}     {count / took:8.0f} checks/s; "
        f"CPU {cpu:.1f} ms in the worker, {agent:.2f} ms in the agent"
    )


def calls(sandbox: Sandbox) -> None:
    """150 calls in one run, timed by the worker's clock."""
    body = (
        "local t = {} for i = 1, 150 do local began = host.now() host.state.get('k') t[i] = host.now() - began end "
        "table.sort(t) return 'ok', t[75] .. ' ' .. t[148] .. ' ' .. t[1]"
    )
    p50, p99, least = (
        statistics.median(values)
        for values in zip(
            *(map(float, json.loads(sandbox.run(job(body)))["summary"].split()) for _ in range(9)), strict=True
        )
    )
    print(
        f"{'host call to the broker':<46} p50 {p50 * 1e6:8.2f} us   p99 {p99 * 1e6:8.2f} us   "
        f"min {least * 1e6:8.2f} us   <= 100 us"
    )


def kills(sandbox: Sandbox, count: int) -> None:
    """From the SIGKILL to the zygote's word that the worker has been reaped."""
    taken = []
    for _ in range(count):
        run = sandbox.runner.run(job("while true do end", timeout=30.0), lambda blob: None)
        sandbox.loop.until(lambda run=run: run.pidfd is not None, 5)
        time.sleep(0.005)
        began = time.perf_counter()
        run.cancel()
        sandbox.loop.until(lambda: not sandbox.runner.running, 5)
        taken.append((time.perf_counter() - began) * 1e3)
    line("kill and reap an endless check", sorted(taken), target="p99 <= 10 ms")


def memory(sandbox: Sandbox) -> None:
    def private_kib(pid: int) -> int:
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
        return sum(int(row.split()[1]) for row in rollup.splitlines() if row.startswith("Private_"))

    run = sandbox.runner.run(job("host.metric('a', 1) while true do end", timeout=30.0), lambda blob: None)
    sandbox.loop.until(lambda: run.pidfd is not None, 5)
    time.sleep(0.2)
    zygote = sandbox.processes.zygote.pid
    words = Path(f"/proc/self/fdinfo/{run.pidfd}").read_text().split()
    worker = int(words[words.index("Pid:") + 1])
    sizes = {name: private_kib(pid) for name, pid in
             (("zygote", zygote), ("broker", sandbox.processes.broker.pid), ("a worker", worker))}  # fmt: skip
    run.cancel()
    print(f"{'private memory':<46} " + ", ".join(f"{name} {size} KiB" for name, size in sizes.items()))


def resident_kib(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * (os.sysconf("SC_PAGE_SIZE") // 1024)


def soak(seconds: float, seed: int) -> int:
    """Honest checks, attacks and kills from outside for so long; the exit status."""
    order, counts, wrong = random.Random(seed), Counter[str](), []
    with Sandbox() as sandbox:
        sandbox.run(job("return 'ok'"))
        pids = (os.getpid(), sandbox.processes.zygote.pid, sandbox.processes.broker.pid)
        first: list[tuple[int, int]] = []
        end = time.monotonic() + seconds

        def honest(expected: str) -> Callable[[bytes], None]:
            def done(blob: bytes) -> None:
                counts["honest"] += 1
                if json.loads(blob).get("summary") != expected:
                    wrong.append((expected, blob[:300]))

            return done

        def hostile(blob: bytes) -> None:
            document = json.loads(blob)
            counts["hostile"] += 1
            counts[document.get("reason") or document["status"]] += 1

        while time.monotonic() < end:
            for number in range(24):
                if order.random() < 0.25:
                    sandbox.runner.run(job(order.choice(list(ATTACKS.values())), timeout=0.2), hostile)
                else:
                    sandbox.runner.run(job(f"host.uptime() return 'ok', '{number}'"), honest(str(number)))
            sandbox.loop.until(lambda: not sandbox.runner.waiting, 60)
            if order.random() < 0.1:
                sandbox.runner.run(job("while true do end", timeout=5.0), hostile)
                sandbox.loop.turn(0.1)
                kill_a_worker(sandbox, order)
            if not first and counts["honest"] > 200:
                first = usage(pids)
        sandbox.loop.until(lambda: not sandbox.runner.running, 10)
        last = usage(pids)
        same = pids[1:] == (sandbox.processes.zygote.pid, sandbox.processes.broker.pid)
    print(f"seed {seed}: {dict(counts)}; kills {sandbox.runner.kills}")
    print("descriptors and RSS (KiB) of agent, zygote, broker: " + f"{first} -> {last}")
    for expected, blob in wrong[:5]:
        print(f"WRONG: expected {expected}, got {blob!r}")
    return 1 if wrong or not same else 0


def usage(pids: tuple[int, ...]) -> list[tuple[int, int]]:
    return [(len(os.listdir(f"/proc/{pid}/fd")), resident_kib(pid)) for pid in pids]


def kill_a_worker(sandbox: Sandbox, order: random.Random) -> None:
    """From outside, as an operator or the kernel might; only one that is endless, so that no honest check is hit."""
    endless = [
        run for run in sandbox.runner._live.runs.values() if b"while true do end" in run.job.source and run.pidfd
    ]
    if endless:
        signal.pidfd_send_signal(order.choice(endless).pidfd, signal.SIGKILL)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--soak", type=float, metavar="SECONDS")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    print("load average " + " ".join(f"{load:.1f}" for load in os.getloadavg()) + f", {os.cpu_count()} CPUs")
    if options.soak:
        sys.exit(soak(options.soak, options.seed))
    figures(options.count)


if __name__ == "__main__":
    main()
