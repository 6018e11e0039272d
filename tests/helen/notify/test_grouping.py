"""Tests when alerts are told, and which of them together, as transcripts under a clock."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from telling import WALL, Scene, alert

from helen.notify.group import Limits
from helen.notify.grouping import Groups
from helen.notify.messages import Message
from helen.notify.routing import Destination, Timing


def test_one_message_for_what_comes_within_the_wait() -> None:
    """The first change starts it, later ones don't put it off."""
    scene = Scene()
    assert scene.take(alert("a/c"), "hook") == ["grouped hook: goes out in 10 s"]
    assert scene.until(8) == []
    assert scene.take(alert("b/c", at=8), "hook") == ["grouped hook: goes out in 2 s together with 1 more"]
    assert scene.until(100) == ["10 hook: a/c+! b/c+!"]


def test_further_changes_wait_for_the_interval() -> None:
    """A further change is told when the interval after the last message is over, and never without the wait."""
    scene = Scene()
    scene.take(alert("a/c"), "hook")
    scene.until(15)
    scene.take(alert("b/c", at=15), "hook")
    assert scene.until(200) == ["70 hook: b/c+! a/c+"]
    scene.take(alert("c/c", at=200), "hook")
    assert scene.until(300) == ["210 hook: c/c+! a/c+ b/c+"]


def test_what_fires_is_said_again() -> None:
    """An alert that fires is repeated after the repeat interval, with nothing fresh in it, until it has recovered."""
    scene = Scene()
    scene.take(alert("a/c"), "hook")
    assert scene.until(1300) == ["10 hook: a/c+!", "610 hook: a/c+", "1210 hook: a/c+"]
    scene.take(alert("a/c", "recovery", "ok", 1300), "hook")
    assert scene.until(9999) == ["1310 hook: a/c-!"]
    assert scene.groups.groups == {}


def test_what_somebody_deals_with_is_not_said_again() -> None:
    """An alert that somebody deals with is not repeated until nobody does any more; its recovery is told
    in any case.
    """
    scene = Scene()
    dealt_with = {"a/c"}
    scene.limits = Limits(handled=lambda channel, alert: channel == "hook" and alert.key in dealt_with)
    scene.take(alert("a/c"), "hook", "am")
    assert scene.until(650) == ["10 am: a/c+!", "10 hook: a/c+!", "610 am: a/c+"]
    scene.take(alert("b/c", at=650), "hook")
    assert scene.until(1250) == ["660 hook: b/c+!", "1210 am: a/c+"]
    dealt_with.clear()
    assert scene.until(1300) == ["1260 hook: a/c+ b/c+"]
    dealt_with.update({"a/c", "b/c"})
    scene.take(alert("a/c", "recovery", "ok", 1300), "hook")
    assert scene.until(1900) == ["1310 am: a/c-!", "1320 hook: a/c-!"]


def test_nothing_is_repeated_early_or_late_for_a_clock_that_was_set_between_two_starts() -> None:
    """A repeat comes when it would have come, though the clock was set ahead by five days or back by one."""
    for by in (432_000.0, -86_400.0):
        scene = Scene()
        scene.take(alert("a/c"), "hook")
        assert scene.until(300) == ["10 hook: a/c+!"]
        groups = put_away(scene.groups, {}, WALL + 300 + by, by)
        assert groups.advance(WALL + 609 + by, Limits()) == []
        (again,) = groups.advance(WALL + 610 + by, Limits())
        assert isinstance(again, Message) and [each.key for each in again.alerts] == ["a/c"]


def test_a_recovery_before_anybody_was_told_is_dropped() -> None:
    """A recovery before anybody was told is dropped with its problem; the others go on."""
    scene = Scene()
    scene.take(alert("a/c"), "hook")
    scene.take(alert("b/c"), "hook")
    assert scene.take(alert("a/c", "recovery", "ok"), "hook") == ["dropped hook: recovery before anybody was told here"]
    assert scene.until(100) == ["10 hook: b/c+!"]


def test_a_recovery_goes_where_the_problem_went() -> None:
    """A recovery is told to the channels of its problem, whatever the rules say now, and to no others."""
    scene = Scene()
    scene.take(alert("a/c"), "hook", "page")
    scene.until(20)
    scene.take(alert("a/c", "change", "warning", 20), "hook", "mail")
    scene.take(alert("a/c", "recovery", "ok", 21))
    assert sorted(scene.until(999)) == ["70 hook: a/c-!", "70 page: a/c-!"]


