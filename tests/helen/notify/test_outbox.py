"""Tests outbox and notifier on a real database under a clock: tries, restarts, what is given up, and reasons."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from notifier_life import FILE, Life
from telling import WALL, DirectStore, Journal, wall
from twisted.internet.defer import Deferred, maybeDeferred, succeed
from twisted.internet.task import Clock
from twisted.logger import capturedLogs

from helen.notify import rows
from helen.notify.attempt import Accepted, SendFailed
from helen.notify.missed import StoredDecision
from helen.notify.notifier import Notifier
from helen.notify.outbox import AT_ONCE, FIRST_RETRY, LONGEST_RETRY, MAX_TRIES, backoff

PAGER = """
[channels.hook]
type = "webhook"
url = "http://127.0.0.1:9/"
[channels.pager]
type = "incident"
shape = "pagerduty"
key = { env = "KEY" }
[route]
group_wait = "10s"
group_by = ["site"]
channels = ["pager", "hook"]
"""


def test_an_incident_is_a_message_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An incident has a message from begin to end, whatever the rule groups by, while severity and labels change."""
    monkeypatch.setattr("helen.files.watched_file.deferToThread", maybeDeferred)
    (tmp_path / "notifications.toml").write_text(PAGER)
    life = Life(tmp_path, Clock())
    life.decide("a/c")
    life.decide("b/c")
    life.sit(20)
    assert sorted(each[1:3] for each in life.sent) == [
        ("hook", ["a/c+", "b/c+"]), ("pager", ["a/c+"]), ("pager", ["b/c+"]),
    ]  # fmt: skip
    life.sent.clear()
    life.labels["site"] = "y"
    life.decide("a/c", "changed", "warning")
    life.sit(400)
    life.decide("a/c", "recovery", "ok")
    life.sit(400)
    assert [each[2] for each in life.sent if each[1] == "pager"] == [["a/c+"], ["a/c-"]]


def test_a_decision_becomes_a_message_and_every_step_a_record(life: Life) -> None:
    """A decision is grouped at once, and sent when the remote has taken it; one held back by judgement makes no
    message.
    """
    life.decide(action="hold")
    life.decide()
    life.sit(20)
    assert [each[:3] for each in life.sent] == [(10.0, "hook", ["a/c+"])]
    assert life.journal.notices == [("a/c", "grouped", "hook"), ("a/c", "sent", "hook")]
    life.decide(what="recovery", status="ok")
    life.sit(60)
    assert [each[2] for each in life.sent] == [["a/c+"], ["a/c-"]]
    assert life.store.db.execute("SELECT count(*) FROM notify_groups").fetchone() == (0,)
    assert life.store.db.execute("SELECT state, document FROM outbox").fetchall() == [("sent", "")] * 2


def test_it_is_in_the_store_before_it_is_sent(life: Life) -> None:
    """While the disk takes nothing, nothing is sent, and the log says so once; once it does, everything is."""
    life.store.broken = True
    with capturedLogs() as logged:
        life.decide()
        life.sit(30)
    assert [each["error"].args for each in logged if "wait for the store" in each["log_format"]] == [("disk full",)]
    assert (life.sent, life.journal.notices) == ([], [])
    life.store.broken = False
    life.sit(2)
    assert [each[1:3] for each in life.sent] == [("hook", ["a/c+"])]
    assert [action for _, action, _ in life.journal.notices] == ["grouped", "sent"]
    assert life.notifier.outbox.counts == {("hook", "sent"): 1}


def test_a_kill_before_the_wait_is_over(life: Life) -> None:
    """The next Helen tells what this one would have told, at the same time."""
    life.decide()
    life.sit(5)
    after = life.kill()
    after.sit(6)
    assert [each[:3] for each in after.sent] == [(10.0, "hook", ["a/c+"])]


def test_a_kill_while_it_is_under_way(life: Life) -> None:
    """The message is sent once more under the same id, by which a receiver knows it."""
    life.answer = None
    life.decide()
    life.sit(11)
    after = life.kill()
    after.sit(1)
    assert after.sent[0][3] == life.sent[0][3]
    again = after.kill()
    again.sit(1_000)
    assert again.sent == []


