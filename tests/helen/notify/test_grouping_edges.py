"""Tests groups at the edges of their times and sizes: the exact moments, alerts without room, and the rows."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from telling import WALL, Scene, alert

from helen.notify import group_messages
from helen.notify.group import Changed, Entry, Group, Limits, Note, group_key
from helen.notify.grouping import Groups
from helen.notify.messages import Message, message_id
from helen.notify.routing import Destination, Timing

TIMING = Timing(10.0, 60.0, 600.0)


def put(groups: Groups, name: str = "a/c", at: float = 0.0, timing: Timing = TIMING, **labels: str) -> list[Note]:
    return groups.take(alert(name, at=at, **labels), [Destination("hook", "r", (), timing)], lambda _: False, WALL + at)


def told(groups: Groups, at: float, limits: Limits | None = None) -> list[str]:
    """Return keys of the messages of one moment, the fresh ones with `!`, and the actions of notes."""
    found = []
    for each in groups.advance(WALL + at, limits or Limits()):
        if isinstance(each, Message):
            found.append(" ".join(a.key + "!" * (a.key in each.fresh) for a in each.alerts))
        else:
            found.append(f"{each.action} {each.alert.key}: {each.why}")
    return found


# ------------------------------------------------------------------------------------------------ moments


def test_a_message_goes_out_at_its_moment_and_not_a_millisecond_before() -> None:
    """The first message goes out after the wait, the next after the interval, a repeat after the repeat's time."""
    groups = Groups()
    put(groups)
    assert (groups.due(), told(groups, 9.999), told(groups, 10.0)) == (WALL + 10.0, [], ["a/c!"])
    assert (groups.due(), told(groups, 609.999), told(groups, 610.0)) == (WALL + 610.0, [], ["a/c"])
    put(groups, "b/c", 611.0)
    assert (groups.due(), told(groups, 669.999), told(groups, 670.0)) == (WALL + 670.0, [], ["b/c! a/c"])
    assert groups.groups[group_key("hook", "r", ())].due == WALL + 1270.0


@pytest.mark.parametrize(("changed_at", "due"), [
    (0.0, 10.0), (3.0, 10.0), (9.999, 10.0),  # a later change puts nothing off
])  # fmt: skip
def test_the_first_change_sets_the_time(changed_at: float, due: float) -> None:
    """The time of the first change stands for the later ones of the same wait."""
    groups = Groups()
    put(groups)
    [note] = put(groups, "b/c", changed_at)
    assert groups.due() == WALL + due
    assert note.why == f"goes out in {round(due - changed_at)} s together with 1 more"


def test_a_change_at_the_moment_that_is_over_waits_anew() -> None:
    """A group whose time has come and that was not looked at yet is planned from this change on."""
    groups = Groups()
    put(groups)
    put(groups, "b/c", 10.0)
    assert groups.groups[group_key("hook", "r", ())].due == WALL + 20.0
    assert told(groups, 19.0) == []
    assert told(groups, 20.0) == ["a/c! b/c!"]


@pytest.mark.parametrize(("sent_before", "wait", "due_in"), [
    (0.0, 10.0, 60.0), (49.0, 10.0, 11.0), (50.0, 10.0, 10.0), (59.0, 10.0, 10.0), (59.0, 0.0, 1.0), (61.0, 0.0, 0.0),
])  # fmt: skip
def test_an_interval_and_a_wait(sent_before: float, wait: float, due_in: float) -> None:
    """A message goes out when both the interval and the wait are over."""
    groups, timing = Groups(), Timing(wait, 60.0, 600.0)
    put(groups, timing=timing)
    told(groups, wait)
    put(groups, "b/c", wait + sent_before, timing)
    assert groups.groups[group_key("hook", "r", ())].due == WALL + wait + sent_before + due_in


def test_a_shorter_timing_counts_from_the_next_change_on() -> None:
    """A group takes the timing of the rule as it is now."""
    groups = Groups()
    put(groups, timing=Timing(3_000.0, 60.0, 600.0))
    put(groups, "b/c", 1.0, Timing(5.0, 60.0, 600.0))
    assert (groups.due(), told(groups, 6.0)) == (WALL + 6.0, ["a/c! b/c!"])


