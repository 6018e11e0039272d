"""Tests the service's own decisions: what ends it, and with which status."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hub_stage import Authority, ReactorClock, StillPort

from helen import agents_port, exit_in_time, interpreter, service
from helen.garbage_looks import MIDDLE
from helen.journal.values import REFUSING, SEALING, Trouble
from helen.parts import Live
from helen.service import HelenService
from helen.sessions.fair_turns import FairTurns
from helen.sessions.listener import AgentListener, TLSListener
from helen.sessions.open_connections import OpenConnections
from helen.sessions.tls_hub import TLSHub
from helen.settings.settings import Settings


class Stopped:
    """Stands in for a reactor that is only ever stopped."""

    stops = 0

    def stop(self) -> None:
        self.stops += 1


@pytest.fixture
def helen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(exit_in_time.atexit, "register", lambda call: None)  # it would end pytest with its status
    made = HelenService(Stopped(), Settings(tmp_path), lambda: Settings(tmp_path))
    made._live = made._troubles.live = Live(Settings(tmp_path))
    yield made
    made._exit.left.set()


@pytest.mark.adversary(54)
@pytest.mark.parametrize(
    ("troubles", "status", "stops", "told"),
    [
        ([Trouble("disk full")], 0, 0, "disk full"),
        ([Trouble("disk full"), Trouble("room again", over=True)], 0, 0, None),
        ([Trouble("EIO", fatal=True)], 1, 1, "EIO"),
        ([Trouble("EIO", fatal=True), Trouble("EIO", fatal=True)], 1, 2, "EIO"),
    ],
)
def test_trouble_of_the_journal(helen: Any, troubles: list[Trouble], status: int, stops: int, told: str | None) -> None:
    """A full disk passes; a journal that can't be trusted ends Helen with status 1."""
    for trouble in troubles:
        helen._troubles.take(trouble)
    assert (helen._exit.status, helen._reactor.stops, helen._live.trouble) == (status, stops, told)


UNACKNOWLEDGED, SAFE = "no space: not acknowledged", "no space: what was acknowledged is safe"


@pytest.mark.parametrize(
    ("troubles", "told", "lines"),
    [
        ([Trouble(SAFE, part=SEALING), Trouble(UNACKNOWLEDGED)], UNACKNOWLEDGED, [SAFE, UNACKNOWLEDGED]),
        ([Trouble(UNACKNOWLEDGED), Trouble(SAFE, part=SEALING)], UNACKNOWLEDGED, [UNACKNOWLEDGED]),
        (
            [Trouble(UNACKNOWLEDGED), Trouble(SAFE, part=SEALING), Trouble("written", over=True)],
            SAFE, [UNACKNOWLEDGED, "written", SAFE],
        ),
        (
            [Trouble(UNACKNOWLEDGED), Trouble(SAFE, part=SEALING), Trouble("sealed", over=True, part=SEALING)],
            UNACKNOWLEDGED, [UNACKNOWLEDGED, "sealed"],
        ),
        ([Trouble(SAFE, part=SEALING), Trouble("sealed", over=True, part=SEALING)], None, [SAFE, "sealed"]),
        ([Trouble("a sequence is refused", part=REFUSING)], None, ["a sequence is refused"]),
        (
            [Trouble(UNACKNOWLEDGED), Trouble("a sequence is refused", part=REFUSING), Trouble("written", over=True)],
            None, [UNACKNOWLEDGED, "a sequence is refused", "written"],
        ),
    ],
)  # fmt: skip
def test_troubles_of_two_threads_are_one_sentence(
    helen: Any, troubles: list[Trouble], told: str | None, lines: list[str]
) -> None:
    """The worse trouble of both is told; the end of one is not the end of the other, and a refused result does not
    last. (J4)
    """
    logged: list[str] = []
    helen._troubles.log = SimpleNamespace(
        info=lambda form, sentence: logged.append(sentence), critical=lambda form, sentence: logged.append(sentence)
    )
    for trouble in troubles:
        helen._troubles.take(trouble)
    assert (helen._live.trouble, logged) == (told, lines)


def test_sigterm_after_a_fatal_trouble(helen: Any) -> None:
    """The exit status stays what it was."""
    helen.end(1)
    helen.end(0)
    assert helen._exit.status == 1