def test_a_decision_that_the_last_one_did_not_take_up(life: Life) -> None:
    """Decisions in the history after the cursor are taken up at the start, those before it not again."""
    first = life.decide()
    life.sit(20)
    missed = StoredDecision(5, "b", "c", first.document)
    after = life.kill([first, missed])
    after.sit(60)
    assert [each[2] for each in after.sent] == [["b/c+"]]
    assert after.kill([first, missed]).notifier.counts["decisions"] == 0


def test_tries_further_and_further_apart_and_then_given_up(life: Life) -> None:
    """The first failure and the end are written down; the count is in the status until somebody has seen to it."""
    life.answer = SendFailed("500 no")
    life.decide()
    life.clock.pump([5.0] * 2_500)
    gaps = [round(b[0] - a[0]) for a, b in zip(life.sent, life.sent[1:], strict=False)]
    assert (len(life.sent), gaps[:4], max(gaps)) == (MAX_TRIES, [5, 10, 20, 40], 900)
    assert [action for _, action, _ in life.journal.notices] == ["grouped", "failed", "dead"]
    outbox = life.notifier.outbox
    assert (outbox.dead, outbox.last_error, len(outbox)) == (1, "hook: 500 no", 0)
    [listed] = rows.listed(life.store.db)
    assert (listed["state"], listed["tries"], listed["error"]) == ("dead", MAX_TRIES, "500 no")
    after = life.kill()
    assert after.notifier.outbox.dead == 1
    revived = rows.revive(after.store.db, listed["id"], WALL + after.clock.seconds())
    assert revived is not None
    after.notifier.outbox.add(revived)
    after.sit(1)
    assert (after.sent[0][3], after.notifier.outbox.dead) == (listed["id"], 0)
    assert rows.revive(after.store.db, listed["id"], 0.0) is None


def test_what_happens_while_a_receiver_is_down_comes_in_one_message(life: Life) -> None:
    """A group has one message under way, so that an outage of hours makes no heap of them."""
    life.answer = SendFailed("no")
    life.decide()
    life.sit(12)
    for number in range(50):
        life.decide(f"a/c{number}")
    life.sit(100)
    assert len(rows.waiting(life.store.db)) == 1
    life.answer = Accepted("ok")
    life.sit(300)
    assert [len(each[2]) for each in life.sent[-2:]] == [1, 51]


def test_a_time_that_the_remote_names_is_kept(life: Life) -> None:
    """A Retry-After that is longer than our own wait is kept."""
    life.answer = SendFailed("429 slow down", 120.0)
    life.decide()
    life.sit(140)
    assert [each[0] for each in life.sent] == [10.0, 130.0]


def test_one_channel_takes_so_many_at_once(life: Life) -> None:
    """One channel has at most AT_ONCE messages under way, and the others wait for their turn."""
    life.answer = None
    for number in range(AT_ONCE + 2):
        life.decide(f"a{number}/c")
    life.sit(12)
    assert len(life.sent) == AT_ONCE
    life.hanging[0].callback(Accepted("ok"))
    life.sit(1)
    assert len(life.sent) == AT_ONCE + 1


def test_alertmanager_hears_of_what_fires_each_minute_and_of_its_end_at_once(life: Life) -> None:
    """A mirror is told each minute what fires, and begins and ends at once; repetitions leave no record."""
    life.labels = {"site": "am"}
    life.decide()
    life.sit(125)
    life.decide(what="recovery", status="ok")
    life.sit(200)
    assert [each[:3] for each in life.sent] == [
        (0.0, "am", ["a/c+"]), (60.0, "am", ["a/c+"]), (120.0, "am", ["a/c+"]), (125.0, "am", ["a/c-"]),
    ]  # fmt: skip
    assert [action for _, action, _ in life.journal.notices] == ["grouped", "sent"] * 2