def test_groups_by_labels() -> None:
    """Groups by labels have one message each; a change of such a label moves the alert, and the channel
    is told once.
    """
    scene = Scene()
    scene.take(alert("a/c", site="x"), "hook", by=("site",))
    scene.take(alert("b/c", site="y"), "hook", by=("site",))
    assert sorted(scene.until(20)) == ["10 hook: a/c+!", "10 hook: b/c+!"]
    notes = scene.take(alert("a/c", "change", "warning", 20, site="y"), "hook", by=("site",))
    assert notes == [
        "moved hook: its labels put it into another group of this channel",
        "grouped hook: goes out in 50 s in the group site=y together with 1 more",
    ]
    assert scene.until(100) == ["70 hook: a/c+! b/c+"]


def test_receivers_that_know_alerts_by_labels_hear_that_the_old_ones_are_over() -> None:
    """A receiver that knows alerts by labels is told in the same message that the old ones are over; others need not
    know.
    """
    scene = Scene(labelled=("am",))
    scene.take(alert("a/c"), "am", "hook")
    scene.until(20)
    scene.take(alert("a/c", "change", "warning", 20), "am", "hook")
    assert sorted(scene.until(100)) == ["70 am: a/c-!~ a/c+!", "70 hook: a/c+!"]
    old, new = scene.messages[2].alerts if scene.messages[2].channel == "am" else scene.messages[3].alerts
    assert (old.labels["severity"], new.labels["severity"]) == ("critical", "warning")


def test_a_rate_delays_and_drops_nothing() -> None:
    """Alerts over the rate go into one later message, and the delay is written down once."""
    scene = Scene(Timing(0.0, 1.0, 600.0))
    scene.limits = Limits({"hook": (2, 100.0)})
    for at, name in enumerate(("a/c", "b/c", "c/c", "d/c")):
        scene.take(alert(name, at=at), "hook", by=("agent",))
        scene.said += scene.until(at + 1)
    assert scene.said == ["0 hook: a/c+!", "1 hook: b/c+!", "2 rate-limited hook: c/c", "3 rate-limited hook: d/c"]
    assert scene.until(150) == ["100 hook: c/c+!", "101 hook: d/c+!"]


def test_one_message_of_a_group_at_a_time() -> None:
    """Changes gather for the next message while one is under way."""
    scene, busy = Scene(Timing(0.0, 1.0, 600.0)), True
    scene.limits = Limits(busy=lambda group: busy)
    scene.take(alert("a/c"), "hook")
    assert scene.until(4) == ["0 waiting hook: a/c"]
    scene.take(alert("b/c", at=4), "hook")
    busy = False
    assert scene.until(20) == ["4 hook: a/c+! b/c+!"]


def test_a_full_outbox_keeps_groups_waiting() -> None:
    """A full outbox delays groups, and nothing is lost."""
    scene = Scene(Timing(0.0, 1.0, 600.0))
    scene.limits = Limits(full=True)
    scene.take(alert("a/c"), "hook")
    assert scene.until(7) == ["0 waiting hook: a/c"]
    scene.limits = Limits()
    assert scene.until(12) == ["10 hook: a/c+!"]


def test_a_channel_that_is_gone() -> None:
    """Alerts that waited for it are dropped, with a reason; the rest of it is forgotten."""
    scene = Scene()
    scene.take(alert("a/c"), "hook", "mail")
    notes = scene.groups.forget("hook")
    assert [(note.action, note.channel, note.why) for note in notes] == [
        ("dropped", "hook", "notifications.toml has this channel no more")
    ]
    assert scene.until(100) == ["10 mail: a/c+!"]


