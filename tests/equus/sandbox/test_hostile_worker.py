"""Test a worker that has been taken over, played by the test: the agent gives one result and goes on."""

import json
import math
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from equus.policy.policy import Policy
from equus.processes.process import receive
from equus.sandbox import frames, live_runs
from equus.sandbox.blocking import SelectLoop
from equus.sandbox.job import BLOB_LIMIT, Job
from equus.sandbox.runner import Runner
from equus.sandbox.value_codec import encode

PATIENCE = 60.0  # seconds for anything on a busy machine


class Ends:
    """Stands in for Processes: here both control sockets end in the test."""

    def __init__(self) -> None:
        self.restarted: list[str] = []
        self.zygote, self.zygote_end = self._pair()
        self.broker, self.broker_end = self._pair()

    @staticmethod
    def _pair() -> tuple[Any, socket.socket]:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        return type("Child", (), {"control": ours, "pid": 0})(), theirs

    def restart_zygote(self) -> None:
        self.zygote_end.close()
        self.zygote, self.zygote_end = self._pair()
        self.restarted.append("zygote")

    def restart_broker(self) -> None:
        self.broker_end.close()
        self.broker, self.broker_end = self._pair()
        self.restarted.append("broker")

    def close(self) -> None:
        for end in (self.zygote_end, self.broker_end):
            end.close()


class Stage:
    """Run a Runner whose workers are sockets of the test, each with a process that can be killed."""

    def __init__(self, spares: int = 0) -> None:
        self.ends, self.loop = Ends(), SelectLoop()
        self.lines: list[str] = []
        self.runner = Runner(
            self.loop,
            self.ends,
            Policy.parse(b"", None),
            log=lambda check, text: self.lines.append(text),
            spares=spares,
        )  # type: ignore[arg-type]
        self.process: subprocess.Popen[bytes] | None = None
        self.worker: socket.socket | None = None
        self.results: list[dict[str, Any]] = []
        self.be_ready()

    def be_ready(self) -> None:
        self.ends.zygote_end.send(frames.READY.pack(frames.READY_KIND, True))
        self.ends.broker_end.send(b'{"calls": {}, "digest": ""}')

    def launch(self, **job: Any) -> int:
        """Queue a job, take its sockets as the zygote does; its id."""
        given = {"check": "t", "source": b"s", "timeout": 200.0} | job
        self.runner.run(Job(**given), lambda blob: self.results.append(json.loads(blob)))
        self.loop.until(lambda: self.runner.running, PATIENCE)
        while True:
            message, descriptors = receive(self.ends.zygote_end, frames.CONTROL_LIMIT, 2)
            if message[0] == frames.LAUNCH_KIND:
                break
        if self.worker is not None:
            self.worker.close()
        self.worker = socket.socket(fileno=descriptors[0])
        os.close(descriptors[1])
        return frames.LAUNCH.unpack(message)[1]

    def start(self, number: int) -> None:
        """Tell the agent a pidfd, of a process that sleeps."""
        self.process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
        pidfd = os.pidfd_open(self.process.pid)
        message = frames.STARTED.pack(frames.STARTED_KIND, number, self.process.pid)
        socket.send_fds(self.ends.zygote_end, [message], [pidfd])
        os.close(pidfd)
        self.loop.until(lambda: next(iter(self.runner._live.runs.values())).pidfd is not None, PATIENCE)

    def end(self, number: int, status: int = 0) -> None:
        self.ends.zygote_end.send(frames.ENDED.pack(frames.ENDED_KIND, number, status, 12, 34))
        self.loop.until(lambda: not self.runner.running, PATIENCE)

    def say(self, data: bytes) -> None:
        assert self.worker is not None
        self.worker.sendall(data)

    def close(self) -> None:
        self.runner.stop()
        if self.worker is not None:
            self.worker.close()
        if self.process is not None:
            self.process.kill()
            self.process.wait()


@pytest.fixture
def stage() -> Iterator[Stage]:
    stage = Stage()
    yield stage
    stage.close()


def frame(kind: bytes, text: bytes) -> bytes:
    return frames.LENGTH.pack(len(text) + 1) + kind + text


RESULT = frame(frames.RESULT, b'{"status":"ok","summary":"fine"}')
DOCUMENT = {"status": "ok", "summary": "fine"}


def what(result: dict[str, Any]) -> dict[str, Any]:
    return {name: result[name] for name in ("status", "summary", "reason") if name in result}


