"""Holds what the tests of notifications are made of: alerts in short, a store without a thread, a reactor that is
pumped.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from patience import Patience
from twisted.internet.defer import Deferred, fail, maybeDeferred
from twisted.internet.epollreactor import EPollReactor
from twisted.internet.task import Clock
from twisted.python.failure import Failure

from helen.files.toml_table import Text
from helen.notify.attempt import SendFailed
from helen.notify.channels.alertmanager import Alertmanager
from helen.notify.channels.channel import Channel, ChannelKind
from helen.notify.channels.webhook import Webhook
from helen.notify.group import Limits, Note
from helen.notify.grouping import Groups
from helen.notify.http_receiver import HttpReceiver
from helen.notify.messages import Alert, Message, labels_of
from helen.notify.routing import Destination, Timing
from helen.notify.sending import send
from helen.storage import schema
from helen.storage.database import StoreFailed

WALL = 1_800_000_000.0
PATIENCE = 60.0


def alert(name: str = "a/c", what: str = "problem", status: str = "critical", at: float = 0.0, **labels: str) -> Alert:
    agent, check = name.split("/")
    firing = what not in ("recovery", "closed") and status != "ok"
    given = labels_of(agent, check, status, labels)
    return Alert(agent, check, int(at) + 1, WALL + at, what, status, "so it is", given, "words", WALL + at, firing)


def webhook(url: Text, shape: str = "own", **more: Any) -> Webhook:
    return Webhook(HttpReceiver(url, **more), shape)


def an_api(url: Text) -> Alertmanager:
    return Alertmanager(HttpReceiver(url))


class Scene:
    """Holds groups of notifications under a clock. The outcome is written down in short: `10 hook: a/c+ b/c-` or `note
    action channel`.
    """

    def __init__(self, timing: Timing = Timing(10.0, 60.0, 600.0), labelled: tuple[str, ...] = ()) -> None:  # noqa: B008
        self.groups, self.timing, self.labelled = Groups(), timing, labelled
        self.at, self.limits, self.said = 0.0, Limits(), list[str]()
        self.messages: list[Message] = []

    def take(self, given: Alert, *channels: str, by: tuple[str, ...] = ()) -> list[str]:
        to = [Destination(each, "r", tuple((n, given.labels.get(n, "")) for n in by), self.timing) for each in channels]
        notes = self.groups.take(given, to, lambda name: name in self.labelled, WALL + self.at)
        return [f"{note.action} {note.channel}: {note.why}" for note in notes]

    def until(self, at: float) -> list[str]:
        """Return all that is said up to a moment, one due time after the other."""
        said: list[str] = []
        while (due := self.groups.due()) is not None and due <= WALL + at:
            self.at = max(self.at, due - WALL)
            for each in self.groups.advance(WALL + self.at, self.limits):
                said.append(self._short(each))
        self.at = at
        return said

    def _short(self, each: Note | Message) -> str:
        if isinstance(each, Note):
            return f"{self.at:g} {each.action} {each.channel}: {each.alert.key}"
        self.messages.append(each)
        alerts = " ".join(
            a.key + ("+" if a.firing else "-") + "!" * (a.key in each.fresh) + "~" * (a.what == "replaced")
            for a in each.alerts
        )
        return f"{self.at:g} {each.channel}: {alerts}"


class DirectStore:
    """Is a store whose calls are done at once, on a real database; `broken` makes them fail, `held` lets them wait."""

    def __init__(self, folder: Path) -> None:
        self.db = schema.connect(folder / "helen.db")
        self.broken = False
        self.held: list[Deferred[None]] | None = None  # fire one to let its call go on
        self.calls: list[str] = []

    def call(self, work: Callable[..., Any], *args: Any) -> Deferred[Any]:
        self.calls.append(work.__name__)
        if self.held is not None:
            self.held.append(Deferred())
            return self.held[-1].addCallback(lambda _: work(self.db, *args))
        return fail(StoreFailed("disk full")) if self.broken else maybeDeferred(work, self.db, *args)


class Journal:
    def __init__(self) -> None:
        self.notices: list[tuple[str, str, str]] = []
        self.documents: list[Any] = []

    def change(self, kind: str, document: Any, agent: str | None = None, check_id: str | None = None) -> None:
        assert kind == "notice"
        self.documents.append(document)
        self.notices.append((f"{agent}/{check_id}", document["action"], document.get("channel", "")))


class Pump:
    """Turns a real reactor of the test's own."""

    def __init__(self) -> None:
        self.reactor = EPollReactor()
        self.reactor.startRunning(installSignalHandlers=False)

    def run(self, deferred: Deferred[Any]) -> Any:
        """Return the value of a Deferred, or raise its exception."""
        got: list[Any] = []
        deferred.addBoth(got.append)
        bound = Patience(PATIENCE)
        while not got:
            assert bound.lasts(), "it never came to an end"
            self.reactor.iterate(0.01)
        return got[0]

    def close(self) -> None:
        self.reactor.fireSystemEvent("shutdown")
        for each in self.reactor.removeAll():
            each.connectionLost(None) if hasattr(each, "loseConnection") else None
        self.reactor.iterate(0)


def wall(clock: Clock) -> Callable[[], float]:
    return lambda: WALL + clock.seconds()


def told(pump: Pump, via: ChannelKind, given: Message, timeout: float = 20.0, url: str = "http://helen.example") -> str:
    """Send a message once: `ok ...` or `failed ...`, in the remote's words."""
    found = pump.run(send(pump.reactor, Channel("x", via, timeout), given, url))
    if isinstance(found, Failure):
        assert found.check(SendFailed), found.getTraceback()
        return f"failed {found.value.text}"
    return f"ok {found.text}"
