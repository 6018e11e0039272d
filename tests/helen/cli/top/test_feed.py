"""Tests which requests `helen top` makes of Helen, and when, with a client of the test."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from helen.cli.base.client import Event, Failed
from helen.cli.top.feed import WHOLE_SECONDS, Feed, Lost, Streaming
from helen.cli.top.rows import Update

PATIENCE = 60.0  # seconds; only a broken thread comes near it


class FakeClient:
    """Answer as the test says, and note the requests."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.started = 1.0
        self.trouble: Exception | None = None
        self.results: list[dict[str, Any]] = [{"agent": "a", "check_id": "c", "received": 5.5}]
        self.stream: Callable[[], Iterator[Event]] = lambda: iter(())

    def get(self, path: str) -> Any:
        self.asked.append(path.removeprefix("/api/v1/"))
        if self.trouble is not None:
            raise self.trouble
        return {
            "status": {"started": self.started}, "agents": {"agents": [{"name": "a", "labels": {"role": "web"}}]},
            "states": {"states": []}, "results": {"results": self.results},
        }[path.removeprefix("/api/v1/").partition("?")[0]]  # fmt: skip

    def events(self, path: str, last: str | None, patience: float) -> Iterator[Event]:
        return self.stream()


@pytest.fixture
def client() -> FakeClient:
    return FakeClient()


@pytest.fixture
def feed(client: FakeClient) -> Feed:
    return Feed(client, 0.01)  # type: ignore[arg-type]


def asked(client: FakeClient) -> list[str]:
    found, client.asked = client.asked, []
    return found


def test_the_first_answer_is_whole_and_later_ones_what_is_new(client: FakeClient, feed: Feed) -> None:
    """The first answer is whole, later ones begin at the newest result, and all is asked again after WHOLE_SECONDS."""
    first = feed.ask(0.0)
    assert (first.whole, first.labels, len(first.results)) == (True, {"a": {"role": "web"}}, 1)
    assert asked(client) == ["status", "agents", "results?kept=1&since=0.0", "states"]
    client.results = []
    second = feed.ask(WHOLE_SECONDS - 1)
    assert (second.whole, second.labels) == (False, None)
    assert asked(client) == ["status", "results?kept=1&since=5.5", "states"]
    assert feed.ask(WHOLE_SECONDS).whole is True


def test_a_helen_that_was_started_anew_is_asked_for_everything(client: FakeClient, feed: Feed) -> None:
    """Everything is asked again after Helen was started anew or away, and on request."""
    feed.ask(0.0)
    client.started = 2.0
    assert feed.ask(1.0).whole is True
    client.trouble = Failed("gone")
    with pytest.raises(Failed):
        feed.ask(2.0)
    client.trouble = None
    assert feed.ask(3.0).whole is True
    assert feed.ask(4.0).whole is False
    feed.refresh(whole=True)
    assert feed.ask(5.0).whole is True


def test_lost_and_found(client: FakeClient, feed: Feed, monkeypatch: pytest.MonkeyPatch) -> None:
    """Helen's absence is told with its reason, and the next answer follows by itself; a change in the stream wakes
    the feed."""
    monkeypatch.setattr("helen.cli.top.feed.AGAIN_SECONDS", 0.01)
    monkeypatch.setattr("helen.cli.top.feed.LEAST_SECONDS", 0.001)
    told: list[Any] = []
    heard = threading.Event()
    event = Event("e.1", "transition", {"agent": "a"})
    client.stream = lambda: iter([Event("e.0", "", None), event])
    client.trouble = Failed("no Helen runs on x")

    def tell(what: Any) -> None:
        told.append(what)
        if isinstance(what, Lost):
            client.trouble = None
        if {type(each) for each in told} == {Lost, Streaming, Update}:
            heard.set()

    feed.start(tell)
    assert heard.wait(PATIENCE)
    feed.stop()
    assert Lost("no Helen runs on x") in told
    assert [each for each in told if isinstance(each, Streaming)][:2] == [Streaming(True), Streaming(False)]


def test_without_a_stream(client: FakeClient, feed: Feed, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a stream, as with an older Helen, the feed goes on asking."""
    monkeypatch.setattr("helen.cli.top.feed.LEAST_SECONDS", 0.001)

    def refused() -> Iterator[Event]:
        raise Failed("not found")

    client.stream = refused
    updates: list[Any] = []
    enough = threading.Event()

    def tell(what: Any) -> None:
        updates.append(what)
        if sum(isinstance(each, Update) for each in updates) >= 3:
            enough.set()

    feed.start(tell)
    assert enough.wait(PATIENCE)
    feed.stop()
    assert Streaming(True) not in updates
