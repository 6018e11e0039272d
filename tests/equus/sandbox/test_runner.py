"""Test the runner: one result for each job, in order, whatever process ends in between."""

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from equus.capabilities.address import RESOLVE_SECONDS
from equus.policy.policy import Policy
from equus.sandbox.blocking import Sandbox
from equus.sandbox.check_table import FIELDS
from equus.sandbox.job import BLOB_LIMIT, LIBRARIES_LIMIT, Job
from equus.sandbox.live_runs import AWAKE_GRACE, END_GRACE
from equus.sandbox.run import Run

PATIENCE = 60.0  # seconds for anything on a busy machine
MakeJob = Callable[..., Job]
NewSandbox = Callable[..., Sandbox]


def spin(sandbox: Sandbox, job: Job) -> list[dict[str, Any]]:
    """Queue a job; the list gets its document."""
    results: list[dict[str, Any]] = []
    sandbox.runner.run(job, lambda blob: results.append(json.loads(blob)))
    return results


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def workers(sandbox: Sandbox, count: int) -> list[int]:
    """Return the process id of each run, once there are so many."""
    runs = sandbox.runner._live.runs
    sandbox.loop.until(lambda: sum(run.pidfd is not None for run in runs.values()) == count, PATIENCE)
    about = [Path(f"/proc/self/fdinfo/{run.pidfd}").read_text().split() for run in runs.values()]
    return [int(words[words.index("Pid:") + 1]) for words in about]


def is_over(pids: list[int]) -> None:
    """Wait until none of these processes lives."""
    deadline = time.monotonic() + PATIENCE
    while any(map(lives, pids)):
        assert time.monotonic() < deadline, f"processes {list(filter(lives, pids))} are still there"
        time.sleep(0.01)


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture
def own(new_sandbox: NewSandbox) -> Iterator[Sandbox]:
    """Yield a sandbox of this test's own, whose processes it may kill."""
    with new_sandbox() as sandbox:
        sandbox.loop.until(lambda: sandbox.runner.ready, PATIENCE)
        yield sandbox


def test_the_whole_document(sandbox: Sandbox, job: MakeJob) -> None:
    """A result has every field, those that the agent itself adds included."""
    asked = job('print("said") host.metric("m", 1.5, {unit = "s"}) return "warning", "so so"', check="näme ☃")
    before, began = time.time(), time.monotonic()
    document = json.loads(sandbox.run(asked))
    took = time.monotonic() - began
    figures = {name: document.pop(name) for name in ("started", "took_ms", "cpu_ms", "peak_kib")}
    assert document == {
        "status": "warning",
        "summary": "so so",
        "output": "said\n",
        "metrics": [{"name": "m", "value": 1.5, "unit": "s", "kind": "gauge"}],
        "check": "näme ☃",
        "code": asked.code,
    }
    assert before - 0.01 <= figures["started"] <= time.time()
    assert 0 < figures["took_ms"] <= took * 1000 + 0.1
    assert 0 < figures["cpu_ms"] < 1000  # of CPU, which a busy machine does not lengthen
    assert 0 <= figures["peak_kib"] < 65_536


def test_done_is_never_called_by_run_itself(sandbox: Sandbox, job: MakeJob) -> None:
    """`run` never calls `done` itself, not even for a job that cannot run, so that callers may set up more after it."""
    calls: list[bytes] = []
    sandbox.runner.run(job("return 'ok'"), calls.append)
    sandbox.runner.run(Job("t", b"x" * (BLOB_LIMIT + 1)), calls.append)
    assert calls == []
    sandbox.loop.until(lambda: len(calls) == 2, PATIENCE)


@pytest.mark.adversary(36)
def test_no_more_than_parallel_run_and_the_order_is_kept(new_sandbox: NewSandbox, job: MakeJob, tmp_path: Path) -> None:
    """A hundred jobs run in their order, as many at once as the policy says, and none is lost."""
    policy = tmp_path / "policy.toml"
    policy.write_text("[limits]\nparallel = 3\n")
    with new_sandbox(policy_path=policy) as sandbox:
        results = [spin(sandbox, job(f'return "ok", "{number}"')) for number in range(100)]
        assert sandbox.runner.waiting == 100
        most = 0
        while not all(results):
            sandbox.loop.turn(1)
            most = max(most, sandbox.runner.running)
        assert most == 3
        assert [result[0]["summary"] for result in results] == [str(number) for number in range(100)]
        started = [result[0]["started"] for result in results]
        assert started == sorted(started)


