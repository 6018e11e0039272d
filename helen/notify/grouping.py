"""Decides when alerts are sent, and which of them in one message: alerts and time in, messages and reasons out. Pure.

An alert joins one group of each channel that it is routed to. A group's first message goes out `wait` after the first
change, others not sooner than `interval` after the one before; while an alert of it fires, they are sent again after
`repeat`, without those that somebody deals with. A group has one message under way at a time: changes meanwhile wait
and go into the next one. A channel over its rate sends later, and in one message; nothing is dropped for it. An alert
that recovers before it was sent is dropped; the recovery of an alert that was sent is never dropped, even when no rule
leads to that channel any more.
`now` is given, in unix seconds.
"""

from __future__ import annotations

import heapq
import json
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from attrs import define, evolve, field, frozen

from groundwork.durations import words_of
from helen.notify.messages import REPLACED, Alert, Message, message_id
from helen.notify.routing import Destination, Timing

MAX_ALERTS = 2_000  # of one message: about a megabyte of JSON, which each receiver can take
RETRY_SECONDS = 5.0  # until a group is looked at again that waits: its message is under way, or the outbox is full


@frozen
class Note:
    """A decision about one alert, for the history. `action`: grouped, moved, dropped, rate-limited, waiting."""

    alert: Alert
    action: str
    channel: str
    route: str
    why: str


@frozen
class Entry:
    """An alert in a group. `told`: a message with it has gone out; `fresh`: a change of it is still to be sent."""

    alert: Alert
    told: bool = False
    fresh: bool = True


@define
class Group:
    """Alerts that one channel is sent together. `due`: when to look at it next, unix seconds; None: nothing waits."""

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

    @property
    def pending(self) -> bool:
        """Return True if there are changes that are still to be sent."""
        return bool(self.replaced) or any(entry.fresh for entry in self.entries.values())

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
    """The limits that hold messages back now. `busy`: a message of this group is under way; `full`: too many are.

    `handled(channel, alert)`: the channel need not be told again of this alert, since it is acknowledged or muted.
    """

    rates: Mapping[str, tuple[int, float] | None] = field(factory=dict)
    busy: Callable[[str], bool] = lambda group: False
    full: bool = False
    handled: Callable[[str, Alert], bool] = lambda channel, alert: False


@frozen
class Changed:
    """Rows that are to be written: groups and (group, alert) by their keys; None for a row that goes."""

    groups: dict[str, dict[str, Any] | None]
    entries: dict[tuple[str, str], Entry | None]


