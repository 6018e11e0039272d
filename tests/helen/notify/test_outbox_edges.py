"""Tests the outbox by itself: its counts, times and limits at their edges, on a real database under a clock."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from telling import WALL, DirectStore, alert, an_api, wall, webhook
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.task import Clock

from helen.notify import outbox as outbox_module
from helen.notify import rows
from helen.notify.attempt import Accepted, SendFailed
from helen.notify.channels.channel import Channel
from helen.notify.group import Changed
from helen.notify.messages import Message
from helen.notify.outbox import AT_ONCE, Outbox, backoff
from helen.notify.rows import Waiting


def message(id: str = "m1", group: str = "g", channel: str = "hook", at: float = 0.0) -> Message:
    return Message(id, group, channel, "r", {}, WALL + at, (alert(),), frozenset(("a/c",)))


class Box:
    """Holds an outbox; `answer(message)` is what sending comes to. `tries` are (seconds, id), `told` are outcomes."""

    def __init__(self, folder: Path, chance: float = 0.5) -> None:
        self.clock, self.store = Clock(), DirectStore(folder)
        self.channels = {"hook": Channel("hook", webhook("http://x/")), "am": Channel("am", an_api("http://x/"))}
        self.answer: Callable[[Message], Any] = lambda _: succeed(Accepted("fine"))
        self.tries: list[tuple[float, str]] = []
        self.told: list[tuple[str, str, int, str]] = []
        self.outbox = Outbox(
            self.clock, self.store, wall(self.clock), self._send, self.channels.get,  # type: ignore[arg-type]
            lambda action, message, tries, text: self.told.append((action, message.id, tries, text)), lambda: chance,
        )  # fmt: skip

    def _send(self, channel: Channel, message: Message) -> Deferred[Accepted]:
        self.tries.append((self.clock.seconds(), message.id))
        answer: Deferred[Accepted] = self.answer(message)
        return answer

    def give(self, *messages: Message) -> None:
        """Put messages into the store and then into the outbox, as the notifier does it."""
        for each in messages:
            self.outbox.expect(each)
        rows.commit(self.store.db, 1, Changed({}, {}), messages)
        self.outbox.committed(messages)

    def row(self, id: str = "m1") -> dict[str, Any]:
        [found] = [each for each in rows.listed(self.store.db) if each["id"] == id]
        return found

    def timers(self) -> list[float]:
        return sorted(each.getTime() - self.clock.seconds() for each in self.clock.getDelayedCalls())

    def sit(self, seconds: float) -> None:
        self.clock.pump([0.5] * int(seconds * 2))


@pytest.fixture
def box(tmp_path: Path) -> Box:
    return Box(tmp_path)


def refusing(text: str = "no", retry_after: float | None = None) -> Callable[[Message], Any]:
    return lambda _: fail(SendFailed(text, retry_after))


# ------------------------------------------------------------------------------------------------ times


@pytest.mark.parametrize(("tries", "longest", "seconds"), [
    (1, 900.0, 5.0), (2, 900.0, 10.0), (8, 900.0, 640.0), (9, 900.0, 900.0), (4, 60.0, 40.0), (5, 60.0, 60.0),
])  # fmt: skip
@pytest.mark.parametrize(("chance", "factor"), [(0.0, 0.75), (0.25, 0.875), (0.5, 1.0), (1.0, 1.25)])
def test_backoff(tries: int, longest: float, seconds: float, chance: float, factor: float) -> None:
    """The wait is doubled with each try up to the longest, and spread by a quarter both ways."""
    assert backoff(tries, chance, longest) == seconds * factor


@pytest.mark.parametrize(("channel", "gaps"), [("hook", [5, 10, 20, 40, 80, 160]), ("am", [5, 10, 20, 40, 60, 60])])
def test_a_mirror_is_tried_each_minute(box: Box, channel: str, gaps: list[int]) -> None:
    """A mirror is tried each minute, others further and further apart."""
    box.answer = refusing()
    box.give(message(channel=channel))
    box.sit(400)
    times = [at for at, _ in box.tries]
    assert [later - earlier for earlier, later in pairwise(times)][:6] == gaps


def test_a_channel_that_is_gone_is_tried_by_the_usual_times(box: Box) -> None:
    """A channel that is gone may come back, so its message is tried again with that reason."""
    box.give(message(channel="gone"))
    assert box.told == [("failed", "m1", 1, "notifications.toml has no such channel")]
    assert (box.row()["due"], box.row()["tries"]) == (WALL + 5.0, 1)
    box.channels["gone"] = box.channels["hook"]
    box.sit(6)
    assert box.told[1:] == [("sent", "m1", 2, "fine")]


@pytest.mark.parametrize(("retry_after", "due"), [(None, 5.0), (0.0, 5.0), (4.9, 5.0), (5.5, 5.5), (3_600.0, 3_600.0)])
def test_the_longer_of_two_times(box: Box, retry_after: float | None, due: float) -> None:
    """The longer of our own wait and the remote's counts."""
    box.answer = refusing("slow", retry_after)
    box.give(message())
    assert (box.row()["due"] - WALL, box.row()["error"]) == (pytest.approx(due), "slow")