@pytest.mark.parametrize("cut", range(1, len(RESULT)))
def test_a_result_in_two_pieces(stage: Stage, cut: int) -> None:
    """A result is the same wherever its bytes are cut in two."""
    stage.launch()
    stage.say(RESULT[:cut])
    stage.loop.turn(0.01)
    stage.say(RESULT[cut:])
    stage.loop.until(lambda: stage.results, PATIENCE)
    assert what(stage.results[0]) == DOCUMENT


def test_a_second_result_is_nothing(stage: Stage) -> None:
    """The first result counts, and a worker that sends a second one is killed."""
    number = stage.launch()
    stage.start(number)
    stage.say(RESULT + frame(frames.RESULT, b'{"status":"critical","summary":"lie"}'))
    stage.loop.until(lambda: stage.results, PATIENCE)
    assert stage.process is not None
    assert stage.process.wait(PATIENCE) == -signal.SIGKILL
    stage.end(number)
    assert [what(result) for result in stage.results] == [DOCUMENT]


SAYINGS = {
    "an unknown kind": frame(b"?", b"x"),
    "an empty frame": frames.LENGTH.pack(0),
    "a frame too long": frames.LENGTH.pack(frames.WORKER_FRAME_LIMIT + 1) + b"R",
    "a frame of 4 GiB": frames.LENGTH.pack(0xFFFFFFFF) + b"R",
    "a declaration that is none": frame(frames.DECLARED, b"1"),
    "a declaration too long": frame(frames.DECLARED, frames.SECONDS.pack(1) + b"1"),
    "a negative declaration": frame(frames.DECLARED, frames.SECONDS.pack(-1)),
    "a declaration of nothing": frame(frames.DECLARED, frames.SECONDS.pack(math.nan)),
    "two declarations": frame(frames.DECLARED, frames.SECONDS.pack(1)) * 2,
    "a table that is none": frame(frames.TABLE, b"n"),
    "a table too long": frame(frames.TABLE, encode({"summary": "s" * frames.TABLE_LIMIT})),
    "two tables": frame(frames.TABLE, encode({"summary": "s"})) * 2,
    "too many lines": frame(frames.LOG, b"line") * (frames.LOG_LINES + 1),
}