def test_a_new_timing_is_stored_though_it_changes_no_time() -> None:
    """The next start goes by it."""
    groups, key = Groups(), group_key("hook", "r", ())
    put(groups)
    groups.changed()
    put(groups, "b/c", 0.0, Timing(10.0, 99.0, 700.0))
    changed = groups.changed()
    assert ((changed.groups[key] or {})["timing"], [name for _, name in changed.entries]) == (
        [10.0, 99.0, 700.0],
        ["b/c"],
    )


def test_nothing_is_due_where_nothing_is() -> None:
    """Nothing is due without a group."""
    groups = Groups()
    assert (groups.due(), groups.advance(WALL, Limits())) == (None, [])


def test_a_group_whose_turn_is_out_of_date_is_passed_over() -> None:
    """A turn counts only if it is the newest plan of its group."""
    groups = Groups()
    put(groups, timing=Timing(30.0, 60.0, 600.0))
    put(groups, "b/c", 0.0, Timing(5.0, 60.0, 600.0))
    assert told(groups, 5.0) == ["a/c! b/c!"]
    assert told(groups, 30.0) == []


# ------------------------------------------------------------------------------------------------ limits


@pytest.mark.parametrize(("limits", "action", "why"), [
    (Limits(busy=lambda group: True), "waiting", "the message before it is still under way"),
    (Limits(full=True), "waiting", "too many messages are under way: the outbox is full"),
])  # fmt: skip
def test_what_waits_is_looked_at_again_after_five_seconds(limits: Limits, action: str, why: str) -> None:
    """The reason is told once of each alert that is new, however often the group is looked at."""
    groups = Groups()
    put(groups)
    assert told(groups, 10.0, limits) == [f"{action} a/c: {why}"]
    assert groups.due() == WALL + 15.0
    assert told(groups, 15.0, limits) == []
    assert groups.due() == WALL + 20.0
    assert told(groups, 20.0) == ["a/c!"]
    put(groups, "b/c", 21.0)
    assert told(groups, 80.0, limits) == [f"{action} b/c: {why}"], "after a message it is said again, of what is new"


def test_no_limits() -> None:
    """Without limits none holds."""
    limits = Limits()
    assert (limits.rates, limits.busy("g"), limits.full, limits.handled("hook", alert())) == ({}, False, False, False)


def test_a_rate_counts_messages_of_its_span() -> None:
    """The oldest of them leaves it exactly one span after it was sent, and the next goes out then."""
    groups, limits, timing = Groups(), Limits({"hook": (2, 100.0)}), Timing(0.0, 1.0, 6_000.0)
    put(groups, "a/c", 0.0, timing)
    assert told(groups, 0.0, limits) == ["a/c!"]
    put(groups, "b/c", 30.0, timing)
    assert told(groups, 30.0, limits) == ["b/c! a/c"]
    put(groups, "c/c", 40.0, timing)
    assert told(groups, 40.0, limits) == ["rate-limited c/c: the channel's rate of 2 in 100 s is used up"]
    assert groups.due() == WALL + 100.0
    assert told(groups, 99.9, limits) == []
    assert told(groups, 100.0, limits) == ["c/c! a/c b/c"]
    put(groups, "d/c", 101.0, timing)
    assert told(groups, 101.0, limits)[0].startswith("rate-limited d/c")
    assert groups.due() == WALL + 130.0
    assert told(groups, 130.0, limits) == ["d/c! a/c b/c c/c"]


def test_a_rate_that_became_smaller() -> None:
    """A smaller rate counts as many of the newest messages as it allows now."""
    groups, timing = Groups(), Timing(0.0, 1.0, 6_000.0)
    for at in range(4):
        put(groups, f"a{at}/c", float(at * 10), timing)
        assert len(told(groups, float(at * 10), Limits({"hook": (9, 100.0)}))) == 1
    put(groups, "b/c", 40.0, timing)
    assert told(groups, 40.0, Limits({"hook": (2, 100.0)}))[0].startswith("rate-limited")
    assert groups.due() == WALL + 120.0, "the third of four has to be out of the span"


def test_without_a_rate_nothing_is_counted() -> None:
    """A channel without one, or without an entry, sends at once; and of what it sent nothing is kept for later."""
    for rates in ({}, {"hook": None}):
        groups, timing = Groups(), Timing(0.0, 1.0, 6_000.0)
        for at in range(3):
            put(groups, f"a{at}/c", float(at), timing)
            assert len(told(groups, float(at), Limits(rates))) == 1
        assert len(groups.sent()) == 1