def test_the_next_look_is_when_the_first_of_them_is_due(box: Box) -> None:
    """The next look is when the first message is due, and within a quarter of an hour at most."""
    box.answer = refusing("slow", 2_000.0)
    box.give(message("m1", "g1"))
    box.clock.advance(0.0)
    assert box.timers() == [900.0]
    box.answer = refusing()
    box.give(message("m2", "g2"))
    box.clock.advance(0.0)
    assert box.timers() == [5.0]
    box.outbox.stop()
    assert box.timers() == []
    box.outbox.look()
    assert (box.timers(), len(box.tries)) == ([], 2)


def test_a_message_is_tried_at_its_time_and_not_before(box: Box) -> None:
    """A message is tried exactly at its time."""
    box.answer = refusing()
    box.give(message())
    box.clock.advance(4.5)
    box.outbox.look()
    assert len(box.tries) == 1
    box.clock.advance(0.5)
    assert [at for at, _ in box.tries] == [0.0, 5.0]


def test_messages_of_before_wait_no_longer_than_a_retry_may(tmp_path: Path) -> None:
    """Messages that were stored by a clock that was ahead wait the longest retry at most; others keep their time."""
    box = Box(tmp_path)
    waiting = [Waiting(f"m{due}", f"g{due}", "hook", 3, WALL + due) for due in (1_000, 1_125, 1_126, 99_999)]
    box.outbox.load(waiting, 7)
    assert [each.due - WALL for each in box.outbox._waiting.values()] == [1_000.0, 1_125.0, 1_125.0, 1_125.0]
    assert (len(box.outbox), box.outbox.dead, box.timers()) == (4, 7, [900.0])


def test_a_step_of_the_clock_moves_further_attempts(box: Box) -> None:
    """A step moves each further attempt by as much."""
    box.answer = refusing()
    box.give(message("m1", "g1"), message("m2", "g2"))
    box.outbox.move(-3.0)
    assert [each.due - WALL for each in box.outbox._waiting.values()] == [2.0, 2.0]


# ------------------------------------------------------------------------------------------------ limits