def test_nobody_is_told_and_it_says_why(life: Life) -> None:
    """A decision that tells nobody has its record, without a rule or without a file."""
    life.labels = {"site": "none"}
    life.decide()
    (life.folder / "notifications.toml").unlink()
    life.notifier.config_file.reread("SIGHUP")
    life.decide("b/c")
    life.decide("b/c", "recovery", "ok")
    assert life.journal.notices == [("a/c", "nobody", ""), ("b/c", "nobody", ""), ("b/c", "nobody", "")]
    assert life.notifier.counts == {"decisions": 3, "unrouted": 3}


def test_a_fault_changes_nothing_not_even_over_a_restart(life: Life) -> None:
    """The last file without one is in the store."""
    (life.folder / "notifications.toml").write_text("nonsense")
    life.notifier.config_file.reread("SIGHUP")
    assert life.notifier.config_file.fault is not None
    after = life.kill()
    assert after.notifier.config_file.config is not None
    assert list(after.notifier.config_file.config.channels) == ["hook", "am"]


def test_a_channel_that_is_taken_away(life: Life) -> None:
    """Messages that wait for it are dropped with a record; one that is under way fails, and says why."""
    life.decide()
    text = FILE.replace("[channels.hook]", "[channels.other]").replace('channels = "hook"', 'channels = "other"')
    (life.folder / "notifications.toml").write_text(text)
    life.notifier.config_file.reread("file")
    life.sit(30)
    assert life.sent == []
    assert [action for _, action, _ in life.journal.notices] == ["grouped", "dropped"]


def test_a_stop_breaks_off_what_is_under_way(life: Life) -> None:
    """A stop does not wait for what is under way, and does not count it as a try."""
    life.answer = None
    life.decide()
    life.sit(11)
    assert life.notifier.stop().called
    assert [each.tries for each in rows.waiting(life.store.db)] == [0]
    assert life.clock.getDelayedCalls() == []


def test_what_was_sent_is_remembered_for_a_day(life: Life) -> None:
    """A sent message is remembered as long as a rate may look back, for a day; then its row goes."""
    life.decide()
    life.sit(12)
    life.clock.advance(90_000)
    life.decide("b/c")
    life.sit(12)
    assert life.store.db.execute("SELECT created FROM outbox").fetchall() != []
    assert life.store.db.execute("SELECT count(*) FROM outbox WHERE created < ?", (WALL + 100,)).fetchone() == (0,)


def test_backoff() -> None:
    """The wait is doubled, bounded, and spread by a quarter both ways."""
    assert [backoff(tries, 0.5) for tries in (1, 2, 3, 30)] == [FIRST_RETRY, 10.0, 20.0, LONGEST_RETRY]
    assert [backoff(1, chance) for chance in (0.0, 1.0)] == [3.75, 6.25]


def test_the_same_message_is_there_once(life: Life) -> None:
    """A message is stored once, as its id is the key."""
    life.answer = None
    life.decide()
    life.sit(11)
    message = rows.message(life.store.db, life.sent[0][3])
    assert message is not None
    rows.commit(life.store.db, 9, life.notifier.groups.changed(), [message])
    assert len(rows.waiting(life.store.db)) == 1


def problem(name: str, status: str = "critical", what: str = "problem") -> tuple[str, str, dict[str, Any]]:
    agent, check = name.split("/")
    return agent, check, {"what": what, "status": status, "at": WALL - 60.0, "why": "so"}


LATER = FILE.replace('match = "site=am"', 'match = "site=x"')