class Groups:
    """Holds all groups. `take` and `advance` return notes and messages, `changed` the rows to write."""

    def __init__(self) -> None:
        self.groups: dict[str, Group] = {}
        self._of: dict[str, set[str]] = {}  # alert -> groups that have it
        self._heap: list[tuple[float, str]] = []
        self._sent: dict[str, deque[float]] = {}  # channel -> times of its messages, as far as its rate looks back
        self._dirty: set[str] = set()
        self._dirty_entries: set[tuple[str, str]] = set()

    # ---------------------------------------------------------------------------------------------- alerts

    def take(self, alert: Alert, to: Iterable[Destination], labelled: Callable[[str], bool], now: float) -> list[Note]:
        """Take an alert or its end. An end goes to each channel to which the alert was sent. `now`: unix seconds.

        `labelled(channel)`: True if its receiver knows alerts by their labels.
        """
        wanted = {group_key(each.channel, each.route, each.by): each for each in to} if alert.firing else {}
        channels = {each.channel for each in wanted.values()}
        notes: list[Note] = []
        for key in sorted(self._of.get(alert.key, set()) - wanted.keys()):
            group = self.groups[key]
            if group.channel in channels:
                self._move(group, alert, now, notes)
            else:
                self._put(group, alert, now, notes)
        for each in wanted.values():
            self._put(self._group_of(each, labelled), alert, now, notes)
        return notes

    def join(self, alert: Alert, to: Iterable[Destination], labelled: Callable[[str], bool], now: float) -> list[Note]:
        """Put an alert that fires into the groups of channels that don't have it. `now`: unix seconds."""
        have = {self.groups[key].channel for key in self._of.get(alert.key, ())}
        notes: list[Note] = []
        for each in to:
            if each.channel not in have:
                self._put(self._group_of(each, labelled), alert, now, notes)
        return notes

    def agents_of(self, check: str) -> set[str]:
        """Return the agents of which an alert of this check is in a group."""
        ends = f"/{check}"
        return {key.removesuffix(ends) for key in self._of if key.endswith(ends)}

    def _group_of(self, to: Destination, labelled: Callable[[str], bool]) -> Group:
        key = group_key(to.channel, to.route, to.by)
        group = self.groups.get(key)
        if group is None:
            group = self.groups[key] = Group(to.channel, to.route, to.by, to.timing, labelled(to.channel))
        group.timing = to.timing
        return group

    def _put(self, group: Group, alert: Alert, now: float, notes: list[Note]) -> None:
        before = group.entries.get(alert.key)
        told = before is not None and before.told
        if not alert.firing and not told:
            self._remove(group, alert.key)
            notes.append(_note(group, alert, "dropped", f"{alert.what} before anybody was told here"))
            return
        if before is not None:
            if (
                not alert.firing
            ):  # the end has the labels that were sent: by others its receiver would not know the alert
                alert = evolve(alert, began=before.alert.began, labels=before.alert.labels)
            elif before.alert.firing:
                alert = evolve(alert, began=before.alert.began)
            if told and group.labelled and before.alert.labels != alert.labels:
                self._replace(group, before.alert, alert.at)
        self._keep(group, alert.key, Entry(alert, told))
        self._plan_change(group, now)
        assert group.due is not None
        others = len(group.entries) - 1
        together = f" together with {others} more" if others else ""
        labels = ", ".join(f"{name}={value}" for name, value in group.by)
        where = f" in the group {labels}" if labels else ""
        later = words_of(round(max(0.0, group.due - now)))
        notes.append(_note(group, alert, "grouped", f"goes out in {later}{where}{together}"))

    def _move(self, group: Group, alert: Alert, now: float, notes: list[Note]) -> None:
        """Take an alert out of this group: it is in another one of the channel from now on."""
        before = group.entries[alert.key]
        if before.told and group.labelled:
            self._replace(group, before.alert, alert.at)
        self._remove(group, alert.key)
        if group.replaced:
            self._plan_change(group, now)
        notes.append(_note(group, alert, "moved", "its labels put it into another group of this channel"))

    def _replace(self, group: Group, alert: Alert, at: float) -> None:
        group.replaced.append(evolve(alert, firing=False, at=at, what=REPLACED))
        self.groups[group.key] = group
        self._dirty.add(group.key)

    def _keep(self, group: Group, key: str, entry: Entry) -> None:
        group.entries[key] = entry
        self._of.setdefault(key, set()).add(group.key)
        self._dirty.add(group.key)
        self._dirty_entries.add((group.key, key))

    def _remove(self, group: Group, key: str) -> None:
        group.entries.pop(key, None)
        self._of.get(key, set()).discard(group.key)
        if not self._of.get(key):
            self._of.pop(key, None)
        self._dirty.add(group.key)
        self._dirty_entries.add((group.key, key))
        self._end_if_empty(group)

    def _end_if_empty(self, group: Group) -> None:
        if not group.entries and not group.replaced:
            self.groups.pop(group.key, None)

    def forget(self, channel: str) -> list[Note]:
        """Drop all groups of a channel that is gone."""
        gone = [group for group in self.groups.values() if group.channel == channel]
        notes = []
        for group in gone:
            for entry in list(group.entries.values()):
                if entry.fresh:
                    notes.append(_note(group, entry.alert, "dropped", "notifications.toml has this channel no more"))
                self._remove(group, entry.alert.key)
            self.groups.pop(group.key, None)
            self._dirty.add(group.key)
        return notes

    # ---------------------------------------------------------------------------------------------- time

    def due(self) -> float | None:
        """Return when to call `advance` next, in unix seconds; None while nothing waits."""
        return self._heap[0][0] if self._heap else None

    def _plan_change(self, group: Group, now: float) -> None:
        soonest = now if group.sent is None else max(now, group.sent + group.timing.interval)
        at = max(now + group.timing.wait, soonest)
        if group.due is None or at < group.due or group.due <= now:
            self._plan(group, at)

    def _plan(self, group: Group, at: float | None) -> None:
        group.due = at
        self._dirty.add(group.key)
        if at is not None:
            heapq.heappush(self._heap, (at, group.key))

    def advance(self, now: float, limits: Limits) -> list[Note | Message]:
        """Return the messages that are due at `now` (unix seconds), and a note for each alert that is held back."""
        made: list[Note | Message] = []
        while self._heap and self._heap[0][0] <= now:
            at, key = heapq.heappop(self._heap)
            group = self.groups.get(key)
            if group is not None and group.due == at:
                self._flush(group, now, limits, made)
        return made

    def _flush(self, group: Group, now: float, limits: Limits, made: list[Note | Message]) -> None:
        until, why = self._held_until(group, now, limits)
        if until is not None:
            if not group.delayed:
                group.delayed = True
                action = "rate-limited" if "rate" in why else "waiting"
                made += [_note(group, each.alert, action, why) for each in group.entries.values() if each.fresh]
            self._plan(group, until)
            return
        message = self._message(group, now, limits)
        if not message.alerts:  # a repeat of what somebody deals with
            self._plan(group, now + group.timing.repeat)
            return
        self._sent.setdefault(group.channel, deque()).append(now)
        self._after(group, message, now)
        made.append(message)

    def _held_until(self, group: Group, now: float, limits: Limits) -> tuple[float | None, str]:
        if limits.busy(group.key):
            return now + RETRY_SECONDS, "the message before it is still under way"
        if limits.full:
            return now + RETRY_SECONDS, "too many messages are under way: the outbox is full"
        rate = limits.rates.get(group.channel)
        sent = self._sent.setdefault(group.channel, deque())
        while sent and (rate is None or sent[0] <= now - rate[1]):
            sent.popleft()
        if rate is not None and len(sent) >= rate[0]:
            return sent[-rate[0]] + rate[1], f"the channel's rate of {rate[0]} in {words_of(rate[1])} is used up"
        return None, ""

    def _message(self, group: Group, now: float, limits: Limits) -> Message:
        """Make a message: fresh alerts come first, and those that find no room come in the next message."""
        entries = list(group.entries.values())
        fresh = [entry.alert for entry in entries if entry.fresh][: MAX_ALERTS - len(group.replaced[:MAX_ALERTS])]
        known = [entry.alert for entry in entries if not entry.fresh and entry.alert.firing]
        firing = [alert for alert in known if not limits.handled(group.channel, alert)]
        room = MAX_ALERTS - len(group.replaced[:MAX_ALERTS]) - len(fresh)
        alerts = (*group.replaced[:MAX_ALERTS], *fresh, *firing[:room])
        return Message(
            message_id(group.key, now), group.key, group.channel, group.route, dict(group.by), now, alerts,
            frozenset(alert.key for alert in fresh), len(firing[room:]),
        )  # fmt: skip

    def _after(self, group: Group, message: Message, now: float) -> None:
        """Take note that a message is on its way: its alerts are told, and the recovered ones leave the group."""
        group.sent, group.delayed = now, False
        group.replaced = group.replaced[MAX_ALERTS:]
        for key in message.fresh:
            entry = group.entries[key]
            if entry.alert.firing:
                self._keep(group, key, Entry(entry.alert, told=True, fresh=False))
            else:
                self._remove(group, key)
        self._end_if_empty(group)  # its alerts may be in other groups by now, and it has said so
        self._dirty.add(group.key)
        if group.key in self.groups:
            self._plan(group, now + (group.timing.interval if group.pending else group.timing.repeat))

    def move(self, by: float) -> None:
        """Move all times by so many seconds: the clock was set, or nothing could come in for so long."""
        self._heap = []
        for group in self.groups.values():
            group.sent = None if group.sent is None else group.sent + by
            self._plan(group, None if group.due is None else group.due + by)
        for channel, sent in self._sent.items():
            self._sent[channel] = deque(at + by for at in sent)

    # ---------------------------------------------------------------------------------------------- rows

    def changed(self) -> Changed:
        """Return the rows that differ since the last call."""
        groups = {key: self.groups[key].to_json() if key in self.groups else None for key in self._dirty}
        entries = {
            (group, key): self.groups[group].entries.get(key) if group in self.groups else None
            for group, key in self._dirty_entries
        }
        self._dirty, self._dirty_entries = set(), set()
        return Changed(groups, entries)

    def restore(
        self,
        groups: Iterable[Mapping[str, Any]],
        entries: Iterable[tuple[str, Mapping[str, Any], bool, bool]],
        sent: Iterable[tuple[str, float]],
        now: float = float("inf"),
        stepped: float = 0.0,
    ) -> None:
        """Take the rows that the last run has left: groups, (group, alert, told, fresh), and (channel, time) of
        messages.

        `now`: unix seconds. A time of the past that lies ahead of it comes from a clock that was wrong, and is now.
        `stepped`: seconds by which the clock was set since then; nothing is due sooner or later for it.
        """
        for document in groups:
            group = Group.from_json(document)
            self.groups[group.key] = group
        for key, document, told, fresh in entries:
            alert = Alert.from_json(document)
            self.groups[key].entries[alert.key] = Entry(alert, told, fresh)
            self._of.setdefault(alert.key, set()).add(key)
        for channel, at in sorted(sent, key=lambda each: each[1]):
            self._sent.setdefault(channel, deque()).append(at)
        if stepped:
            self.move(stepped)
        self._heap = []
        for group in self.groups.values():
            _put_right(group, now)
            if group.due is not None:
                heapq.heappush(self._heap, (group.due, group.key))
        for channel, times in self._sent.items():
            self._sent[channel] = deque(min(at, now) for at in times)


def _put_right(group: Group, now: float) -> None:
    """Let a group wait no longer than its timing says, whatever the clock said when it was stored.

    `now`: unix seconds. A group whose channel has used up its rate is looked at, and waits on.
    """
    if group.due is None:
        return
    if group.sent is not None and group.sent > now:
        group.due -= group.sent - now
        group.sent = now
    timing = group.timing
    most = timing.wait if group.sent is None else max(timing.wait, timing.interval if group.pending else timing.repeat)
    group.due = min(group.due, now + max(most, RETRY_SECONDS))


def _note(group: Group, alert: Alert, action: str, why: str) -> Note:
    return Note(alert, action, group.channel, group.route, why)
