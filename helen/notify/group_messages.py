"""Makes the messages of groups that are due, or holds them back with a reason. Pure.

A group has one message under way at a time: changes meanwhile go into the next one. A channel over its rate sends
later, and in one message; nothing is dropped for it.
"""

from __future__ import annotations

from groundwork.durations import words_of
from helen.notify.channel_rates import ChannelRates
from helen.notify.group import RETRY_SECONDS, Entry, Group, Limits, Note
from helen.notify.group_table import GroupTable
from helen.notify.messages import Message, message_id

MAX_ALERTS = 2_000  # of one message: about a megabyte of JSON, which each receiver can take


class GroupMessages:
    """Looks at the groups of a table when they are due. `now` is unix seconds."""

    def __init__(self, table: GroupTable, rates: ChannelRates) -> None:
        self._table = table
        self._rates = rates

    def advance(self, now: float, limits: Limits) -> list[Note | Message]:
        """Return the messages that are due at `now`, and a note for each alert that is held back."""
        made: list[Note | Message] = []
        while (group := self._table.pop_due(now)) is not None:
            made += self._flush(group, now, limits)
        return made

    def _flush(self, group: Group, now: float, limits: Limits) -> list[Note | Message]:
        until, why = self._held_until(group, now, limits)
        if until is not None:
            self._table.plan(group, until)
            return self._notes(group, why)
        message = _message(group, now, limits)
        if not message.alerts:  # a repeat of what somebody deals with
            self._table.plan(group, now + group.timing.repeat)
            return []
        self._rates.add(group.channel, now)
        self._after(group, message, now)
        return [message]

    def _held_until(self, group: Group, now: float, limits: Limits) -> tuple[float | None, str]:
        if limits.busy(group.key):
            return now + RETRY_SECONDS, "the message before it is still under way"
        if limits.full:
            return now + RETRY_SECONDS, "too many messages are under way: the outbox is full"
        rate = limits.rates.get(group.channel)
        free_at = self._rates.free_at(group.channel, rate, now)
        if rate is not None and free_at is not None:
            return free_at, f"the channel's rate of {rate[0]} in {words_of(rate[1])} is used up"
        return None, ""

    def _notes(self, group: Group, why: str) -> list[Note | Message]:
        """Return a note for each change that is held back, once for each message."""
        if group.delayed:
            return []
        group.delayed = True
        action = "rate-limited" if "rate" in why else "waiting"
        return [group.note(each.alert, action, why) for each in group.entries.values() if each.fresh]

    def _after(self, group: Group, message: Message, now: float) -> None:
        """Take note that a message is on its way: its alerts are told, and the recovered ones leave the group."""
        table = self._table
        group.sent, group.delayed = now, False
        group.replaced = group.replaced[MAX_ALERTS:]
        for key in message.fresh:
            entry = group.entries[key]
            if entry.alert.firing:
                table.keep(group, key, Entry(entry.alert, told=True, fresh=False))
            else:
                table.remove(group, key)
        table.end_if_empty(group)  # its alerts may be in other groups by now, and it has said so
        table.touch(group)
        if group.key in table.groups:
            table.plan(group, now + (group.timing.interval if group.pending else group.timing.repeat))


def _message(group: Group, now: float, limits: Limits) -> Message:
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