def test_one_at_a_time_is_in_order(new_sandbox: NewSandbox, job: MakeJob, tmp_path: Path) -> None:
    """With one worker, the order of results is the order of run()."""
    policy = tmp_path / "policy.toml"
    policy.write_text("[limits]\nparallel = 1\n")
    with new_sandbox(policy_path=policy) as sandbox:
        order: list[str] = []
        for number in range(12):
            body = f'for i = 1, {(12 - number) * 100_000} do end return "ok", "{number}"'
            sandbox.runner.run(job(body), lambda blob: order.append(json.loads(blob)["summary"]))
        sandbox.loop.until(lambda: len(order) == 12, PATIENCE)
        assert order == [str(number) for number in range(12)]


@pytest.mark.adversary(36)
def test_a_full_queue_refuses(new_sandbox: NewSandbox, job: MakeJob, tmp_path: Path) -> None:
    """A job beyond the queue is answered at once, and the summary names the limit."""
    policy = tmp_path / "policy.toml"
    policy.write_text("[limits]\nparallel = 1\nqueue = 2\n")
    with new_sandbox(policy_path=policy) as sandbox:
        results = [spin(sandbox, job("return 'ok'")) for _ in range(4)]
        sandbox.loop.until(lambda: all(results), PATIENCE)
        statuses = [result[0]["status"] for result in results]
        assert statuses == ["ok", "ok", "unknown", "unknown"]
        assert results[3][0]["reason"] == "cancelled"
        assert "limits.queue" in results[3][0]["summary"]