def test_full(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    """The outbox is full from its limit on, and no longer once one message has left."""
    monkeypatch.setattr(outbox_module, "MAX_WAITING", 2)
    answers = [Deferred[Accepted](), Deferred[Accepted]()]
    box.answer = lambda each: answers[int(each.id[1]) - 1]
    box.give(message("m1", "g1"))
    assert (box.outbox.is_full, len(box.outbox)) == (False, 1)
    box.give(message("m2", "g2"))
    assert (box.outbox.is_full, len(box.outbox)) == (True, 2)
    answers[0].callback(Accepted("ok"))
    assert (box.outbox.is_full, len(box.outbox)) == (False, 1)


def test_a_group_is_busy_from_the_making_of_its_message_to_its_delivery(box: Box) -> None:
    """A group is busy before its message is in the store as well, and while it waits for another try."""
    assert not box.outbox.is_busy("g")
    box.answer = refusing()
    box.outbox.expect(message())
    assert box.outbox.is_busy("g") and not box.outbox.is_busy("other")
    rows.commit(box.store.db, 1, Changed({}, {}), [message()])
    box.outbox.committed([message()])
    assert box.outbox.is_busy("g")
    box.answer = lambda _: succeed(Accepted("ok"))
    box.sit(6)
    assert not box.outbox.is_busy("g")
    assert (len(box.outbox), "g" in box.outbox._groups) == (0, False)


def test_each_channel_has_so_many_at_once(box: Box) -> None:
    """A channel that hangs holds up no other; each try that ends lets one more begin."""
    hanging: list[Deferred[Accepted]] = []

    def hang(each: Message) -> Deferred[Accepted]:
        if each.channel == "am":
            return succeed(Accepted("ok"))
        hanging.append(Deferred())
        return hanging[-1]

    box.answer = hang
    box.give(*(message(f"h{at}", f"g{at}") for at in range(AT_ONCE + 3)), message("a", "ga", "am"))
    assert [id for _, id in box.tries] == ["h0", "h1", "h2", "h3", "a"]
    for number in range(3):
        hanging[number].callback(Accepted("ok"))
        box.clock.advance(0.0)
        assert len(hanging) == AT_ONCE + number + 1
    assert len(box.outbox) == AT_ONCE


def test_what_is_held_is_not_tried(tmp_path: Path) -> None:
    """A held outbox tries neither the messages of the start nor later ones."""
    box = Box(tmp_path)
    box.outbox.load([], 0, is_held=True)
    box.give(message())
    box.sit(5_000)
    assert (box.tries, len(box.outbox), box.timers()) == ([], 1, [])


# ------------------------------------------------------------------------------------------------ outcomes


def test_sent(box: Box) -> None:
    """A sent message's row stays without content, for the channel's rate."""
    box.give(message())
    assert (box.told, box.outbox.counts, len(box.outbox)) == ([("sent", "m1", 1, "fine")], {("hook", "sent"): 1}, 0)
    found = box.store.db.execute("SELECT state, tries, done, error, document FROM outbox").fetchall()
    assert found == [("sent", 1, WALL, None, "")]


def test_given_up(box: Box) -> None:
    """A message is given up after the last of its tries; then an operator may let it be tried again,
    from the first on.
    """
    rows.commit(box.store.db, 1, Changed({}, {}), [message()])
    rows.failed(box.store.db, "m1", outbox_module.MAX_TRIES - 2, WALL, "no")
    box.answer = refusing("no more")
    box.outbox.load(rows.waiting(box.store.db), 3)
    assert (box.told, box.outbox.dead) == ([("failed", "m1", 19, "no more")], 3)
    box.sit(901)
    assert box.told[1:] == [("dead", "m1", 20, "no more")]
    assert (box.outbox.dead, box.outbox.last_error, len(box.outbox)) == (4, "hook: no more", 0)
    assert box.outbox.counts == {("hook", "failed"): 1, ("hook", "dead"): 1}
    assert (box.row()["state"], box.row()["tries"], box.row()["error"]) == ("dead", 20, "no more")
    assert not box.outbox.is_busy("g")
    revived = rows.revive(box.store.db, "m1", WALL + box.clock.seconds())
    assert revived is not None and revived.tries == 0
    box.outbox.add(revived)
    assert (box.told[2:], box.outbox.dead) == ([("failed", "m1", 1, "no more")], 3)


def test_a_message_that_is_no_longer_there(box: Box) -> None:
    """A message whose row somebody took away is forgotten without a try."""
    box.outbox.load([Waiting("gone", "g", "hook", 0, WALL)], 0)
    assert (box.tries, box.told, len(box.outbox), box.outbox.is_busy("g")) == ([], [], 0, False)


def test_a_store_that_fails_costs_a_try(box: Box) -> None:
    """A message that the store can't read waits longer in memory, and its row stays in the store."""
    box.outbox.load([Waiting("m1", "g", "hook", 2, WALL)], 0, is_held=True)
    rows.commit(box.store.db, 1, Changed({}, {}), [message()])
    box.store.broken = True
    box.outbox._is_held = False
    box.outbox.look()
    assert (box.tries, box.outbox._waiting["m1"]) == ([], Waiting("m1", "g", "hook", 3, WALL + 20.0))
    box.store.broken = False
    box.clock.advance(0.0)
    assert box.timers() == [20.0]
    box.sit(20)
    assert box.told == [("sent", "m1", 4, "fine")]


def test_a_stop_breaks_off_what_is_under_way(box: Box) -> None:
    """A stop is no failure of what is under way, and nothing of it is written."""
    ended: list[str] = []
    box.answer = lambda each: Deferred(lambda _: ended.append(each.id))
    box.give(message("m1", "g1"), message("m2", "g2"))
    box.outbox.stop()
    assert (sorted(ended), box.told, box.timers()) == (["m1", "m2"], [], [])
    assert [(each["state"], each["tries"]) for each in rows.listed(box.store.db)] == [("waiting", 0)] * 2


def test_an_attempt_that_is_under_way_is_not_begun_twice(box: Box) -> None:
    """An attempt under way is not begun twice, however often the outbox is looked at."""
    box.answer = lambda _: Deferred()
    box.give(message())
    for _ in range(3):
        box.outbox.look()
    assert len(box.tries) == 1


def test_it_counts_nothing_at_first(box: Box) -> None:
    """A new outbox counts neither messages nor faults."""
    outbox = box.outbox
    assert (len(outbox), outbox.dead, outbox.last_error, outbox.counts, outbox.is_full) == (0, 0, None, {}, False)


def test_waiting_rows_are_as_they_were_stored(box: Box) -> None:
    """Waiting rows come in the order in which they were made, whatever their ids."""
    rows.commit(box.store.db, 1, Changed({}, {}), [message("z", "g1", at=3.0), message("b", "g2"), message("k", "g3")])
    rows.failed(box.store.db, "b", 2, WALL + 9.0, "no")
    assert rows.waiting(box.store.db) == (
        Waiting("z", "g1", "hook", 0, WALL + 3.0), Waiting("b", "g2", "hook", 2, WALL + 9.0),
        Waiting("k", "g3", "hook", 0, WALL),
    )  # fmt: skip
