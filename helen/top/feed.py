"""Where `helen top` gets its rows from: the HTTP API, asked every so often, and at once when something has changed.

Two threads. One asks: what is new since the last time, and everything now and then. The other listens to Helen's
stream of events and wakes the first; without such a stream (an older Helen, too many of them) asking is enough.
A Helen who is away is told as `Lost`, and asked again until she is back.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import click
from attrs import define, field, frozen

from helen.cli.client import Client
from helen.top.board import Update

WHOLE_SECONDS = 120.0  # between two answers that are whole: checks that are gone are in no other
LEAST_SECONDS = 0.2  # between two questions, however much changes
STREAM_PATIENCE = 40.0  # seconds without a byte of the stream: Helen says each 15 s that she is there
AGAIN_SECONDS = 2.0  # until a Helen who is away, or a stream that broke off, is tried again
CHANGES = "/api/v1/events?kind=transition&kind=flap&kind=ack&kind=link&kind=downtime&kind=silence"


@frozen
class Lost:
    """Helen does not answer; why, as a sentence."""

    why: str


@frozen
class Live:
    """Whether changes come by themselves, or at the next question."""

    on: bool


Tell = Callable[[Update | Lost | Live], None]


@define(eq=False)
class Feed:
    """`tell` is called in a thread of ours. `stop` returns at once; the threads end with the program."""

    client: Client
    interval: float
    _tell: Tell = field(init=False, default=lambda told: None)
    _wake: threading.Event = field(factory=threading.Event)
    _stopped: threading.Event = field(factory=threading.Event)
    _newest: float = 0.0
    _whole_at: float | None = None
    _started: Any = None
    _is_wanted_whole: bool = False

    def start(self, tell: Tell) -> None:
        self._tell = tell
        for work in (self._ask_on, self._listen_on):
            threading.Thread(target=work, name=f"helen.top.{work.__name__}", daemon=True).start()

    def stop(self) -> None:
        self._stopped.set()
        self._wake.set()

    def refresh(self, whole: bool = False) -> None:
        """Ask now."""
        self._is_wanted_whole = self._is_wanted_whole or whole
        self._wake.set()

    # ---------------------------------------------------------------------------------------------- asking

    def _ask_on(self) -> None:
        while not self._stopped.is_set():
            wait = self.interval
            try:
                told: Update | Lost = self.ask(time.monotonic())
            except click.ClickException as error:
                told, wait = Lost(error.format_message()), AGAIN_SECONDS
            if self._stopped.is_set():
                return
            self._tell(told)
            self._stopped.wait(LEAST_SECONDS)
            self._wake.wait(wait)
            self._wake.clear()

    def ask(self, now: float) -> Update:
        """One round. Raises what the client raises; then the next one is whole."""
        before, self._whole_at = self._whole_at, None
        wanted, self._is_wanted_whole = self._is_wanted_whole, False
        status = self.client.get("/api/v1/status")
        is_other = status["started"] != self._started  # than before: she was started anew, with another clock perhaps
        whole = wanted or is_other or before is None or now - before >= WHOLE_SECONDS
        labels = None
        if whole:
            labels = {agent["name"]: agent["labels"] for agent in self.client.get("/api/v1/agents")["agents"]}
        since = 0.0 if whole else self._newest
        results = self.client.get(f"/api/v1/results?kept=1&since={since!r}")["results"]
        states = self.client.get("/api/v1/states")["states"]  # last: they are of what the results say, or newer
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
                        self._tell(Live(True))
                    last = event.id or last
                    if event.data is not None:
                        self.refresh(whole=event.kind == "reset")
            except click.ClickException:
                pass  # whoever asks tells it, if it is more than the stream that is missing
            if not self._stopped.is_set():
                self._tell(Live(False))
                last = None
            self._stopped.wait(AGAIN_SECONDS)
            self.refresh()
