"""Tests silences by Alertmanager's UUIDs, which are made in a thread however many windows there are."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from twisted.internet.defer import Deferred, succeed

from helen.states.downtimes import read_window
from helen.web.alertmanager.silences import uuid_of
from helen.web.foreign_routes import alertmanager_silences as silences
from helen.web.problems import Problem

NOW = 1_900_000_000.0
MATCHERS = [{"name": "agent", "value": "a", "isRegex": False}]


class Stage:
    """Hold 300 windows, a thread run by hand, and the number of UUIDs made outside of it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.windows = {
            f"w{number}": read_window({"id": f"w{number}", "kind": "silence", "begin": NOW, "until": NOW + 60}, NOW)
            for number in range(300)
        }
        self.written: list[Any] = []
        self.outside = 0
        self.in_thread: Callable[[], object] = lambda: None  # what happens on the reactor meanwhile
        self._is_thread = False
        timeline = SimpleNamespace(windows=self.windows, states={}, copied=dict)
        self.parts: Any = SimpleNamespace(
            visible=lambda caller: None, evaluator=SimpleNamespace(timeline=timeline),
            commands=SimpleNamespace(write=self._write),
        )  # fmt: skip
        self.request: Any = SimpleNamespace(caller=SimpleNamespace(actor="eva"), subject="")
        monkeypatch.setattr(silences, "deferToThread", self._thread)
        monkeypatch.setattr(silences, "uuid_of", self._uuid_of)
        monkeypatch.setattr(silences, "write_json", lambda request, body: body)
        monkeypatch.setattr(silences.time, "time", lambda: NOW)

    def _write(self, kind: str, document: dict[str, Any], *key: str) -> Deferred[None]:
        self.written.append((kind, document["action"], document.get("id")))
        return succeed(None)

    def _thread(self, call: Any, *given: Any) -> Deferred[Any]:
        self._is_thread = True
        try:
            found = call(*given)
        finally:
            self._is_thread = False
        self.in_thread()
        return succeed(found)

    def _uuid_of(self, name: str) -> str:
        self.outside += not self._is_thread
        return uuid_of(name)

    def expire(self, name: str) -> Any:
        return _result(silences._expire(self.parts, self.request, name))

    def put(self, monkeypatch: pytest.MonkeyPatch, name: str) -> Any:
        body = {
            "id": name, "matchers": MATCHERS, "startsAt": "2030-03-17T17:46:40Z", "endsAt": "2030-03-17T18:46:40Z",
            "createdBy": "eva", "comment": "x",
        }  # fmt: skip
        monkeypatch.setattr(silences, "read_json_value", lambda request: succeed(body))
        return _result(silences._put(self.parts, self.request))


def _result(command: Any) -> Any:
    ended: list[Any] = []
    Deferred.fromCoroutine(command).addBoth(ended.append)
    (outcome,) = ended
    if hasattr(outcome, "raiseException"):
        outcome.raiseException()
    return outcome


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Stage:
    return Stage(monkeypatch)


@pytest.mark.parametrize("name", ["w299", uuid_of("w299")])
def test_one_that_is_there(stage: Stage, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A silence is cancelled and changed by its own id and by its UUID, and only the answer's UUID is made outside
    the thread."""
    assert stage.expire(name) == {}
    assert stage.put(monkeypatch, name) == {"silenceID": uuid_of("w299")}
    assert stage.written == [("silence", "cancel", "w299"), ("silence", "add", "w299")]
    assert stage.outside == 1


@pytest.mark.parametrize("name", ["w300", uuid_of("w300"), "x"])
def test_one_that_is_not(stage: Stage, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An unknown silence is searched for in a thread alone, and is 404."""
    for command in (stage.expire, lambda name: stage.put(monkeypatch, name)):
        with pytest.raises(Problem) as told:
            command(name)
        assert told.value.status == 404
    assert (stage.outside, stage.written) == (0, [])


def test_one_that_ends_while_it_is_looked_for(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """A silence that ends during the search is neither cancelled nor opened again."""
    stage.in_thread = stage.windows.clear
    for command in (stage.expire, lambda name: stage.put(monkeypatch, name)):
        with pytest.raises(Problem, match="no silence"):
            command(uuid_of("w7"))
        assert stage.written == []