def put_away(groups: Groups, store: dict[str, object], now: float = float("inf"), stepped: float = 0.0) -> Groups:
    """Store groups through JSON, as the store does it, and return them read anew."""
    changed = groups.changed()
    for key, document in changed.groups.items():
        store.pop(key, None) if document is None else store.update({key: json.dumps(document)})
    for both, entry in changed.entries.items():
        name = "\0".join(both)
        row = None if entry is None else (both[0], json.dumps(entry.alert.to_json()), entry.told, entry.fresh)
        store.pop(name, None) if row is None else store.update({name: row})
    made = Groups()
    made.restore(
        [json.loads(each) for each in store.values() if isinstance(each, str)],
        [(each[0], json.loads(each[1]), each[2], each[3]) for each in store.values() if isinstance(each, tuple)],
        groups.sent(),
        now,
        stepped,
    )
    return made


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(["a/c", "b/c", "c/d"]), st.sampled_from(["critical", "warning", "ok"]),
                  st.sampled_from([(), ("hook",), ("hook", "am")]), st.integers(0, 90)),
        max_size=20,
    ),
    st.sets(st.integers(0, 19)),
)  # fmt: skip
def test_nothing_is_lost_over_restarts(given: list[tuple[str, str, tuple[str, ...], int]], restarts: set[int]) -> None:
    """Groups that are stored and read anywhere tell the same; a channel that was told a problem is told its end once.

    The same holds for a receiver that knows alerts by their labels, whatever became of those meanwhile.
    """
    plain, cut, store = Scene(labelled=("am",)), Scene(labelled=("am",)), dict[str, object]()
    for scene in (plain, cut):
        scene.limits = Limits({"hook": (3, 200.0), "am": None})
        at = 0
        for number, (name, status, channels, later) in enumerate(given):
            what = "recovery" if status == "ok" else "problem"
            scene.take(alert(name, what, status, at), *channels, by=("agent",))
            at += later
            scene.said += scene.until(at)
            if scene is cut and number in restarts:
                scene.groups = put_away(scene.groups, store)
        for name in ("a/c", "b/c", "c/d"):
            scene.take(alert(name, "recovery", "ok", at))
        scene.said += scene.until(at + 5_000)
        assert scene.groups.groups == {}
    assert cut.said == plain.said
    balance: Counter[tuple[str, str]] = Counter()
    for message in plain.messages:
        for each in message.alerts:
            key = message.channel, each.key
            if each.what != "replaced" and each.key in message.fresh:
                assert each.firing or balance[key] == 1
                balance[key] = int(each.firing)
    assert not any(balance.values())
    by_labels: dict[str, bool] = {}
    for message in plain.messages:
        for each in message.alerts:
            if message.channel == "am":
                by_labels[json.dumps(each.labels, sort_keys=True)] = each.firing
    assert not any(by_labels.values())


def test_more_than_one_message_holds() -> None:
    """The rest of what is fresh comes in the next message; what merely fires still is counted."""
    groups = Groups()
    to = [Destination("hook", "r", (), Timing(0.0, 1.0, 600.0))]
    for number in range(2_500):
        groups.take(alert(f"a{number}/c"), to, lambda _: False, WALL)
    [first] = groups.advance(WALL, Limits())
    [second] = groups.advance(WALL + 1, Limits())
    assert isinstance(first, Message) and isinstance(second, Message)
    assert [(len(m.alerts), len(m.fresh), m.truncated) for m in (first, second)] == [(2000, 2000, 0), (2000, 500, 500)]


@pytest.mark.parametrize("by", [-40 * 86_400.0, -7_200.0, 75.0, 7_200.0])
def test_a_clock_that_is_set_moves_intervals_and_rates(by: float) -> None:
    """A message is sent after its seconds, whatever the clock says by then (F3)."""
    scene = Scene()
    scene.limits = Limits({"hook": (2, 300.0)})
    scene.take(alert("a/c"), "hook")
    assert scene.until(15) == ["10 hook: a/c+!"]
    scene.take(alert("b/c"), "hook")
    scene.groups.move(by)
    assert scene.until(69.9 + by) == []
    assert scene.until(71 + by) == [f"{70 + by:g} hook: b/c+! a/c+"]
    scene.take(alert("c/c"), "hook")
    assert scene.until(400 + by) == [f"{130 + by:g} rate-limited hook: c/c", f"{310 + by:g} hook: c/c+! a/c+ b/c+"]


@pytest.mark.parametrize("ahead", [100.0, 7_200.0, 40 * 86_400.0])
def test_groups_that_were_stored_by_a_clock_that_was_ahead_wait_no_longer_than_their_timing_says(ahead: float) -> None:
    """A time of the future counts as now after a restart, since nobody knows the size of the step (F3)."""
    scene = Scene()
    scene.at = ahead
    scene.take(alert("a/c", at=ahead), "hook")
    assert scene.until(ahead + 15) == [f"{ahead + 10:g} hook: a/c+!"]
    scene.take(alert("b/c", at=ahead + 15), "hook")
    scene.groups = put_away(scene.groups, {}, WALL)
    scene.at = 0.0
    assert scene.until(61) == ["60 hook: b/c+! a/c+"]


@pytest.mark.parametrize("ahead", [7_200.0, 40 * 86_400.0])
def test_a_first_message_that_was_stored_by_a_clock_that_was_ahead_goes_out_too(ahead: float) -> None:
    """A first message goes out after the longest time of its group at most, as nothing was sent yet to
    measure by (F3).
    """
    scene = Scene()
    scene.at = ahead
    scene.take(alert("a/c", at=ahead), "hook")
    scene.groups = put_away(scene.groups, {}, WALL)
    scene.at = 0.0
    assert [said.partition(" ")[2] for said in scene.until(10)] == ["hook: a/c+!"]
