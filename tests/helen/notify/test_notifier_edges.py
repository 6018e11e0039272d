"""Tests the notifier at its edges: what is committed and when, which looks it takes, and the words of each notice."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from notifier_life import FILE, Life
from telling import WALL, alert
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.task import Clock, LoopingCall
from twisted.logger import capturedLogs

from groundwork.clock_watch import Jump
from helen.journal.values import Change, JournalError, StoredChange
from helen.notify import rows
from helen.notify.attempt import Accepted, SendFailed
from helen.notify.destinations import API_TIMING
from helen.notify.messages import Message
from helen.notify.notices import MUTED
from helen.notify.notifier import Notifier
from helen.notify.routing import Timing
from helen.storage.database import StoreClosed


def stored_cursor(life: Life) -> str | None:
    row = life.store.db.execute("SELECT value FROM kv WHERE key = ?", (rows.CURSOR,)).fetchone()
    return None if row is None else str(row[0])


def stored_due(life: Life) -> list[float]:
    found = life.store.db.execute("SELECT document FROM notify_groups ORDER BY key")
    return [json.loads(document)["due"] - WALL for (document,) in found]


def a_message() -> Message:
    return Message("id1", "g", "hook", "route", {}, WALL, (alert(),), frozenset(("a/c",)))


def write(life: Life, text: str) -> None:
    (life.folder / "notifications.toml").write_text(text)
    life.notifier.config_file.reread("file")


def timers(life: Life) -> list[float]:
    """Return seconds until each call that the notifier or its outbox waits for, but for the timer of the file."""
    waiting = [each for each in life.clock.getDelayedCalls() if not isinstance(each.func, LoopingCall)]
    return sorted(each.getTime() - life.clock.seconds() for each in waiting)


# ------------------------------------------------------------------------------------------------ commits


def test_a_first_start_stores_where_it_begins_and_later_ones_store_nothing(life: Life) -> None:
    """Decisions count from the first start on; a start that changes nothing writes nothing."""
    assert (stored_cursor(life), life.store.calls.count("commit")) == ("0", 1)
    after = life.kill()
    assert (stored_cursor(after), after.store.calls.count("commit")) == ("0", 0)


def test_without_a_word_of_a_step_there_was_none(life: Life) -> None:
    """Nothing is moved without a step, and so nothing is stored."""
    life.decide()
    life.notifier.stop()
    life.store.db.close()
    after = Life(life.folder, life.clock, starts=False)
    Deferred.fromCoroutine(after.notifier.start(0, lambda at: succeed([])))
    assert (after.store.calls.count("commit"), stored_due(after)) == (0, [10.0])
    assert [group.due for group in after.notifier.groups.groups.values()] == [WALL + 10.0]


def test_a_start_after_a_step_of_the_clock_stores_the_moved_times(life: Life) -> None:
    """The moved times are stored at the start, so that a kill right after it moves nothing twice."""
    life.decide()
    life.notifier.stop()
    life.store.db.close()
    life.clock.advance(500.0)
    after = Life(life.folder, life.clock, stepped=500.0)
    assert (after.store.calls.count("commit"), stored_due(after)) == (1, [510.0])


def test_nothing_is_committed_that_is_not_new(life: Life) -> None:
    """Each decision and each message is one transaction, and an idle hour is none."""
    life.store.calls.clear()
    life.decide(action="hold")
    assert life.store.calls == []
    life.decide()
    assert life.store.calls.count("commit") == 1
    life.sit(10)
    assert life.store.calls.count("commit") == 2
    life.sit(3_000)
    assert life.store.calls.count("commit") == 2


def test_what_comes_during_a_commit_goes_into_the_next_one(life: Life) -> None:
    """Decisions of a commit wait for the next one: one transaction at a time, whose cursor is that of its contents."""
    life.store.held = []
    life.decide("a/c")
    life.decide("b/c")
    life.decide("d/c")
    assert len(life.store.held) == 1
    life.store.held[0].callback(None)
    assert (stored_cursor(life), len(life.store.held), life.journal.notices) == ("1", 2, [("a/c", "grouped", "hook")])
    life.store.held[1].callback(None)
    assert (stored_cursor(life), len(life.store.held)) == ("3", 2)
    assert [name for name, _, _ in life.journal.notices] == ["a/c", "b/c", "d/c"]


def test_a_channel_that_was_told_and_is_gone_leaves_the_store(life: Life) -> None:
    """A channel that was told and is gone leaves without a word, since nothing of it was still to be told."""
    life.decide()
    life.sit(11)
    assert len(stored_due(life)) == 1
    write(life, FILE.replace("[channels.hook]", "[channels.other]").replace('channels = "hook"', 'channels = "other"'))
    assert stored_due(life) == []
    assert life.store.db.execute("SELECT count(*) FROM notify_alerts").fetchone() == (0,)


def test_what_is_held_back_is_stored_as_held_back(life: Life) -> None:
    """The reason is in the history once, over a kill as well."""
    life.answer = None
    life.decide()
    life.sit(10.5)
    life.decide("a/d")
    life.sit(60)
    assert [each[:2] for each in life.journal.notices] == [("a/c", "grouped"), ("a/d", "grouped"), ("a/d", "waiting")]
    assert json.loads(life.store.db.execute("SELECT document FROM notify_groups").fetchone()[0])["delayed"] is True


def test_a_store_that_fails_is_tried_again_after_a_second(life: Life) -> None:
    """The commit is tried again until the store takes the batch; a stop ends that."""
    life.store.broken = True
    life.decide()
    assert timers(life) == [1.0, 10.0]
    life.store.calls.clear()
    life.clock.advance(0.9)
    assert life.store.calls == []
    life.clock.advance(0.1)
    assert life.store.calls == ["commit"]
    stopped = life.notifier.stop()
    assert not stopped.called
    life.clock.advance(1.0)
    assert stopped.called and life.store.calls == ["commit", "commit"]
    assert timers(life) == []


# ------------------------------------------------------------------------------------------------ start and stop


def test_a_store_that_closes_during_the_start(tmp_path: Path) -> None:
    """A store that closes during the start raises no error, and nothing is taken up, as Helen was told to stop."""
    life = Life(tmp_path, Clock(), starts=False)
    life.store.call = lambda *_: fail(StoreClosed("closed"))  # type: ignore[method-assign]
    done: list[Any] = []
    Deferred.fromCoroutine(life.notifier.start(0, lambda at: succeed([]))).addBoth(done.append)
    assert (done, life.clock.getDelayedCalls()) == ([None], [])


def test_decisions_before_the_start_is_done_are_taken_up_then(life: Life) -> None:
    """Early decisions come after those that were missed; one whose place is taken already counts once."""
    life.store.db.close()
    missed: Deferred[Any] = Deferred()
    next_one = Life(life.folder, life.clock, starts=False)
    started = Deferred.fromCoroutine(next_one.notifier.start(0, lambda at: missed))
    early = next_one.decide("b/c")
    assert (next_one.notifier.counts["decisions"], next_one.store.calls.count("commit")) == (0, 0)
    missed.callback([early])
    assert started.called
    assert next_one.notifier.counts == {"decisions": 1, "unrouted": 0}
    next_one.sit(11)
    assert [each[2] for each in next_one.sent] == [["b/c+"]]


def test_after_a_stop_nothing_happens(life: Life) -> None:
    """No decision is taken up, no step of the clock plans anything, no timer is left."""
    life.decide()
    assert life.notifier.stop().called
    life.decide("b/c")
    life.notifier.jumped(Jump(WALL, 5.0, 0.0))
    assert (life.notifier.counts["decisions"], life.clock.getDelayedCalls(), life.sent) == (1, [], [])
    life.notifier._work()
    assert life.clock.getDelayedCalls() == []


def test_a_stop_waits_for_the_last_commit(life: Life) -> None:
    """A stop waits for the last commit, and begins no further one."""
    life.store.held = []
    life.decide()
    life.decide("b/c")
    stopped = life.notifier.stop()
    assert not stopped.called
    life.store.held[0].callback(None)
    assert stopped.called and stored_cursor(life) == "1" and len(life.store.held) == 1


def test_records_that_are_no_decision_are_passed_over(life: Life) -> None:
    """The evaluator writes others, too; and a decision at the cursor or before it was taken up before."""
    for change in (Change("silence", 0.0, "a", "c", b"{}"), Change("decision", 0.0, None, None, b"{}")):
        life.notifier.decided(StoredChange(9, change))
    assert life.notifier.counts["decisions"] == 0
    life.decide("a/c")
    life.at = 0
    life.decide("b/c")
    assert life.notifier.counts["decisions"] == 1
    life.decide("b/c")
    assert life.notifier.counts["decisions"] == 2


# ------------------------------------------------------------------------------------------------ time


def test_the_next_look_is_when_something_is_due_and_within_an_hour(life: Life) -> None:
    """A clock that is set is noticed by others; a timer of days would only hide a fault."""
    assert timers(life) == []
    life.decide()
    assert timers(life) == [10.0]
    life.clock.advance(4.0)
    life.decide("a/d")
    assert timers(life) == [6.0]
    life.clock.advance(6.0)
    life.clock.advance(0.0)
    assert timers(life) == [3_600.0]
    life.clock.advance(3_600.0)
    assert timers(life) == [3_600.0]
    for _ in range(2):
        life.clock.advance(3_600.0)
    assert timers(life) == [3_600.0]
    assert len(life.sent) == 1
    life.clock.advance(3_600.0)
    life.sit(1)
    assert [each[0] for each in life.sent] == [10.0, 14_410.0]


def test_looks_for_old_rows_once_an_hour(life: Life) -> None:
    """The notifier looks for old rows at the first work of a start, and not again before an hour is over."""
    assert life.store.calls.count("prune") == 1
    for seconds, looks in ((3_599.0, 1), (1.0, 2), (3_599.5, 2), (0.5, 3)):
        life.clock.advance(seconds)
        life.notifier._work()
        assert life.store.calls.count("prune") == looks
    life.notifier.jumped(Jump(WALL, 1_000.0, 0.0))
    life.clock.advance(3_600.0)
    assert life.store.calls.count("prune") == 3, "the clock is ahead by what it was set, and so is the last look"


@pytest.mark.parametrize(("stepped", "slept"), [(300.0, 0.0), (0.0, 300.0), (-2.0, 50.0)])
def test_a_jump_moves_what_waits_and_is_stored(life: Life, stepped: float, slept: float) -> None:
    """Groups move by the step and the sleep, further attempts by the step alone; a commit of its own stores that."""
    life.answer = SendFailed("no")
    life.decide("x/c")
    life.sit(10.5)
    life.decide("a/c")
    [retry] = [each.due - WALL for each in life.notifier.outbox._waiting.values()]
    due = life.notifier.groups.groups['["hook", "route", [["agent", "a"]]]'].due or 0.0
    life.store.calls.clear()
    life.notifier.jumped(Jump(WALL, stepped, slept))
    assert life.store.calls == []
    life.clock.advance(0.0)
    assert life.store.calls.count("commit") == 1
    assert [each.due - WALL for each in life.notifier.outbox._waiting.values()] == [retry + stepped]
    assert life.notifier.groups.groups['["hook", "route", [["agent", "a"]]]'].due == due + stepped + slept
    assert stored_due(life)[0] == due - WALL + stepped + slept


def test_the_times_of_a_mirror() -> None:
    """A mirror is told at once, a second apart, and each minute again."""
    assert Timing(wait=0.0, interval=1.0, repeat=60.0) == API_TIMING


# ------------------------------------------------------------------------------------------------ notices


def test_the_words_of_notices(life: Life) -> None:
    """A notice has its words: what, where, by which rule, and why; an attempt has its number and how many went
    together.
    """
    life.answer = SendFailed("500 no")
    life.decide("a/c")
    life.decide("a/d")
    life.sit(11)
    grouped, _, failed, other = life.journal.documents
    assert grouped == {"action": "grouped", "what": "problem", "channel": "hook", "rule": "route",
                       "why": "goes out in 10 s in the group agent=a"}  # fmt: skip
    assert failed == {"action": "failed", "what": "problem", "channel": "hook", "rule": "route", "why": "500 no",
                      "tries": 1, "message": life.sent[0][3], "with": 1}  # fmt: skip
    assert other == failed
    life.sit(6)
    assert len(life.sent) == 2 and len(life.journal.documents) == 4, "a second failure is no news"
    life.answer = Accepted("fine")
    life.sit(11)
    assert life.journal.documents[4:] == [failed | {"action": "sent", "why": "fine", "tries": 3}] * 2


def test_why_nobody_is_told(life: Life) -> None:
    """Nobody is told if there is no rule, no file, or an end of what nobody was told, and the reason is written."""
    life.labels = {"site": "none"}
    life.decide()
    life.decide(what="recovery", status="ok")
    (life.folder / "notifications.toml").unlink()
    life.notifier.config_file.reread("file")
    life.decide("b/c")
    assert life.journal.documents == [
        {"action": "nobody", "what": "problem",
         "why": "no rule with a channel takes it: `helen route test` shows each rule"},
        {"action": "nobody", "what": "recovery", "why": "its problem was told to nobody"},
        {"action": "nobody", "what": "problem", "why": "there is no notifications.toml"},
    ]  # fmt: skip


def test_repeats_are_no_news_but_an_end_of_tries_is(life: Life) -> None:
    """A repeat that is given up is written at each alert of it."""
    life.decide("a/c")
    life.sit(11)
    life.answer = SendFailed("gone")
    life.journal.documents.clear()
    life.clock.advance(3_600.0 * 4)
    life.clock.pump([5.0] * 2_500)
    assert [each["action"] for each in life.journal.documents] == ["dead"]
    assert life.journal.documents[0]["with"] == 0


def test_muted_words(life: Life) -> None:
    """A muted Helen is the reason for which an alert waits, and not a time that does not count."""
    life.notifier.is_muted = True
    life.decide("a/c")
    life.decide("a/c", "recovery", "ok")
    assert [(each["action"], each["why"]) for each in life.journal.documents] == [
        ("grouped", MUTED), ("dropped", "recovery before anybody was told here"),
    ]  # fmt: skip
    assert timers(life) == []


def test_a_history_that_takes_nothing_stops_nobody(life: Life) -> None:
    """The message goes out all the same, and the log has the reason."""

    def refuse(*_: Any, **__: Any) -> None:
        raise JournalError("disk full")

    life.journal.change = refuse  # type: ignore[method-assign]
    with capturedLogs() as logged:
        life.decide()
        life.sit(11)
    assert [each[2] for each in life.sent] == [["a/c+"]]
    assert [(each["agent"], each["check"]) for each in logged if "error" in each] == [("a", "c")] * 2


def test_a_fault_of_our_own_ends_no_commits(life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault of our own is logged, and the next batch is committed."""
    faults: list[Any] = []
    monkeypatch.setattr(Notifier, "log", SimpleNamespace(failure=lambda _, failure: faults.append(failure.value)))
    with monkeypatch.context() as patched:
        patched.setattr(life.notifier.outbox, "committed", lambda messages: dict[str, int]()["x"])
        life.decide()
    assert [str(each) for each in faults] == ["'x'"]
    life.decide("b/c")
    assert stored_cursor(life) == "2"