# ------------------------------------------------------------------------------------------------ sizes


@pytest.fixture
def _three(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_messages, "MAX_ALERTS", 3)


def moved(groups: Groups, names: tuple[str, ...], at: float) -> None:
    """Move these alerts to other labels, for a receiver that knows alerts by them."""
    for name in names:
        groups.take(alert(name, at=at, site="y"), [Destination("am", "r", (), TIMING)], lambda _: True, WALL + at)


def a_labelled_group(names: tuple[str, ...]) -> Groups:
    groups = Groups()
    for name in names:
        groups.take(alert(name, site="x"), [Destination("am", "r", (), TIMING)], lambda _: True, WALL)
    return groups


@pytest.mark.usefixtures("_three")
def test_fresh_alerts_come_first_and_the_rest_is_counted() -> None:
    """Fresh alerts come first: with room for three, one that fires stands beside two new ones, and the others are a
    number.
    """
    groups = Groups()
    for name in ("a/c", "b/c", "d/c"):
        put(groups, name)
    assert told(groups, 10.0) == ["a/c! b/c! d/c!"]
    put(groups, "e/c", 11.0)
    put(groups, "f/c", 11.0)
    [message] = groups.advance(WALL + 70.0, Limits())
    assert isinstance(message, Message)
    assert [each.key for each in message.alerts] == ["e/c", "f/c", "a/c"]
    assert (message.truncated, set(message.fresh)) == (2, {"e/c", "f/c"})


@pytest.mark.usefixtures("_three")
def test_a_message_that_is_just_full() -> None:
    """A message with three alerts for three places cuts nothing, and nothing waits for the next one."""
    groups = Groups()
    for name in ("a/c", "b/c", "d/c"):
        put(groups, name)
    [message] = groups.advance(WALL + 10.0, Limits())
    assert isinstance(message, Message) and (len(message.alerts), message.truncated) == (3, 0)
    assert groups.due() == WALL + 610.0


@pytest.mark.usefixtures("_three")
def test_what_is_fresh_and_finds_no_room_comes_after_the_interval() -> None:
    """The rest of the fresh alerts comes after the interval, not with the repeat, which is ten times as far away."""
    groups = Groups()
    for name in ("a/c", "b/c", "d/c", "e/c"):
        put(groups, name)
    assert told(groups, 10.0) == ["a/c! b/c! d/c!"]
    assert (groups.due(), told(groups, 70.0)) == (WALL + 70.0, ["e/c! a/c b/c"])
    assert groups.due() == WALL + 670.0


@pytest.mark.usefixtures("_three")
def test_alerts_under_their_old_labels_take_room_as_well() -> None:
    """Alerts under their old labels come first; new ones, and all that waits, come with the next message."""
    groups = a_labelled_group(("a/c", "b/c"))
    groups.advance(WALL + 10.0, Limits())
    moved(groups, ("a/c", "b/c"), 11.0)
    [first] = groups.advance(WALL + 70.0, Limits())
    assert isinstance(first, Message)
    assert [(each.key, each.firing, each.labels["site"]) for each in first.alerts] == [
        ("a/c", False, "x"), ("b/c", False, "x"), ("a/c", True, "y"),
    ]  # fmt: skip
    assert (set(first.fresh), first.truncated, groups.due()) == ({"a/c"}, 0, WALL + 130.0)
    [second] = groups.advance(WALL + 130.0, Limits())
    assert isinstance(second, Message)
    assert [(each.key, each.firing) for each in second.alerts] == [("b/c", True), ("a/c", True)]


@pytest.mark.usefixtures("_three")
def test_more_old_labels_than_a_message_holds() -> None:
    """Old labels beyond a message's room come with the next message, and nothing new before them."""
    groups = a_labelled_group(("a/c", "b/c"))
    groups.advance(WALL + 10.0, Limits())
    for at, site in enumerate(("y", "z")):
        for name in ("a/c", "b/c"):
            given = alert(name, at=11.0 + at, site=site)
            groups.take(given, [Destination("am", "r", (), TIMING)], lambda _: True, WALL + 11.0 + at)
    [first] = groups.advance(WALL + 70.0, Limits())
    [second] = groups.advance(WALL + 130.0, Limits())
    assert isinstance(first, Message) and isinstance(second, Message)
    assert [(each.key, each.labels["site"], each.firing) for each in (*first.alerts, *second.alerts)] == [
        ("a/c", "x", False), ("b/c", "x", False), ("a/c", "y", False),
        ("b/c", "y", False), ("a/c", "z", True), ("b/c", "z", True),
    ]  # fmt: skip


