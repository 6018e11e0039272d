"""Tests that questions are answered by a process, which is ended when it takes too long or too much, and
started anew.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from helen_running import wait_until
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from helen.promql import processes
from helen.promql.errors import SECONDS, TimedOut, TooMuch, Unavailable
from helen.promql.processes import COMMAND, MOST_WAITING, QueryProcesses
from helen.promql.wire import Answered, Asked, Metric, Unsealed, frames, packed

ECHO = """
import os, sys, msgspec
from helen.promql.wire import Answered, Frame, packed, read_frame
told = 0
while (body := read_frame(sys.stdin.buffer)) is not None:
    frame = msgspec.msgpack.decode(body, type=Frame)
    told += len(frame.told.results) + len(frame.told.agents) if frame.told else 0
    if frame.asked:
        word = frame.asked.path
        if word == "die":
            os._exit(7)
        if word == "sleep":
            os.read(0, 1)
        sys.stdout.buffer.write(packed(Answered(200, b"%d %d" % (os.getpid(), told), is_last=word == "last")))
        sys.stdout.buffer.flush()
        told = 0
"""


@pytest.fixture
def echo(tmp_path: Path) -> tuple[str, ...]:
    script = tmp_path / "echo.py"
    script.write_text(ECHO)
    return sys.executable, str(script)


@pytest.fixture
def asked() -> Iterator[list[QueryProcesses]]:
    made: list[QueryProcesses] = []
    yield made
    for each in made:
        each.close()


def question(path: str) -> Asked:
    return Asked(path, {}, 0.0, None, "/nowhere", "/nowhere")


def told(path: str, agents: int = 0, results: int = 0) -> Any:
    result = Unsealed(1, "a", "b", 1.0, None, None, 0, [Metric("x", 1.0, "", "gauge", [("k", "v")])])
    return lambda: frames(((f"web-{n}", {"team": "x"}) for n in range(agents)), [result] * results, question(path))


def test_a_process_is_kept_and_told_everything(echo: tuple[str, ...], asked: list[QueryProcesses]) -> None:
    """A process is told everything in pieces; one that says that it is the last answer ends."""
    asked.append(QueryProcesses(Clock(), echo))
    first, second = (asked[0]._ask(told("x", agents=1_001, results=20_000)) for _ in range(2))
    assert first == second and first.body.endswith(b" 21001")
    last, after = asked[0]._ask(told("last")), asked[0]._ask(told("x"))
    assert last.body.split()[0] == first.body.split()[0] != after.body.split()[0]


def test_one_that_takes_too_long_is_ended(echo: tuple[str, ...], asked: list[QueryProcesses]) -> None:
    """A process that takes too long is ended, and nothing of it is left."""
    asked.append(QueryProcesses(Clock(), echo, seconds=1.0))
    pid = int(asked[0]._ask(told("x")).body.split()[0])
    with pytest.raises(TimedOut, match="takes too long"):
        asked[0]._ask(told("sleep"))
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_one_that_dies_of_a_question_says_so(echo: tuple[str, ...], asked: list[QueryProcesses]) -> None:
    """Nobody hears of one that was kept and is gone: another one is asked."""
    asked.append(QueryProcesses(Clock(), echo))
    with pytest.raises(TooMuch, match=r"has ended \(status 7\)"):
        asked[0]._ask(told("die"))
    pid = int(asked[0]._ask(told("x")).body.split()[0])
    os.kill(pid, 9)
    assert int(asked[0]._ask(told("x")).body.split()[0]) != pid


def test_helen_waits_for_none_when_it_stops(echo: tuple[str, ...], asked: list[QueryProcesses]) -> None:
    """A process that answers is ended when Helen stops, and another one is not begun."""
    asked.append(QueryProcesses(Clock(), echo))
    caught: list[Exception] = []

    def wait() -> None:
        try:
            asked[0]._ask(told("sleep"))
        except Exception as error:
            caught.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    wait_until(lambda: asked[0]._busy, "question")
    asked[0].stop()
    thread.join(30.0)
    assert not thread.is_alive() and [str(each) for each in caught] == ["Helen is stopping"]
    with pytest.raises(Unavailable, match="Helen is stopping"):
        asked[0]._ask(told("x"))


def test_the_real_one_answers(asked: list[QueryProcesses]) -> None:
    """A real process answers from results in no segment, with labels of agents; texts that are no UTF-8
    are told too.
    """
    asked.append(QueryProcesses(Clock(), COMMAND))
    now = time.time()
    result = Unsealed(
        7, "web-1", "disk", now - 1, None, None, 1, [Metric("us\ud800ed", 2.5, "%", "gauge", [("p", "/")])]
    )
    given = {"query": ['{__name__="us?ed",team="x"} + 1']}
    answered = asked[0]._ask(lambda: frames([("web-1", {"team": "x"})], [result],
                             Asked("query", given, now, ["web-*"], "/nowhere", "/nowhere")))  # fmt: skip
    found = msgspec.json.decode(answered.body)["data"]["result"]
    assert [(each["metric"], each["value"][1]) for each in found] == [
        ({"agent": "web-1", "check": "disk", "p": "/", "team": "x"}, "3.5")
    ]
    hidden = asked[0]._ask(lambda: frames([("web-1", {"team": "x"})], [result],
                           Asked("query", given, now, ["db-*"], "/nowhere", "/nowhere")))  # fmt: skip
    assert msgspec.json.decode(hidden.body)["data"]["result"] == []


def test_a_fault_is_told_with_its_trace(asked: list[QueryProcesses]) -> None:
    """A fault is told with its trace, so that Helen's log has it."""
    asked.append(QueryProcesses(Clock(), COMMAND))
    answered = asked[0]._ask(told("nonsense"))
    assert answered.status == 500 and "KeyError: 'nonsense'" in answered.fault


def test_few_wait_and_the_extra_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Too many questions are refused, and a missing extra is named."""
    begun: list[Deferred[Any]] = []

    def begin(*_: Any) -> Deferred[Any]:
        begun.append(Deferred())
        return begun[-1]

    monkeypatch.setattr(processes, "deferToThread", begin)
    asked, answers, refused = QueryProcesses(Clock()), list[Any](), list[Any]()
    for _ in range(2 + MOST_WAITING + 1):
        Deferred.fromCoroutine(asked.ask(told("x"))).addCallbacks(answers.append, lambda f: refused.append(f.value))
    assert len(begun) == 2 and [str(each) for each in refused] == [
        "32 others wait for an answer already; ask again soon"
    ]
    for at in range(2 + MOST_WAITING):
        begun[at].callback(Answered(200, b""))
    assert len(answers) == 2 + MOST_WAITING
    monkeypatch.setattr(processes, "NEEDS", ("no_such_library",))
    Deferred.fromCoroutine(asked.ask(told("x"))).addErrback(lambda f: refused.append(f.value))
    assert isinstance(refused[-1], Unavailable) and "pip install 'helen-equus[promql]'" in str(refused[-1])


def test_agreed_numbers() -> None:
    """These numbers are those that docs/prometheus.rst names."""
    assert (SECONDS, processes.AT_ONCE, processes.IDLE, MOST_WAITING) == (30.0, 2, 120.0, 32)
    assert len(packed(Answered(200, b"x"))) > 4