@pytest.mark.parametrize(
    ("field", "size", "reason"),
    [
        ("source", BLOB_LIMIT, "load-error"),
        ("args", BLOB_LIMIT, "bad-arguments"),
        ("libraries", LIBRARIES_LIMIT, "load-error"),
    ],
)
def test_sizes_of_a_job(sandbox: Sandbox, field: str, size: int, reason: str) -> None:
    """A source, arguments or libraries of the largest size reach the worker, and one byte more is refused."""
    tail = b"\nreturn {summary='s', args={p={type='string'}}, run=function(a) return 'ok', tostring(#(a.p or '')) end}"
    good = b"--" + b"x" * 10 + tail

    def of(length: int) -> Job:
        if field == "source":
            return Job("t", b"--" + b"x" * (length - len(tail) - 2) + tail)
        if field == "args":
            return Job("t", good, args=b'{"p": "' + b"x" * (length - 9) + b'"}')
        return Job("t", good, {"a": b"-" * (length // 2), "b": b"-" * (length - length // 2)})

    assert json.loads(sandbox.run(of(size)))["status"] == "ok"
    document = json.loads(sandbox.run(of(size + 1)))
    assert (document["status"], document["reason"]) == ("unknown", reason)


def test_full_arguments_reach_the_check(sandbox: Sandbox, job: MakeJob) -> None:
    """Arguments of a whole mebibyte reach the check with every byte."""
    args = json.dumps({"pad": "x" * (BLOB_LIMIT - 11)}).encode()
    assert len(args) == BLOB_LIMIT
    source = b"return {summary='s', args={pad={type='string'}}, run=function(a) return 'ok', tostring(#a.pad) end}"
    assert json.loads(sandbox.run(Job("t", source, args=args)))["summary"] == str(BLOB_LIMIT - 11)


# ------------------------------------------------------------------------------------------------ time


def test_the_checks_own_timeout(sandbox: Sandbox) -> None:
    """The table's timeout counts for a job without one, also a fraction of a second."""
    source = b"return {summary='s', timeout='300ms', run=function() while true do end end}"
    results: list[dict[str, Any]] = []
    run = sandbox.runner.run(Job("t", source), lambda blob: results.append(json.loads(blob)))
    sandbox.loop.until(lambda: run.declared or run.known, PATIENCE)
    assert (run.timeout, run.deadline) == (0.3, run.began + 0.3)
    sandbox.loop.until(lambda: results, PATIENCE)
    document = results[0]
    assert (document["reason"], document["summary"]) == ("timeout", "no result within 0.3 s")
    assert document["took_ms"] >= 300
    assert 0 < document.get("cpu_ms", 1) <= document["took_ms"] + 20


def test_the_jobs_timeout_wins(sandbox: Sandbox) -> None:
    """The timeout of a job counts instead of that of the table, be it longer or shorter."""
    source = b"return {summary='s', timeout='50ms', run=function(a, h) h.wait(0.2) return 'ok' end, needs={'host'}}"
    assert json.loads(sandbox.run(Job("t", source, timeout=PATIENCE)))["status"] == "ok"
    assert json.loads(sandbox.run(Job("t", source)))["reason"] == "timeout"


LATE = (
    b"return {summary='s', timeout='50ms', needs={'host'}, "
    b"run=function(a, h) h.wait(0.2) print('x') h.metric('m', 1) return 'ok' end}"
)


def test_a_result_that_is_written_late_is_none(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """A result that is written after the deadline becomes `timeout`, because the worker checks the monotonic clock
    itself.
    """
    monkeypatch.setattr(sandbox.runner._live, "_arm", lambda deadline: None)
    document = json.loads(sandbox.run(Job("t", LATE)))
    kept = {name: document[name] for name in ("status", "reason", "summary", "output", "metrics") if name in document}
    assert kept == {"status": "unknown", "reason": "timeout", "summary": "no result within 0.05 s"}
    assert document["took_ms"] >= 50
    assert document["cpu_ms"] > 0


def test_a_result_that_is_read_late_counts(sandbox: Sandbox, job: MakeJob) -> None:
    """A result that was written in time counts, even if the agent looks at the deadline before it reads the result."""
    results: list[bytes] = []
    run = sandbox.runner.run(job("return 'ok'", timeout=200.0), results.append)
    sandbox.loop.until(lambda: run.link is not None, PATIENCE)
    assert select.select([run.link], [], [], PATIENCE)[0]
    assert results == []
    sandbox.runner._live._deadline_passed(run, run.began + 200.5)
    assert json.loads(results[0])["status"] == "ok"


def test_the_policy_caps_every_timeout(new_sandbox: NewSandbox, tmp_path: Path) -> None:
    """Neither a table nor a schedule gets more time than the policy's timeout_max."""
    policy = tmp_path / "policy.toml"
    policy.write_text('[limits]\ntimeout_max = "1s"\n')
    with new_sandbox(policy_path=policy) as sandbox:
        source = b"return {summary='s', timeout='1h', run=function() while true do end end}"
        results = [spin(sandbox, Job("t", source)), spin(sandbox, Job("t", source, timeout=500.0))]
        sandbox.loop.until(lambda: all(results), PATIENCE)
        assert [result[0]["summary"] for result in results] == ["no result within 1 s"] * 2


def test_cpu_time_has_a_limit_of_its_own(new_sandbox: NewSandbox, tmp_path: Path) -> None:
    """A check that may wait long may not compute long: the kernel ends it, and the reason is `cpu`."""
    policy = tmp_path / "policy.toml"
    policy.write_text('[limits]\ncpu_max = "1s"\n')
    with new_sandbox(policy_path=policy) as sandbox:
        source = b"return {summary='s', timeout='1m', run=function() while true do end end}"
        document = json.loads(sandbox.run(Job("t", source)))
        assert (document["status"], document["reason"]) == ("unknown", "cpu")


def test_waiting_costs_no_timer_for_each_check(sandbox: Sandbox, job: MakeJob, tmp_path: Path) -> None:
    """One timer watches the deadlines of all runs, and another one the broker, however many runs wait."""
    gate = tmp_path / "gate"
    body = f"host.held('{gate}') return 'ok'"
    results = [spin(sandbox, job(body, timeout=200.0)) for _ in range(8)]
    sandbox.loop.until(lambda: sandbox.runner.running == 8, PATIENCE)
    assert sum(delayed.active() for delayed in sandbox.loop._delayed) == 2
    gate.touch()
    sandbox.loop.until(lambda: all(results), PATIENCE)
    assert {result[0]["status"] for result in results} == {"ok"}


def test_an_agent_that_was_stopped_reads_before_it_judges(
    sandbox: Sandbox, job: MakeJob, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A worker that is writing its result gets a moment more once a stopped agent is awake again (F4)."""
    results: list[bytes] = []
    gate = tmp_path / "gate"
    run = sandbox.runner.run(job(f"host.held('{gate}') return 'ok'", timeout=200.0), results.append)
    sandbox.loop.until(lambda: run.pidfd is not None, PATIENCE)
    later = time.monotonic() + 400.0
    monkeypatch.setattr(sandbox.loop, "seconds", lambda: later)
    sandbox.runner._live._timer.fire()  # as a reactor does, which calls what is due before it looks at its sockets
    assert (run.forced_end, run.deadline) == (None, later + AWAKE_GRACE)
    gate.touch()
    sandbox.loop.until(lambda: results, PATIENCE)
    assert json.loads(results[0])["status"] == "ok"


# ------------------------------------------------------------------------------------------------ cancelling


def test_cancel_a_running_check(sandbox: Sandbox, job: MakeJob) -> None:
    """A cancelled run ends as `cancelled` long before its time is over, and its process is gone."""
    results: list[bytes] = []
    run = sandbox.runner.run(job("while true do end", timeout=200.0), results.append)
    sandbox.loop.until(lambda: run.pidfd is not None, PATIENCE)
    kills = sandbox.runner.kills
    run.cancel()
    assert run.deadline <= sandbox.loop.seconds() + END_GRACE
    sandbox.loop.until(lambda: results, PATIENCE)
    assert json.loads(results[0])["reason"] == "cancelled"
    assert sandbox.runner.kills == kills + 1
    run.cancel()
    sandbox.loop.until(lambda: not sandbox.runner.running, PATIENCE)
    assert len(results) == 1


def test_cancel_a_waiting_check(sandbox: Sandbox, job: MakeJob) -> None:
    """A waiting run that is cancelled never runs, and the one behind it does."""
    results: list[bytes] = []
    first = sandbox.runner.run(job("return 'ok'"), results.append)
    first.cancel("cancelled")
    assert json.loads(results[0])["reason"] == "cancelled"
    assert json.loads(sandbox.run(job("return 'ok'")))["status"] == "ok"
    assert len(results) == 1


def test_stop_answers_everything(new_sandbox: NewSandbox, job: MakeJob) -> None:
    """stop() answers running and waiting jobs before it returns, no process outlives it, and run() then refuses."""
    with new_sandbox() as sandbox:
        results = [spin(sandbox, job("while true do end", timeout=200.0)) for _ in range(12)]
        sandbox.loop.until(lambda: sandbox.runner.running == 8, PATIENCE)
        assert len(workers(sandbox, 8)) == 8
        family = [sandbox.processes.zygote.pid, sandbox.processes.broker.pid, *children(sandbox.processes.zygote.pid)]
        assert len(family) >= 10
        sandbox.runner.stop()
        assert [result[0]["reason"] for result in results] == ["cancelled"] * 12
        late = spin(sandbox, job("return 'ok'"))
        sandbox.loop.until(lambda: late, PATIENCE)
        assert late[0]["reason"] == "cancelled"
        is_over(family)


def test_stop_while_a_receiver_cancels_others(new_sandbox: NewSandbox, job: MakeJob) -> None:
    """A receiver that cancels waiting runs during stop() leaves each one result, and no process outlives stop()."""
    with new_sandbox() as sandbox:
        sandbox.loop.until(lambda: sandbox.runner.ready, PATIENCE)
        family = [sandbox.processes.zygote.pid, sandbox.processes.broker.pid]
        results: list[bytes] = []
        runs: list[Run] = []

        def cancel_all(blob: bytes) -> None:
            """Keep a result, and cancel every run."""
            results.append(blob)
            for run in runs:
                run.cancel()

        runs += [sandbox.runner.run(job("return 'ok'"), cancel_all) for _ in range(3)]
        sandbox.runner.stop()
        assert [json.loads(blob)["reason"] for blob in results] == ["cancelled"] * 3
        is_over(family)


def test_an_inspection_that_is_cut_short(new_sandbox: NewSandbox) -> None:
    """An inspection that is cut short says that the source was not tried, and nothing about the source."""
    sandbox, tables = new_sandbox(), []
    sandbox.runner.inspect(b"return {}", {}, tables.append)
    sandbox.runner.stop()
    assert tables == [{"error": "cancelled: the agent is stopping", "line": None, "untried": True}]


# ------------------------------------------------------------------------------------------------ deaths


@pytest.mark.adversary(37)
def test_a_killed_worker_is_a_result(own: Sandbox, job: MakeJob) -> None:
    """A worker that is killed from outside ends its run as `killed`, once, and the next check is right."""
    results = spin(own, job("while true do end", timeout=200.0))
    os.kill(workers(own, 1)[0], signal.SIGKILL)
    own.loop.until(lambda: results, PATIENCE)
    assert (results[0]["status"], results[0]["reason"]) == ("unknown", "killed")
    assert json.loads(own.run(job("return 'ok'")))["status"] == "ok"
    assert len(results) == 1


def test_a_stopped_worker_times_out(own: Sandbox, job: MakeJob) -> None:
    """A stopped worker does not hold up its deadline."""
    results = spin(own, job("while true do end", timeout=3.0))
    os.kill(workers(own, 1)[0], signal.SIGSTOP)
    own.loop.until(lambda: results, PATIENCE)
    assert results[0]["reason"] == "timeout"


@pytest.mark.adversary(37)
@pytest.mark.parametrize("which", ["zygote", "broker"])
def test_a_killed_process_comes_back(own: Sandbox, job: MakeJob, which: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A killed process is started again at once: running checks end as `killed`, and waiting ones run afterwards."""
    delays: list[float] = []
    later = own.loop.callLater

    def call_later(delay: float, call: Any, *args: Any) -> Any:
        delays.extend([delay] if args == (which,) else [])
        return later(delay, call, *args)

    monkeypatch.setattr(own.loop, "callLater", call_later)
    calling = [spin(own, job("host.wait(200) return 'ok'", timeout=200.0)) for _ in range(8)]
    waiting = spin(own, job('return "ok", "patient"'))
    running = workers(own, 8)
    time.sleep(0.1)  # most of their calls are under way
    dead = getattr(own.processes, which).pid
    os.kill(dead, signal.SIGKILL)
    own.loop.until(lambda: all(calling) and waiting, PATIENCE)
    assert delays == [0.0]
    assert {(result[0]["status"], result[0]["reason"]) for result in calling} == {("unknown", "killed")}
    assert waiting[0]["summary"] == "patient"
    assert getattr(own.processes, which).pid != dead
    is_over(running)


def test_a_check_that_ends_the_broker_ends_only_itself(own: Sandbox, job: MakeJob) -> None:
    """A check that ends the broker is `killed`, and the next one is right."""
    assert json.loads(own.run(job("host.die() return 'ok'")))["reason"] == "killed"
    assert json.loads(own.run(job("return 'ok', host.echo('x')[1]")))["summary"] == "x"


@pytest.mark.adversary(37)
def test_a_stopped_zygote_is_replaced(own: Sandbox, job: MakeJob, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stopped zygote is replaced, its run ends as `killed`, and the next check is right."""
    stopped = own.processes.zygote.pid
    os.kill(stopped, signal.SIGSTOP)
    with monkeypatch.context() as shorter:
        shorter.setattr("equus.sandbox.live_runs.ZYGOTE_GRACE", 0.5)
        results = spin(own, job("return 'ok'", timeout=200.0))
        own.loop.until(lambda: results, PATIENCE)
    assert results[0]["reason"] == "killed"
    assert json.loads(own.run(job("return 'ok'")))["status"] == "ok"
    assert own.processes.zygote.pid != stopped


@pytest.mark.adversary(37)
def test_a_stopped_broker_is_replaced(own: Sandbox, job: MakeJob, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stopped broker is replaced: each run that asks it is `killed` long before its time, and the next is right."""
    assert json.loads(own.run(job("return 'ok', host.echo('x')[1]")))["summary"] == "x"
    stopped = own.processes.broker.pid
    os.kill(stopped, signal.SIGSTOP)
    asking = [spin(own, job("return 'ok', host.echo('x')[1]", timeout=200.0)) for _ in range(8)]
    quiet = spin(own, job("local n = os.time() + 1 while os.time() < n do end return 'ok', 'quiet'", timeout=200.0))
    with monkeypatch.context() as shorter:  # not for the broker that comes then, which may be slow to start
        shorter.setattr("equus.sandbox.heartbeat.PING_EVERY", 0.3)
        own.loop.until(lambda: all(asking), PATIENCE)
    assert {(result[0]["status"], result[0]["reason"]) for result in asking} == {("unknown", "killed")}
    assert json.loads(own.run(job("return 'ok', host.echo('y')[1]")))["summary"] == "y"
    assert own.processes.broker.pid != stopped
    own.loop.until(lambda: quiet, PATIENCE)
    assert (quiet[0]["status"], quiet[0]["summary"], len(quiet)) == ("ok", "quiet", 1)
    assert [len(result) for result in asking] == [1] * 8
    is_over([stopped])


def test_a_broker_that_never_starts(job: MakeJob, capfd: pytest.CaptureFixture[str]) -> None:
    """If the broker never starts, waiting jobs and later ones are answered instead of kept."""
    with Sandbox(registry="there_is_no_such_registry") as sandbox:
        results = spin(sandbox, job("return 'ok'"))
        sandbox.loop.until(lambda: results, PATIENCE)
        assert (results[0]["status"], results[0]["reason"]) == ("unknown", "crashed")
        assert "does not start" in results[0]["summary"]
    assert "there_is_no_such_registry" in capfd.readouterr().err


def test_both_die_with_the_agent() -> None:
    """A kill of the agent leaves no process of the sandbox."""
    program = (
        "import sys, time\n"
        "from equus.sandbox.blocking import Sandbox\n"
        "from equus.sandbox.job import Job\n"
        "s = Sandbox()\n"
        "src = b\"return {summary='s', run=function() while true do end end}\"\n"
        "s.runner.run(Job('t', src, timeout=200.0), print)\n"
        "s.loop.until(lambda: s.runner.running and list(s.runner._live.runs.values())[0].pidfd, 60)\n"
        "print(s.processes.zygote.pid, s.processes.broker.pid, flush=True)\n"
        "time.sleep(200)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as agent:
        assert agent.stdout is not None
        pids = [int(pid) for pid in agent.stdout.readline().split()]
        family = [*pids, *children(pids[0])]
        assert len(family) >= 3
        agent.kill()
    is_over(family)


# ------------------------------------------------------------------------------------------------ reading, not running


def test_inspect_reads_the_table(sandbox: Sandbox) -> None:
    """An inspection returns the whole table, with times in seconds, and does not call run()."""
    source = b"""local check = { summary = "Disk", needs = { "disk" }, every = "1m", timeout = "5s", args = {
      path = { type = "string", default = "/", help = "mount point" },
      warn = { type = "range", default = 80 }, n = { type = "integer", min = 1, max = 9, required = true } } }
    function check.run() error("never") end
    return check"""
    assert sandbox.inspect(source) == {
        "summary": "Disk",
        "needs": ["disk"],
        "every": 60.0,
        "timeout": 5.0,
        "args": {
            "n": {"type": "integer", "required": True, "min": 1, "max": 9},
            "path": {"type": "string", "default": "/", "help": "mount point"},
            "warn": {"type": "range", "default": "80"},
        },
    }


@pytest.mark.parametrize(
    ("source", "error", "line"),
    [
        (b"return {", "disk.lua:1: unexpected symbol near <eof>", 1),
        (b"\n\nx = = 1", "disk.lua:3: unexpected symbol near '='", 3),
        (b"#!/usr/bin/lua\nx = = 1", "disk.lua:2: unexpected symbol near '='", 2),
        (b"", "disk.lua must return a table, not a nil", None),
        (b"return 7", "disk.lua must return a table, not a number", None),
        (b"return {}", "disk.lua: the table has no function run(args, host)", None),
        (b"error('no')", "disk.lua:1: no", 1),
        (b"return {run=print}", "disk.lua: summary must be one line that says what the check looks at", None),
        (b"return {summary='s', run=print, x=1}", "disk.lua: the table has no field 'x'; its fields are summary, "
         "needs, every, timeout, args, run, attempts, "
            "runbook, owner, notes", None),
        (b"return {summary='s', run=print, args={f=print}}", "disk.lua: its table is not data: a function is no "
         "plain data", None),
        (b"local a = {} a.a = a return {summary='s', run=print, args=a}", "disk.lua: its table is not data: a table "
         "is nested more than 32 deep, or holds itself", None),
        (b"return require('x')", "there is no library x in this set of checks", None),
        (b"while true do end", "timeout: no result within 0.3 s", None),
    ],
)  # fmt: skip
def test_inspect_says_what_is_wrong(
    sandbox: Sandbox, source: bytes, error: str, line: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An inspection reports a fault as one sentence and a line, for the linter and for `loaded`."""
    monkeypatch.setattr("equus.sandbox.runner.LOAD_TIMEOUT", 0.3 if source == b"while true do end" else PATIENCE)
    assert sandbox.inspect(source, name="disk") == {"error": error, "line": line}


@pytest.mark.parametrize("pushed", [True, False])
def test_a_field_of_a_newer_helen(sandbox: Sandbox, job: MakeJob, pushed: bool) -> None:
    """An unknown field is passed over in pushed code, and is an error in a file of this host."""
    source = b"return {summary='s', colour={'red'}, run=function() return 'ok', 'ran' end}"
    fault = "check.lua: the table has no field 'colour'; its fields are " + ", ".join(FIELDS)
    shown = sandbox.inspect(source, pushed=pushed)
    result = json.loads(sandbox.run(Job("check", source, pushed=pushed)))
    if pushed:
        assert shown == {"summary": "s", "needs": [], "every": None, "timeout": 10.0, "args": {}}
        assert (result["status"], result["summary"]) == ("ok", "ran")
    else:
        assert shown == {"error": fault, "line": None}
        assert (result["status"], result["reason"], result["summary"]) == ("unknown", "load-error", fault)


def test_compile_runs_nothing(sandbox: Sandbox) -> None:
    """A library is compiled without running it."""
    assert sandbox.compile(b"while true do end") == {}
    assert sandbox.compile(b"\nlocal = 1", "lib/x") == {
        "error": "lib/x.lua:2: <name> expected near '='",
        "line": 2,
    }


def test_libraries(sandbox: Sandbox, job: MakeJob) -> None:
    """`require` finds the job's libraries, loads each once, and finds nothing else."""
    libraries = {
        "a": b"local b = require 'b' return { two = b.one + 1 }",
        "b": b"loads = (loads or 0) + 1 return { one = 1 }",
        "loop": b"return require 'loop'",
        "quiet": b"",
    }
    body = 'local a, b = require "a", require "b" return "ok", a.two .. b.one .. loads .. tostring(require "quiet")'
    assert json.loads(sandbox.run(job(body, libraries=libraries)))["summary"] == "211true"
    looped = json.loads(sandbox.run(job('require "loop"', libraries=libraries)))
    assert "the library loop requires itself" in looped["summary"]


# ------------------------------------------------------------------------------------------------ where code comes from


def test_weak_isolation_refuses_pushed_code(sandbox: Sandbox, job: MakeJob, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without seccomp, pushed code is refused with the setting that would permit it, and local checks run."""
    assert sandbox.runner.isolation == "strong"
    monkeypatch.setattr(sandbox.runner._children, "filtered", False)
    assert sandbox.runner.isolation == "weak"
    refused = json.loads(sandbox.run(job("return 'ok'")))
    assert (refused["status"], refused["reason"]) == ("unknown", "denied")
    assert 'isolation = "weak"' in refused["summary"]
    assert json.loads(sandbox.run(job("return 'ok'", pushed=False)))["status"] == "ok"


def test_a_changed_policy_counts_from_the_next_check(
    new_sandbox: NewSandbox, job: MakeJob, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A changed policy counts from the next check on, and a file that is faulty leaves the broker's policy as
    it was.
    """
    policy = tmp_path / "policy.toml"
    policy.write_text("[caps.host]\nallow = false\n")
    asked = job("local v, c = host.echo(1) return 'ok', tostring(c)")
    with new_sandbox(policy_path=policy) as sandbox:
        assert json.loads(sandbox.run(asked))["summary"] == "denied"
        policy.write_text('[limits]\ntimeout_max = "1s"\n')
        sandbox.runner.reload(Policy.load(policy))
        sandbox.loop.until(lambda: json.loads(sandbox.run(asked))["summary"] == "nil", PATIENCE)
        endless = json.loads(sandbox.run(job("while true do end", timeout=60.0)))
        assert endless["summary"] == "no result within 1 s"
        policy.write_text("nonsense = 1")
        sandbox.runner.reload(Policy.parse(b"", None))
        sandbox.loop.until(lambda: "the broker keeps its old policy" in caplog.text, PATIENCE)
        assert json.loads(sandbox.run(asked))["summary"] == "nil"


def test_the_resolver_of_both_processes_gives_up(sandbox: Sandbox) -> None:
    """Zygote and broker ask two name servers twice within the time for a look-up, as their environment shows."""
    for child in (sandbox.processes.zygote, sandbox.processes.broker):
        environment = Path(f"/proc/{child.pid}/environ").read_bytes().split(b"\0")
        [options] = [each.partition(b"=")[2].decode() for each in environment if each.startswith(b"RES_OPTIONS=")]
        found = dict(option.split(":") for option in options.split())
        assert 2 * int(found["timeout"]) * int(found["attempts"]) < RESOLVE_SECONDS