def test_what_hangs_is_left_behind(helen: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that never answers ends Helen after STOP_SECONDS, with status 1."""
    left: list[int] = []
    monkeypatch.setattr(exit_in_time, "STOP_SECONDS", 0.01)
    monkeypatch.setattr(exit_in_time.os, "_exit", left.append)
    helen._exit.leave_in_time()
    assert left == [1]


# ---------------------------------------------------------------------------------------------- agents' connections


@pytest.mark.parametrize(
    ("settings", "missing", "port", "factory", "lines"),
    [
        ({}, (), TLSHub, AgentListener, 0),
        ({"transport": "stock"}, (), StillPort, TLSListener, 0),
        ({}, ("SSL_read", "_ssl"), StillPort, TLSListener, 1),
        ({"transport": "stock"}, ("SSL_read",), StillPort, TLSListener, 0),
        ({"insecure_plaintext": True}, (), StillPort, AgentListener, 1),
    ],
)
def test_what_carries_the_connections_of_agents(
    helen: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any], missing: tuple[str, ...],
    port: type, factory: type, lines: int,
) -> None:  # fmt: skip
    """The hub carries them unless TLS is Twisted's by setting, or pyOpenSSL lacks a name that the hub calls; the log
    tells.
    """
    opened, said, clock = StillPort(), [], ReactorClock()
    given: list[Any] = []
    monkeypatch.setattr(service.ports, "listen", lambda reactor, fd, made, where: given.append(made) or opened)
    monkeypatch.setattr(agents_port, "MISSING", missing)
    monkeypatch.setattr(agents_port, "_log", SimpleNamespace(warn=lambda text, **names: said.append((text, names))))
    sessions = SimpleNamespace(connections=OpenConnections(), fair_turns=FairTurns(clock, clock.seconds))
    helen._reactor, helen._chosen = clock, Settings(helen._chosen.state, **settings)
    helen._opened = SimpleNamespace(parts=SimpleNamespace(sessions=sessions), server_tls=Authority(tmp_path).tls)
    helen._listen_for_agents(None)
    listening = helen._agents
    assert (type(listening), type(given[0]), len(said)) == (port, factory, lines)
    assert (helen._ports, helen._live.address) == ([listening], f"{socket.gethostname()}:{opened.getHost().port}")
    if missing and lines:
        assert said[0][1] == {"names": "SSL_read, _ssl"}
    listening.stopListening()
    assert (clock.readers, opened.is_listening) == (set(), False)


def test_a_look_of_the_garbage_collector_is_a_short_one() -> None:
    """The thresholds bound a look to few objects, since it holds the reactor: 2,000 new objects take 2 ms, and 50,000
    took 55. All of them are looked at as seldom.

    helen/garbage_looks.py looks at MIDDLE objects where as many go as come, so `old` counts looks at so many.
    """
    young, middle, old = interpreter.COLLECT
    assert young <= 2_000 and young * middle <= 20_000 and min(young * middle, MIDDLE) * old >= 50_000_000


# ---------------------------------------------------------------------------------------------- an end during the start


class Parts:
    """Stands in for parts of a Helen, and notes what is asked of them. `end` is called while step
    `ends_at` is awaited.
    """

    def __init__(self, folder: Path, end: Callable[[], None], ends_at: int) -> None:
        self.state, self.calls, self.awaited, self.is_over = folder, list[str](), 0, False
        self.late: list[str] = []
        self._end, self._ends_at = end, ends_at

    def __getattr__(self, name: str) -> Any:
        return Part(self, name)

    def note(self, name: str) -> Any:
        """Note a call; some return steps that are awaited."""
        (self.late if self.is_over else self.calls).append(name)
        return Step(self)


class Part:
    """Is a part, or a call of it."""

    def __init__(self, parts: Parts, name: str) -> None:
        self._parts, self._name = parts, name

    def __getattr__(self, name: str) -> Any:
        return Part(self._parts, f"{self._name}.{name}")

    def __call__(self, *_: Any, **__: Any) -> Any:
        return self._parts.note(self._name)


class Step:
    """Is a step of the start, during which Helen may be told to end."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def __await__(self) -> Iterator[Any]:
        parts = self._parts
        parts.awaited += 1
        if parts.awaited == parts._ends_at:
            parts._end()
            parts.is_over = True
        return iter(())


@pytest.fixture
def begun(helen: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], Parts]:
    """Return a function that takes a Helen through its start and ends it at a step; 0: at none."""

    def begin(ends_at: int) -> Parts:
        helen.parts = parts = Parts(tmp_path, helen._begin_to_end, ends_at)

        async def warnings(of: Any) -> list[str]:
            await parts.note("warnings")
            return []

        monkeypatch.setattr(service, "all_warnings", warnings)
        monkeypatch.setattr(service, "deferToThread", lambda call: parts.note("run.json"))
        monkeypatch.setattr(service.interpreter, "set_up", lambda: parts.note("interpreter"))
        for name in ("_start_loops", "_serve", "_failed"):
            monkeypatch.setattr(helen, name, lambda *_, name=name: parts.note(name) and None)
        helen._watch, helen._network, helen._opened = parts.watch, parts.network, Part(Parts(tmp_path, print, 0), "")
        helen._run()
        return parts

    monkeypatch.setattr(service.signal, "signal", lambda *_: None)
    return begin


def test_a_start_to_its_end(begun: Callable[[int], Parts]) -> None:
    """Loops begin after the warnings, the network after them, and agents are let in last."""
    calls = begun(0).calls
    assert calls[-7:] == [
        "warnings", "_start_loops", "network.start", "drain.start", "interpreter", "run.json", "_serve",
    ]  # fmt: skip


@pytest.mark.parametrize("step", range(1, 13))
def test_nothing_begins_once_helen_ends(begun: Callable[[int], Parts], step: int) -> None:
    """No step of the start that follows SIGTERM begins, and that is no failure of Helen."""
    parts = begun(step)
    assert (parts.is_over, parts.late, parts.awaited) == (True, [], step)