# ------------------------------------------------------------------------------------------------ joins, moves and ends


def test_what_joins_is_in_channels_that_do_not_have_it() -> None:
    """An alert joins the channels that do not have it; one that has it is told nothing again."""
    groups = Groups()
    put(groups)
    told(groups, 10.0)
    to = [Destination("hook", "r", (), TIMING), Destination("am", "am", (), Timing(0.0, 1.0, 60.0))]
    notes = groups.join(alert("a/c"), to, lambda _: True, WALL + 20.0)
    assert [(note.channel, note.action, note.why) for note in notes] == [("am", "grouped", "goes out in 0 s")]
    assert groups.join(alert("a/c"), to, lambda _: True, WALL + 20.0) == []
    assert groups.groups[group_key("am", "am", ())].labelled is True
    assert told(groups, 20.0) == ["a/c!"]


def test_the_time_since_when_it_is_broken_is_kept_as_long_as_it_fires() -> None:
    """The begin is kept over a change and the end; a problem after an end that is still to be told begins anew."""
    groups, key = Groups(), group_key("hook", "r", ())
    put(groups)
    put(groups, at=3.0)
    assert groups.groups[key].entries["a/c"].alert.began == WALL
    told(groups, 13.0)
    to = [Destination("hook", "r", (), TIMING)]
    groups.take(alert("a/c", "recovery", "ok", 20.0), to, lambda _: False, WALL + 20.0)
    ended = groups.groups[key].entries["a/c"]
    assert (ended.alert.began, ended.alert.firing, ended.told) == (WALL, False, True)
    assert ended.alert.labels["severity"] == "critical", "the labels are those that were sent"
    put(groups, at=30.0)
    assert groups.groups[key].entries["a/c"].alert.began == WALL + 30.0


@pytest.mark.parametrize("labelled", [True, False])
@pytest.mark.parametrize("was_told", [True, False])
def test_a_move_to_another_group(labelled: bool, was_told: bool) -> None:
    """A receiver that knows alerts by labels, and was told, hears the end of the old ones; nothing is left of
    others.
    """
    groups = Groups()

    def take(site: str, at: float) -> list[Note]:
        to = [Destination("am", "r", (("site", site),), TIMING)]
        return groups.take(alert("a/c", at=at, site=site), to, lambda _: labelled, WALL + at)

    take("x", 0.0)
    if was_told:
        groups.advance(WALL + 10.0, Limits())
    groups.changed()
    notes = take("y", 20.0)
    assert [note.action for note in notes] == ["moved", "grouped"]
    old, new = (group_key("am", "r", (("site", site),)) for site in "xy")
    changed = groups.changed()
    assert changed.entries[old, "a/c"] is None
    assert (old in groups.groups, changed.groups[old] is None) == (
        (True, False) if labelled and was_told else (False, True)
    )
    assert new in groups.groups
    if labelled and was_told:
        assert groups.groups[old].due == WALL + 70.0
        [message] = [each for each in groups.advance(WALL + 70.0, Limits()) if each.by == {"site": "x"}]  # type: ignore[union-attr]
        assert isinstance(message, Message) and not message.firing and message.fresh == frozenset()
        assert old not in groups.groups


def test_a_channel_that_is_gone_leaves_no_row() -> None:
    """An alert that was told already leaves without a word; its groups and alerts are rows that go."""
    groups = Groups()
    put(groups)
    told(groups, 10.0)
    put(groups, "b/c", 11.0)
    groups.changed()
    assert [(note.action, note.alert.key) for note in groups.forget("hook")] == [("dropped", "b/c")]
    key = group_key("hook", "r", ())
    assert groups.changed() == Changed({key: None}, {(key, "a/c"): None, (key, "b/c"): None})
    assert (groups.groups, groups._table.of, groups.forget("hook")) == ({}, {}, [])