@pytest.mark.parametrize("name", SAYINGS)
def test_sayings_that_no_worker_says(stage: Stage, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that sends a wrong frame is killed, its run ends as `crashed`, and the log gets at most 20 lines."""
    monkeypatch.setattr(live_runs, "END_GRACE", PATIENCE)  # so that the figures of the end are waited for
    number = stage.launch(timeout=None)
    stage.start(number)
    stage.say(SAYINGS[name])
    stage.loop.until(lambda: stage.runner.kills, PATIENCE)
    assert stage.process is not None
    assert stage.process.wait(PATIENCE) == -signal.SIGKILL
    stage.end(number, signal.SIGKILL)
    assert what(stage.results[0]) == {
        "status": "unknown",
        "reason": "crashed",
        "summary": "the worker sent a frame that no correct worker sends",
    }
    assert (stage.results[0]["cpu_ms"], stage.results[0]["peak_kib"]) == (12, 34)
    assert len(stage.lines) <= frames.LOG_LINES


LONGER = encode({"summary": "s", "timeout": "1h", "needs": ["program"]})


@pytest.mark.parametrize("saying", [frame(frames.TABLE, LONGER), frame(frames.DECLARED, frames.SECONDS.pack(3600))])
def test_a_worker_whose_table_is_known_tells_none(stage: Stage, saying: bytes) -> None:
    """A worker whose table is known may send none, and no later run gets another timeout: it may have been
    taken over.
    """
    first = stage.launch(timeout=None)
    stage.say(frame(frames.TABLE, encode({"summary": "s", "timeout": "50s"})) + RESULT)
    stage.loop.until(lambda: stage.results, PATIENCE)
    stage.end(first)
    second = stage.launch(timeout=None)
    run = stage.runner._live.runs[second]
    stage.say(saying)
    stage.loop.until(lambda: run.forced_end, PATIENCE)
    assert run.forced_end == ("crashed", "the worker sent a frame that no correct worker sends")
    assert run.timeout == 50.0
    stage.end(second)
    third = stage.runner._live.runs[stage.launch(timeout=None)]
    assert third.known is not None
    assert (third.timeout, third.known.needs) == (50.0, ())


@pytest.mark.parametrize(
    "part", [b"", b"[1]", b"{}", b"no", b'{"status":"ok"', b'{"a":"' + b"x" * (BLOB_LIMIT - 8) + b'"}']
)
def test_results_that_are_none(stage: Stage, part: bytes) -> None:
    """A result that is no document, or leaves no room for the agent's fields, ends as `crashed`."""
    stage.launch()
    stage.runner._live.runs[1].link._in += frame(frames.RESULT, part)  # more than a socket may hold at once
    stage.runner._live.runs[1].link._take_frames()
    assert what(stage.results[0]) == {
        "status": "unknown",
        "reason": "crashed",
        "summary": "the worker wrote something that is no result",
    }
    assert len(json.dumps(stage.results[0])) < 1000


def test_a_flood_does_not_hold_the_reactor(stage: Stage) -> None:
    """A worker that writes as fast as it can, before its pidfd is known, leaves each turn of the reactor to others."""
    stage.launch(timeout=None)
    assert stage.worker is not None
    stage.worker.setblocking(False)
    flood = frame(frames.LOG, b"y" * 1000) * 200
    turns = 0
    while not stage.results and turns < 50:
        with suppress(BlockingIOError, BrokenPipeError):
            stage.worker.send(flood)
        stage.loop.turn(0.05)
        turns += 1
    assert what(stage.results[0])["reason"] == "crashed"
    assert len(stage.lines) == frames.LOG_LINES


def test_a_worker_that_hangs_up_and_stays(stage: Stage) -> None:
    """A worker that closes its connection and stays gets a moment to end, and is killed then."""
    number = stage.launch()
    stage.start(number)
    assert stage.worker is not None
    stage.worker.close()
    stage.loop.until(lambda: stage.process and stage.process.poll() is not None, PATIENCE)
    stage.end(number, signal.SIGKILL)
    assert what(stage.results[0])["reason"] == "crashed"
    assert "closed its connection" in stage.results[0]["summary"]


def test_a_result_written_by_one_that_has_ended(stage: Stage) -> None:
    """A result counts even if the end of its worker is reported before its last bytes are read."""
    number = stage.launch()
    stage.start(number)
    stage.say(RESULT)
    stage.runner.on_ended(number, 0, 1, 1)
    assert [what(result) for result in stage.results] == [DOCUMENT]


def test_a_zygote_that_does_not_say_how_it_ended(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """The result comes after a moment although the zygote does not report the worker's end, and the zygote is replaced
    later.
    """
    number = stage.launch(timeout=0.2)
    with monkeypatch.context() as shorter:
        shorter.setattr(live_runs, "ZYGOTE_GRACE", 0.3)
        stage.start(number)
        stage.loop.until(lambda: stage.results, PATIENCE)
        assert what(stage.results[0]) == {"status": "unknown", "reason": "timeout", "summary": "no result within 0.2 s"}
        stage.loop.until(lambda: stage.ends.restarted, PATIENCE)
    assert stage.ends.restarted == ["zygote"]
    stage.be_ready()
    stage.launch()
    stage.say(RESULT)
    stage.loop.until(lambda: len(stage.results) == 2, PATIENCE)


def test_a_pidfd_that_comes_too_late(stage: Stage) -> None:
    """A worker whose run was cancelled before it began is killed as soon as its pidfd is known."""
    number = stage.launch()
    run = stage.runner._live.runs[number]
    run.cancel()
    stage.loop.until(lambda: stage.results, PATIENCE)
    stage.start(number)
    assert stage.process is not None
    assert stage.process.wait(PATIENCE) == -signal.SIGKILL
    assert [result["reason"] for result in stage.results] == ["cancelled"]


def test_no_process_can_be_made(stage: Stage) -> None:
    """A fork that fails gives a result with the system's error, and the next job is tried."""
    number = stage.launch()
    stage.ends.zygote_end.send(frames.STARTED.pack(frames.NOT_STARTED_KIND, number, 11))
    stage.loop.until(lambda: stage.results, PATIENCE)
    assert what(stage.results[0])["reason"] == "crashed"
    assert "Resource temporarily unavailable" in stage.results[0]["summary"]
    stage.launch()


def test_who_takes_a_result_may_fail(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    """An exception in `done` is logged, and the runner goes on."""
    stage.runner.run(Job("t", b"", timeout=0.05), lambda blob: 1 / 0)
    stage.loop.until(lambda: stage.runner.running, PATIENCE)
    stage.loop.until(lambda: next(iter(stage.runner._live.runs.values())).delivered, PATIENCE)
    stage.loop.until(lambda: "its receiver failed" in caplog.text, PATIENCE)
    assert "the result of t was delivered, and its receiver failed" in caplog.text
    assert "ZeroDivisionError" in caplog.text