def test_a_mirror_knows_labels_and_is_never_spared(life: Life) -> None:
    """A mirror is told of handled alerts; other channels are not told them again, and a channel that is gone knows
    nothing.
    """
    life.notifier._is_handled = lambda agent, check: (agent, check) == ("a", "c")
    names = ("hook", "am", "gone")
    assert [life.notifier._knows_labels(name) for name in names] == [False, True, False]
    assert [life.notifier._handled(name, alert("a/c")) for name in names] == [True, False, False]
    assert [life.notifier._handled(name, alert("b/c")) for name in names] == [False, False, False]


@pytest.mark.parametrize(
    ("head", "url"), [("", ""), ('external_url = "http://helen.example:4167/"', "http://helen.example:4167")]
)
def test_links_lead_where_the_file_says(life: Life, head: str, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Links lead to the URL of the file; without a file, or without a word of it there, they lead nowhere."""
    given: list[Any] = []
    monkeypatch.setattr("helen.notify.notifier.send", lambda *args: given.append(args))
    write(life, head + FILE)
    channel = life.notifier._channel("hook")
    assert channel is not None
    life.notifier.send(channel, a_message())
    (life.folder / "notifications.toml").unlink()
    life.notifier.config_file.reread("file")
    life.notifier.send(channel, a_message())
    assert [(args[0], args[1].name, args[2].id, args[3]) for args in given] == [
        (life.clock, "hook", "id1", url), (life.clock, "hook", "id1", ""),
    ]  # fmt: skip