def test_an_end_that_nobody_waits_for_leaves_nothing_behind() -> None:
    """An end that nobody waits for leaves neither a group nor an entry, and the row goes too."""
    groups, key = Groups(), group_key("hook", "r", ())
    put(groups)
    groups.changed()
    groups.take(alert("a/c", "recovery", "ok", 1.0), [], lambda _: False, WALL + 1.0)
    assert groups.changed() == Changed({key: None}, {(key, "a/c"): None})
    assert (groups.groups, groups._table.of) == ({}, {})
    assert groups.changed() == Changed({}, {})


# ------------------------------------------------------------------------------------------------ rows


def a_group(**changes: Any) -> Group:
    given = Group("hook", "r", (("site", "x"),), Timing(1.0, 2.0, 3.0), True, {}, [alert("a/c")], WALL + 1, WALL, True)
    return evolve(given, **changes)


@pytest.mark.parametrize("changes", [{}, {"labelled": False}, {"due": None}, {"sent": None}, {"delayed": False},
                                     {"replaced": []}, {"by": ()}, {"timing": Timing()}])  # fmt: skip
def test_a_group_goes_through_json(changes: dict[str, Any]) -> None:
    """A group comes back from JSON with every field but the entries, whose rows are their own."""
    group = a_group(**changes)
    assert Group.from_json(json.loads(json.dumps(group.to_json()))) == group
    assert group.key == '["hook", "r", [' + ('["site", "x"]' if group.by else "") + "]]"


def test_a_young_group() -> None:
    """Nothing of it waits, nothing was sent, and no reason of a delay is written down; an entry is new and untold."""
    group = Group("hook", "r", (), TIMING, False)
    assert (group.entries, group.replaced, group.due, group.sent, group.delayed) == ({}, [], None, None, False)
    assert (group.pending, Entry(alert()).told, Entry(alert()).fresh) == (False, False, True)
    group.entries["a/c"] = Entry(alert(), True, False)
    assert not group.pending
    group.entries["b/c"] = Entry(alert("b/c"))
    assert group.pending
    assert evolve(group, entries={}, replaced=[alert()]).pending


def test_rows_of_a_first_message() -> None:
    """An alert is fresh and untold before its first message, told after it; the group says when it was sent, and when
    to look.
    """
    groups, key = Groups(), group_key("hook", "r", ())
    put(groups)
    before = groups.changed()
    assert (before.groups[key] or {})["due"] == WALL + 10.0
    assert before.entries == {(key, "a/c"): Entry(alert("a/c"), False, True)}
    [message] = groups.advance(WALL + 12.5, Limits())
    assert isinstance(message, Message)
    assert (message.id, message.group, message.at) == (message_id(key, WALL + 12.5), key, WALL + 12.5)
    after = groups.changed()
    document = after.groups[key] or {}
    assert (document["sent"], document["due"], document["delayed"]) == (WALL + 12.5, WALL + 612.5, False)
    assert after.entries == {(key, "a/c"): Entry(alert("a/c"), True, False)}


def restored(document: dict[str, Any], now: float, fresh: bool = True, stepped: float = 0.0) -> Groups:
    groups = Groups()
    key = group_key("hook", "r", ())
    whole = {"channel": "hook", "route": "r", "by": [], "labelled": False, "timing": [10.0, 60.0, 600.0],
             "replaced": [], "delayed": False} | document  # fmt: skip
    groups.restore([whole], [(key, alert("a/c").to_json(), not fresh, fresh)], [], WALL + now, stepped)
    return groups


@pytest.mark.parametrize(("due", "sent", "fresh", "found", "found_sent"), [
    (8.0, None, True, 8.0, None),
    (10.0, None, True, 10.0, None), (10.5, None, True, 10.0, None),  # the wait at most
    (60.0, -1.0, True, 60.0, -1.0), (61.0, -1.0, True, 60.0, -1.0),  # the interval, if there is news
    (600.0, -1.0, False, 600.0, -1.0), (601.0, -1.0, False, 600.0, -1.0),  # the repeat, if there is none
    (80.0, 30.0, True, 50.0, 0.0), (90.0, 30.0, False, 60.0, 0.0),  # sent in the future: it was now
    (600.0, 0.0, False, 600.0, 0.0),
    (None, 30.0, False, None, 30.0),
])  # fmt: skip
def test_a_stored_group_waits_no_longer_than_its_timing(
    due: float | None, sent: float | None, fresh: bool, found: float | None, found_sent: float | None
) -> None:
    """A stored time is cut to what the group's timing allows from now on."""
    wall: Callable[[float | None], Any] = lambda at: None if at is None else WALL + at  # noqa: E731
    groups = restored({"due": wall(due), "sent": wall(sent)}, 0.0, fresh)
    group = groups.groups[group_key("hook", "r", ())]
    assert (group.due, group.sent) == (wall(found), wall(found_sent))
    assert groups.due() == wall(found)