@pytest.mark.parametrize("restarts", [False, True])
def test_an_alertmanager_that_is_added_later_hears_of_the_past(life: Life, restarts: bool, tmp_path: Path) -> None:
    """An Alertmanager that is added later is told open problems once, and their end; other channels nothing again
    (J15).
    """
    life.labels["site"] = "none"
    for name in ("a/c", "b/c"):
        life.decide(name)
    life.sit(20)
    assert life.sent == []
    still_open = [problem("a/c"), problem("b/c", "warning"), problem("f/c", "ok", "flapping")]
    (tmp_path / "notifications.toml").write_text(LATER)
    if restarts:
        life.store.db.close()
        life = Life(tmp_path, life.clock, open_problems=still_open)
    else:
        life.labels["site"] = "x"
        life.open = still_open
        life.notifier.config_file.reread("file")
    life.sit(3)
    assert [each[1:3] for each in life.sent] == [("am", ["a/c+", "b/c+", "f/c+"])]
    life.at = 9
    life.open = [problem("b/c", "warning")]
    life.decide("a/c", "recovery", "ok")
    life.sit(3)
    assert life.sent[-1][1:3] == ("am", ["a/c-", "b/c+", "f/c+"])
    (tmp_path / "notifications.toml").write_text(LATER + "\n# the same\n")
    life.notifier.config_file.reread("file")
    before = len(life.sent)
    life.sit(3)
    assert len(life.sent) == before


def test_a_webhook_that_is_added_later_hears_of_news_alone(life: Life, tmp_path: Path) -> None:
    """A new webhook is told no open problems: it tells people, and they were told. (J15)"""
    life.labels["site"] = "none"
    life.decide("a/c")
    life.labels["site"] = "x"
    life.open = [problem("a/c")]
    (tmp_path / "notifications.toml").write_text(FILE + "\n# saved again\n")
    life.notifier.config_file.reread("file")
    life.sit(30)
    assert life.sent == []


@pytest.mark.parametrize("is_over", [True, False])
def test_muted(life: Life, is_over: bool) -> None:
    """Nothing leaves a muted Helen; at the next start what is still broken is told, and what is over
    never was (J17).
    """
    life.answer = SendFailed("away")
    life.decide("web-7/load")
    life.sit(12)
    assert len(life.sent) == 1
    quiet = life.kill()
    quiet.notifier.is_muted = quiet.notifier.outbox._is_held = True
    quiet.at = life.at
    quiet.decide("web-8/load")
    quiet.sit(4_000)
    if is_over:
        quiet.decide("web-8/load", what="recovery", status="ok")
    quiet.sit(1_000)
    assert quiet.sent == []
    loud = quiet.kill()
    loud.sit(1_000)
    told = {key for _, _, keys, _ in loud.sent for key in keys}
    assert ("web-7/load+" in told, "web-8/load+" in told) == (True, not is_over)


def test_a_problem_that_is_acknowledged_is_not_repeated(life: Life) -> None:
    """An acknowledged problem is not repeated to people; a mirror has to hear of it all the time."""
    life.decide("a/c")
    life.decide("b/c")
    life.labels = {"site": "am"}
    life.decide("a/d")
    life.notifier._is_handled = lambda agent, check: agent == "a"
    life.sit(4 * 3_600 + 60)
    assert [each[:3] for each in life.sent if each[1] == "hook"] == [
        (10.0, "hook", ["a/c+"]), (10.0, "hook", ["b/c+"]), (14_410.0, "hook", ["b/c+"])
    ]  # fmt: skip
    assert len([each for each in life.sent if each[1] == "am"]) == 242  # at 0, 60, ... 14,460 s


def test_muted_from_its_start(life: Life, tmp_path: Path) -> None:
    """The reason is where the others are, and messages of before the start wait as well (J17)."""
    life.answer = SendFailed("away")
    life.decide()
    life.sit(11)
    life.store.db.close()
    clock = Clock()
    quiet = Life.__new__(Life)
    quiet.__dict__ |= life.__dict__ | {"store": DirectStore(tmp_path), "journal": Journal(), "sent": [], "clock": clock}
    quiet.notifier = Notifier(
        clock, tmp_path, quiet.store, quiet.journal,  # type: ignore[arg-type]
        lambda agent, check: ({"site": "x"}, "words"), wall(clock), is_muted=True,
    )  # fmt: skip
    quiet.notifier.outbox._send = quiet.send
    Deferred.fromCoroutine(quiet.notifier.start(0, lambda at: succeed([])))
    quiet.decide("b/c")
    quiet.sit(7_200)
    assert quiet.sent == []
    assert [each[:2] for each in quiet.journal.notices] == [("b/c", "grouped")]
    assert len(quiet.notifier.outbox) == 1
