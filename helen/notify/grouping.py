"""Decides when alerts are sent, and which of them in one message: alerts and time in, messages and reasons out. Pure.

An alert joins one group of each channel that it is routed to. A group's first message goes out `wait` after the first
change, others not sooner than `interval` after the one before; while an alert of it fires, they are sent again after
`repeat`, without those that somebody deals with. An alert that recovers before it was sent is dropped; the recovery of
an alert that was sent is never dropped, even when no rule leads to that channel any more. helen.notify.group_messages
makes the messages, helen.notify.group_table keeps the groups. `now` is given, in unix seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from attrs import evolve

from groundwork.durations import words_of
from helen.notify.channel_rates import ChannelRates
from helen.notify.group import Changed, Entry, Group, Limits, Note, group_key
from helen.notify.group_messages import GroupMessages
from helen.notify.group_table import GroupTable
from helen.notify.messages import Alert, Message
from helen.notify.routing import Destination


class Groups:
    """Holds all groups. `take` and `advance` return notes and messages, `changed` the rows to write."""

    def __init__(self) -> None:
        self._table = GroupTable()
        self._rates = ChannelRates()
        self._messages = GroupMessages(self._table, self._rates)

    @property
    def groups(self) -> Mapping[str, Group]:
        """Return all groups, by their keys."""
        return self._table.groups

    # ---------------------------------------------------------------------------------------------- alerts

    def take(self, alert: Alert, to: Iterable[Destination], labelled: Callable[[str], bool], now: float) -> list[Note]:
        """Take an alert or its end. An end goes to each channel to which the alert was sent. `now`: unix seconds.

        `labelled(channel)`: True if its receiver knows alerts by their labels.
        """
        wanted = {group_key(each.channel, each.route, each.by): each for each in to} if alert.firing else {}
        channels = {each.channel for each in wanted.values()}
        notes: list[Note] = []
        for key in sorted(self._table.of.get(alert.key, set()) - wanted.keys()):
            group = self._table.groups[key]
            if group.channel in channels:
                self._move(group, alert, now, notes)
            else:
                self._put(group, alert, now, notes)
        for each in wanted.values():
            self._put(self._group_of(each, labelled), alert, now, notes)
        return notes

    def join(self, alert: Alert, to: Iterable[Destination], labelled: Callable[[str], bool], now: float) -> list[Note]:
        """Put an alert that fires into the groups of channels that don't have it. `now`: unix seconds."""
        have = {self._table.groups[key].channel for key in self._table.of.get(alert.key, ())}
        notes: list[Note] = []
        for each in to:
            if each.channel not in have:
                self._put(self._group_of(each, labelled), alert, now, notes)
        return notes

    def agents_of(self, check: str) -> set[str]:
        """Return the agents of which an alert of this check is in a group."""
        ends = f"/{check}"
        return {key.removesuffix(ends) for key in self._table.of if key.endswith(ends)}

    def _group_of(self, to: Destination, labelled: Callable[[str], bool]) -> Group:
        groups, key = self._table.groups, group_key(to.channel, to.route, to.by)
        if key not in groups:
            groups[key] = Group(to.channel, to.route, to.by, to.timing, labelled(to.channel))
        groups[key].timing = to.timing
        return groups[key]

    def _put(self, group: Group, alert: Alert, now: float, notes: list[Note]) -> None:
        before = group.entries.get(alert.key)
        told = before is not None and before.told
        if not alert.firing and not told:
            self._table.remove(group, alert.key)
            notes.append(group.note(alert, "dropped", f"{alert.what} before anybody was told here"))
            return
        if before is not None:
            alert = _following(alert, before.alert)
            if told and group.labelled and before.alert.labels != alert.labels:
                self._table.replace(group, before.alert, alert.at)
        self._table.keep(group, alert.key, Entry(alert, told))
        self._plan_change(group, now)
        notes.append(group.note(alert, "grouped", _when(group, now)))

    def _move(self, group: Group, alert: Alert, now: float, notes: list[Note]) -> None:
        """Take an alert out of this group: it is in another one of the channel from now on."""
        before = group.entries[alert.key]
        if before.told and group.labelled:
            self._table.replace(group, before.alert, alert.at)
        self._table.remove(group, alert.key)
        if group.replaced:
            self._plan_change(group, now)
        notes.append(group.note(alert, "moved", "its labels put it into another group of this channel"))

    def _plan_change(self, group: Group, now: float) -> None:
        soonest = now if group.sent is None else max(now, group.sent + group.timing.interval)
        at = max(now + group.timing.wait, soonest)
        if group.due is None or at < group.due or group.due <= now:
            self._table.plan(group, at)

    def forget(self, channel: str) -> list[Note]:
        """Drop all groups of a channel that is gone."""
        notes = []
        for group in [group for group in self._table.groups.values() if group.channel == channel]:
            fresh = [entry.alert for entry in group.entries.values() if entry.fresh]
            notes += [group.note(alert, "dropped", "notifications.toml has this channel no more") for alert in fresh]
            self._table.drop(group)
        return notes

    # ---------------------------------------------------------------------------------------------- time

    def due(self) -> float | None:
        """Return when to call `advance` next, in unix seconds; None while nothing waits."""
        return self._table.due()

    def advance(self, now: float, limits: Limits) -> list[Note | Message]:
        """Return the messages that are due at `now` (unix seconds), and a note for each alert that is held back."""
        return self._messages.advance(now, limits)

    def move(self, by: float) -> None:
        """Move all times by so many seconds: the clock was set, or nothing could come in for so long."""
        self._table.move(by)
        self._rates.move(by)

    # ---------------------------------------------------------------------------------------------- rows

    def changed(self) -> Changed:
        """Return the rows that differ since the last call."""
        return self._table.changed()

    def sent(self) -> list[tuple[str, float]]:
        """Return channel and time (unix seconds) of each message that a rate still counts."""
        return self._rates.sent()

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
        self._table.load(groups, entries)
        self._rates.load(sent)
        if stepped:
            self.move(stepped)
        self._table.put_right(now)
        self._rates.put_right(now)


def _following(alert: Alert, before: Alert) -> Alert:
    """Return an alert as the group tells it that has it already.

    The end has the labels that were sent: by others its receiver would not know the alert.
    """
    if not alert.firing:
        return evolve(alert, began=before.began, labels=before.labels)
    return evolve(alert, began=before.began) if before.firing else alert


def _when(group: Group, now: float) -> str:
    """Return a sentence that says when a change of this group goes out, where, and with how many others."""
    assert group.due is not None
    others = len(group.entries) - 1
    together = f" together with {others} more" if others else ""
    labels = ", ".join(f"{name}={value}" for name, value in group.by)
    where = f" in the group {labels}" if labels else ""
    return f"goes out in {words_of(round(max(0.0, group.due - now)))}{where}{together}"
