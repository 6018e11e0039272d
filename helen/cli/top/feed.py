"""Fetch the rows of `helen top` from the HTTP API: at intervals, and at once when an event announces a change.

There are two threads. The first asks for results since its last request, and for everything now and then. The second
reads Helen's stream of events and wakes the first; without a stream (an older Helen, too many streams) the first is
enough. If Helen doesn't answer, the feed reports `Lost` and asks again until it does.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import click
from attrs import define, field, frozen

from helen.cli.base.client import Client
from helen.cli.top.rows import Update

WHOLE_SECONDS = 120.0  # between two whole updates: only they show that checks are gone
LEAST_SECONDS = 0.2  # between two requests, however much changes
STREAM_PATIENCE = 40.0  # seconds without a byte of the stream: Helen sends at least a comment each 15 s
AGAIN_SECONDS = 2.0  # until a Helen that doesn't answer, or a stream that broke off, is tried again
CHANGES = "/api/v1/events?kind=transition&kind=flap&kind=ack&kind=link&kind=downtime&kind=silence"


@frozen
class Lost:
    """Report that Helen does not answer; `why` is a sentence."""

    why: str


@frozen
class Streaming:
    """Report that changes arrive by the stream of events (`on`), or only with the next request."""

    on: bool


News = Update | Lost | Streaming
Tell = Callable[[News], None]


@define(eq=False)
class Feed:
    """Ask Helen each `interval` seconds, and call `tell` with the news, in a thread of the feed.

    `stop` returns at once; the threads end with the program.
    """

    client: Client
    interval: float
    _tell: Tell = field(init=False, default=lambda news: None)
    _wake: threading.Event = field(factory=threading.Event)
    _stopped: threading.Event = field(factory=threading.Event)
    _newest: float = 0.0
    _whole_at: float | None = None
    _started: Any = None
    _is_wanted_whole: bool = False

    def start(self, tell: Tell) -> None:
        """Start both threads."""
        self._tell = tell
        for work in (self._ask_on, self._listen_on):
            threading.Thread(target=work, name=f"helen.top.{work.__name__}", daemon=True).start()

    def stop(self) -> None:
        self._stopped.set()
        self._wake.set()

    def refresh(self, whole: bool = False) -> None:
        """Ask now, for everything if `whole`."""
        self._is_wanted_whole = self._is_wanted_whole or whole
        self._wake.set()

    # ---------------------------------------------------------------------------------------------- asking

    def _ask_on(self) -> None:
        while not self._stopped.is_set():
            wait = self.interval
            try:
                news: Update | Lost = self.ask(time.monotonic())
            except click.ClickException as error:
                news, wait = Lost(error.format_message()), AGAIN_SECONDS
            if self._stopped.is_set():
                return
            self._tell(news)
            self._stopped.wait(LEAST_SECONDS)
            self._wake.wait(wait)
            self._wake.clear()

    def ask(self, now: float) -> Update:
        """Return one update; `now` is monotonic seconds. Raises the client's errors; the next update is whole then."""
        before, self._whole_at = self._whole_at, None
        wanted, self._is_wanted_whole = self._is_wanted_whole, False
        status = self.client.get("/api/v1/status")
        is_other = status["started"] != self._started  # Helen was started again, with another clock perhaps
        whole = wanted or is_other or before is None or now - before >= WHOLE_SECONDS
        labels = None
        if whole:
            labels = {agent["name"]: agent["labels"] for agent in self.client.get("/api/v1/agents")["agents"]}
        since = 0.0 if whole else self._newest
        results = self.client.get(f"/api/v1/results?kept=1&since={since!r}")["results"]
        states = self.client.get("/api/v1/states")["states"]  # last, so that no state is older than its result
        self._newest = max((result["received"] for result in results), default=since)
        self._started, self._whole_at = status["started"], now if whole else before
        return Update(status, tuple(results), tuple(states), labels, whole)

    # ---------------------------------------------------------------------------------------------- listening

    def _listen_on(self) -> None:
        last: str | None = None
        while not self._stopped.is_set():
            try:
                for event in self.client.events(CHANGES, last, STREAM_PATIENCE):
                    if self._stopped.is_set():
                        return
                    if last is None:
                        self._tell(Streaming(True))
                    last = event.id or last
                    if event.data is not None:
                        self.refresh(whole=event.kind == "reset")
            except click.ClickException:
                pass  # the first thread reports it, if more than the stream is missing
            if not self._stopped.is_set():
                self._tell(Streaming(False))
                last = None
            self._stopped.wait(AGAIN_SECONDS)
            self.refresh()
