"""Runs a notifier on a real database under a clock, and keeps what it sent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from telling import WALL, DirectStore, Journal, wall
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.task import Clock

from helen.journal.values import Change, StoredChange
from helen.notify.attempt import Accepted
from helen.notify.channels.channel import Channel
from helen.notify.messages import Message
from helen.notify.missed import StoredDecision
from helen.notify.notifier import Notifier

FILE = """
[channels.hook]
type = "webhook"
url = "http://127.0.0.1:9/"
[channels.am]
type = "alertmanager"
url = "http://127.0.0.1:9/"
[route]
group_wait = "10s"
channels = "hook"
[[route.routes]]
match = "site=am"
channels = "am"
[[route.routes]]
match = "site=none"
channels = []
"""


class Life:
    """Runs one Helen's notifications; `next` is what comes after a kill. `answer` is what sending comes to."""

    def __init__(
        self, folder: Path, clock: Clock, missed: list[StoredDecision] | None = None,
        open_problems: list[tuple[str, str, dict[str, Any]]] | None = None, stepped: float = 0.0, starts: bool = True,
    ) -> None:  # fmt: skip
        self.folder, self.clock, self.store, self.journal = folder, clock, DirectStore(folder), Journal()
        self.labels: dict[str, str] = {"site": "x"}
        self.open = list(open_problems or ())  # problems that were told and are not over
        self.notifier = Notifier(
            clock, folder, self.store, self.journal,  # type: ignore[arg-type]
            lambda agent, check: (self.labels, "words"), wall(clock), open_problems=lambda: self.open,
        )  # fmt: skip
        self.sent: list[tuple[float, str, list[str], str]] = []
        self.answer: Any = Accepted("fine")
        self.hanging: list[Deferred[Accepted]] = []
        self.notifier.outbox._send = self.send
        self.notifier.outbox._chance = lambda: 0.5
        self.at = 0
        if not starts:
            return
        newer = lambda at: succeed([each for each in missed or () if each.at > at])  # noqa: E731
        started = Deferred.fromCoroutine(self.notifier.start(0, newer, stepped))
        assert started.called
        started.addErrback(lambda failure: failure.raiseException())

    def send(self, channel: Channel, message: Message) -> Deferred[Accepted]:
        keys = [f"{each.key}{'+' if each.firing else '-'}" for each in message.alerts]
        self.sent.append((self.clock.seconds(), channel.name, keys, message.id))
        if self.answer is None:
            self.hanging.append(Deferred())
            return self.hanging[-1]
        return fail(self.answer) if isinstance(self.answer, Exception) else succeed(self.answer)

    def decide(
        self, name: str = "a/c", what: str = "problem", status: str = "critical", action: str = "notify"
    ) -> StoredDecision:
        self.at += 1
        agent, check = name.split("/")
        document = {"number": 0, "at": WALL + self.clock.seconds(), "action": action, "what": what, "status": status,
                    "why": "so", "reasons": []}  # fmt: skip
        raw = json.dumps(document).encode()
        self.notifier.decided(StoredChange(self.at, Change("decision", 0.0, agent, check, raw)))
        return StoredDecision(self.at, agent, check, raw)

    def sit(self, seconds: float) -> None:
        self.clock.pump([0.5] * int(seconds * 2))

    def kill(self, missed: list[StoredDecision] | None = None) -> Life:
        """Return the next notifier after a kill: nothing is put away, and the database is as it is."""
        self.store.db.close()
        return Life(self.folder, self.clock, missed)
