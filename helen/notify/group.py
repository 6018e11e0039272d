"""Define groups of alerts that one channel is sent together, and what is said and written of them. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from attrs import define, field, frozen

from helen.notify.messages import Alert
from helen.notify.routing import Timing

RETRY_SECONDS = 5.0  # until a group is looked at again that waits: its message is under way, or the outbox is full


@frozen
class Note:
    """Describes a decision about one alert, for the history.

    `action`: grouped, moved, dropped, rate-limited, waiting.
    """

    alert: Alert
    action: str
    channel: str
    route: str
    why: str


@frozen
class Entry:
    """Describes an alert in a group.

    `told`: a message with it has gone out; `fresh`: a change of it is still to be sent.
    """

    alert: Alert
    told: bool = False
    fresh: bool = True


@define
class Group:
    """Describes alerts that one channel is sent together.

    `due`: when to look at it next, unix seconds; None: nothing waits.
    """

    channel: str
    route: str
    by: tuple[tuple[str, str], ...]
    timing: Timing
    labelled: bool  # its receiver knows alerts by their labels
    entries: dict[str, Entry] = field(factory=dict)
    replaced: list[Alert] = field(factory=list)  # alerts as they were before their labels changed, to be resolved
    due: float | None = None
    sent: float | None = None
    delayed: bool = False  # the reason for which it waits is in the history

    @property
    def key(self) -> str:
        """Return the key that `group_key` makes."""
        return group_key(self.channel, self.route, self.by)

    def note(self, alert: Alert, action: str, why: str) -> Note:
        """Return a note about an alert of this group."""
        return Note(alert, action, self.channel, self.route, why)

    @property
    def pending(self) -> bool:
        """Return True if there are changes that are still to be sent."""
        return bool(self.replaced) or any(entry.fresh for entry in self.entries.values())

    def put_right(self, now: float) -> None:
        """Let the group wait no longer than its timing says, whatever the clock said when it was stored.

        `now`: unix seconds. A group whose channel has used up its rate is looked at, and waits on.
        """
        if self.due is None:
            return
        if self.sent is not None and self.sent > now:
            self.due -= self.sent - now
            self.sent = now
        timing = self.timing
        usual = timing.interval if self.pending else timing.repeat
        most = timing.wait if self.sent is None else max(timing.wait, usual)
        self.due = min(self.due, now + max(most, RETRY_SECONDS))

    def to_json(self) -> dict[str, Any]:
        """Return the group without its entries, each of which has a row of its own.

        Keys: `channel`, `route`, `by`, `labelled`, `due`, `timing`, `sent`, `replaced` and `delayed`.
        """
        return {
            "channel": self.channel, "route": self.route, "by": self.by, "labelled": self.labelled, "due": self.due,
            "timing": [self.timing.wait, self.timing.interval, self.timing.repeat], "sent": self.sent,
            "replaced": [alert.to_json() for alert in self.replaced], "delayed": self.delayed,
        }  # fmt: skip

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Group:
        """Return the group that `to_json` has written, without entries."""
        by = tuple((name, value) for name, value in document["by"])
        replaced = [Alert.from_json(each) for each in document["replaced"]]
        return cls(
            document["channel"], document["route"], by, Timing(*document["timing"]), document["labelled"], {}, replaced,
            document["due"], document["sent"], document["delayed"],
        )  # fmt: skip


def group_key(channel: str, route: str, by: Iterable[tuple[str, str]]) -> str:
    """Return the key of a group: its channel, its rule, and the labels that it is grouped by."""
    return json.dumps([channel, route, list(by)], ensure_ascii=False)


@frozen
class Limits:
    """Holds the limits that hold messages back now. `busy`: a message of this group is under way; `full`: too many are.

    `handled(channel, alert)`: the channel need not be told again of this alert, since it is acknowledged or muted.
    """

    rates: Mapping[str, tuple[int, float] | None] = field(factory=dict)
    busy: Callable[[str], bool] = lambda group: False
    full: bool = False
    handled: Callable[[str, Alert], bool] = lambda channel, alert: False


@frozen
class Changed:
    """Holds rows that are to be written: groups and (group, alert) by their keys; None for a row that goes."""

    groups: dict[str, dict[str, Any] | None]
    entries: dict[tuple[str, str], Entry | None]
