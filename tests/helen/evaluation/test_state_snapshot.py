"""Tests the file of saved states: everything of a timeline comes back, and a file that can't be used is
told from none.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from timeline_copy import copy_of

from groundwork.start_clock import Boot
from helen.evaluation import state_snapshot
from helen.evaluation.state_snapshot import NAME, StatesUnreadable, at_of, load, save
from helen.states.agent_rules import AgentRules
from helen.states.clock_offset import AgentClock, Newest
from helen.states.downtimes import Scope, Window
from helen.states.fleet_states import run
from helen.states.fleet_timeline import Timeline
from helen.states.inputs import Result
from helen.states.model import Rule
from helen.states.rollout_trials import TrialScope
from helen.states.timeline_snapshot import header_of

NOW = 1_800_000_000.0


def a_timeline() -> Timeline:
    """Return a timeline with something of everything that is saved."""
    made = Timeline()
    run(made.change("helen_start", NOW, None, None, {"states": 7, "boot": {"id": "b1", "began": 5.0}}))
    rules = AgentRules({"role": "web"}, {"disk": Rule(attempts=2, stale=60.0)}, Rule(away=30.0))
    run(made.set_rules("a", rules))
    run(made.set_rules("b", AgentRules({}, {"gone": Rule()})))
    run(made.set_rules("b", AgentRules({}, {})))
    run(made.link("a", True))
    run(made.result("a", "disk", Result(NOW + 1.0, 2, NOW + 0.5, "s", 3, None, "full", "99 %")))
    run(made.open_window(Window("w1", "downtime", Scope(("a",)), NOW, NOW + 600.0, created=NOW)))
    run(made.open_window(Window("w2", "silence", Scope(("a",)), NOW, NOW + 900.0, created=NOW)))
    run(made.cancel("w2", "anna"))
    made.trial = TrialScope(4, 1, frozenset("a"), frozenset(), frozenset(("disk",)), "version 4 is tried")
    made.left_out, made.late_results = {"a": 3}, 9
    made.lag, made.settles = 70.0, NOW + 3_000.0
    made.clocks["b"] = AgentClock(2.0, NOW, 1.0, 2, (1.0, 3.0), True, False)
    made.newest["b"] = Newest("s", 1, NOW, NOW + 1.0, True)
    return made


def test_everything_comes_back(tmp_path: Path) -> None:
    """A timeline comes back whole through the file, and through the copy that a thread saves."""
    given = a_timeline()
    save(tmp_path, 41, copy_of(given))
    found = load(tmp_path)
    assert found is not None
    at, back = found
    assert (at, header_of(back), back.states) == (41, header_of(given), given.states)
    assert (back.windows, list(back.ended), back.active) == (given.windows, list(given.ended), given.active)
    assert (back.clocks, back.newest, back.rules) == (given.clocks, given.newest, given.rules)
    assert (back.trial, back.retired, back.boot) == (given.trial, {("b", "gone"): None}, Boot("b1", 5.0))
    assert (back.most_states, back.left_out, back.late_results) == (7, {"a": 3}, 9)
    assert (back.lag, back.settles, back.started, back.clock) == (70.0, NOW + 3_000.0, NOW, given.clock)
    assert (back.tallies["a"], back._checks["a"]) == (given.tallies["a"], given._checks["a"])
    assert back._deadlines.next == NOW + 61.0, "a minute after its only result the check is stale"


def test_a_copy_is_not_changed_with_what_it_was_made_of() -> None:
    """A copy has tables of its own, so it stays when the timeline changes."""
    given = a_timeline()
    copy, before = copy_of(given), header_of(a_timeline())
    run(given.forget("a"))
    given.windows.clear()
    given.ended.clear()
    given.active.clear()
    given.left_out.clear()
    assert json.loads(json.dumps(header_of(copy))) == json.loads(json.dumps(before))


def test_an_empty_timeline(tmp_path: Path) -> None:
    """A timeline without a boot or a step has nothing of them in its file."""
    save(tmp_path, 0, Timeline())
    header = json.loads(gzip.decompress((tmp_path / NAME).read_bytes()))
    assert header["format"] == 1 and not {"boot", "lag", "settles"} & header.keys()
    found = load(tmp_path)
    assert found is not None
    assert (found[0], found[1].states, found[1].boot, found[1].lag, found[1].settles) == (0, {}, None, 0.0, None)
    assert found[1].most_states == 1_000


def test_a_file_of_an_older_version_of_the_format(tmp_path: Path) -> None:
    """A file of an older format lacks later fields, and each of them has its usual value."""
    header = header_of(a_timeline())
    for name in ("ended", "newest", "retired", "most_states", "left_out", "trial", "boot", "lag", "settles"):
        header.pop(name)
    text = json.dumps({"format": 1, "at": 3, **header})
    (tmp_path / NAME).write_bytes(gzip.compress(text.encode()))
    found = load(tmp_path)
    assert found is not None
    back = found[1]
    assert (list(back.ended), back.newest, back.retired, back.most_states, back.left_out) == ([], {}, {}, 1_000, {})
    assert (back.trial, back.boot, back.lag, back.settles) == (None, None, 0.0, None)


def packed(content: bytes) -> bytes:
    """Pack without the time, since each worker of a parallel run must name the same tests."""
    return gzip.compress(content, mtime=0)


GOOD = packed(b'{"format": 1, "at": 12}\n["a", "c", {}]')


@pytest.mark.parametrize(("packed", "at"), [
    (GOOD, 12), (packed(b'{"format": 1, "at": 0}'), 0), (packed(b'{"format": 2, "at": 12}'), None),
    (packed(b'{"format": 0, "at": 12}'), None), (packed(b'{"format": 1}'), None),
    (packed(b"[]"), None), (packed(b""), None), (packed(b"{"), None), (b"x", None), (b"", None),
    (GOOD[:12], None), (packed(b'{"format": 1, "at": "x"}'), None),
])  # fmt: skip
def test_the_place_of_a_file(packed: bytes, at: int | None) -> None:
    """The place is read from the first line alone; None for one that can't be used."""
    assert at_of(packed) == at


@pytest.mark.parametrize(("content", "why"), [
    (b"x", "can't be read"), (packed(b"{"), "can't be read"),
    (packed(b'{"format": 1, "at": 1}'), "can't be read"),
    (GOOD, "can't be read"), (packed(b""), "is of another version"), (b"", "is of another version"),
])  # fmt: skip
def test_a_file_that_cannot_be_used(tmp_path: Path, content: bytes, why: str) -> None:
    """A file that cannot be used costs time and no states, and the sentence tells that."""
    (tmp_path / NAME).write_bytes(content)
    with pytest.raises(StatesUnreadable, match=f"{why}.*states are made again from the journal"):
        load(tmp_path)
    (tmp_path / NAME).unlink()
    assert load(tmp_path) is None
    assert state_snapshot.NAME == "states.json.gz"