@pytest.mark.parametrize(("wait", "most"), [(0.0, 5.0), (4.0, 5.0), (6.0, 6.0)])
def test_a_stored_group_is_looked_at_within_five_seconds_at_least(wait: float, most: float) -> None:
    """A stored group is looked at after its wait or within five seconds, since it may wait for a rate or a message."""
    groups = restored({"due": WALL + 900.0, "sent": None, "timing": [wait, 60.0, 600.0]}, 0.0)
    assert groups.due() == WALL + most


def test_a_step_of_the_clock_between_two_starts() -> None:
    """All times move by such a step, and then are cut to the timing."""
    groups = restored({"due": WALL + 20.0, "sent": WALL - 30.0}, 500.0, True, 500.0)
    group = groups.groups[group_key("hook", "r", ())]
    assert (group.due, group.sent, groups.due()) == (WALL + 520.0, WALL + 470.0, WALL + 520.0)


def test_messages_of_before_count_for_a_rate() -> None:
    """Messages of before count in the order of their times, whatever order the rows have; none is later than now."""
    groups = Groups()
    groups.restore([], [], [("hook", WALL + 50.0), ("hook", WALL - 90.0), ("hook", WALL - 40.0)], WALL)
    assert [at for _, at in groups.sent()] == [WALL - 90.0, WALL - 40.0, WALL]
    put(groups, timing=Timing(0.0, 1.0, 600.0))
    assert told(groups, 0.0, Limits({"hook": (2, 80.0)}))[0].startswith("rate-limited")
    assert groups.due() == WALL + 40.0


def test_a_step_of_the_clock_moves_the_messages_that_a_rate_counts() -> None:
    """A step moves the messages that a rate counts, and what waits, by as much; a group that never sent has no time to
    move.
    """
    groups, limits, timing = Groups(), Limits({"hook": (1, 100.0)}), Timing(0.0, 1.0, 6_000.0)
    put(groups, timing=timing)
    told(groups, 0.0, limits)
    groups.take(alert("b/c", at=1.0), [Destination("mail", "r", (), TIMING)], lambda _: False, WALL + 1.0)
    groups.move(1_000.0)
    assert groups.due() == WALL + 1_011.0, "and nothing is looked at by the times of before"
    assert [(each.channel, each.due, each.sent) for each in groups.groups.values()] == [
        ("hook", WALL + 7_000.0, WALL + 1_000.0), ("mail", WALL + 1_011.0, None),
    ]  # fmt: skip
    put(groups, "d/c", 1_002.0, timing)
    assert told(groups, 1_002.0, limits)[0].startswith("rate-limited d/c")
    assert groups.due() == WALL + 1_011.0
    assert groups.groups[group_key("hook", "r", ())].due == WALL + 1_100.0


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 30), st.booleans()), min_size=1, max_size=25))
def test_messages_keep_their_distance(given: list[tuple[int, int, bool]]) -> None:
    """Two messages of a group are the interval apart, and each change is told by its end, whatever comes and goes."""
    scene, at, open_ones = Scene(Timing(3.0, 20.0, 90.0)), 0, set[str]()
    for number, later, ends in given:
        at += later
        scene.said += scene.until(at)
        what, status = ("recovery", "ok") if ends else ("problem", "critical")
        scene.take(alert(f"a{number}/c", what, status, at), "hook")
        (open_ones.discard if ends else open_ones.add)(f"a{number}/c")
    scene.said += scene.until(at + 24)
    for earlier, later in pairwise(scene.messages):
        assert later.at - earlier.at >= 20 or not earlier.firing, "with its last alert a group ends"
    told_now: dict[str, bool] = {}
    for message in scene.messages:
        told_now |= {each.key: each.firing for each in message.alerts}
    assert {key for key, firing in told_now.items() if firing} == open_ones
