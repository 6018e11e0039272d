"""Tests rings, gates and a rollout under our own clock: who is in, what passes, what goes back, and when."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

from helen.rollout.gate_limits import MOST_RUNS, Limits, read_limits
from helen.rollout.gates import Evidence, Figures, Run
from helen.rollout.rings import Candidate, choose, read_fraction, read_rings, write_rings
from helen.rollout.rollout import Plan, Rollout
from helen.rollout.set_aside import KEPT_MOST, NotSetAside, SetAside
from helen.rollout.touched_files import Touched, touched

KEY = b"k" * 32  # of rings
LIMITS = Limits(window=10.0, patience=100.0)
OK, WARNING, CRITICAL, UNKNOWN = range(4)
WORDS = {"o": OK, "w": WARNING, "c": CRITICAL, "u": UNKNOWN}

# ---------------------------------------------------------------------------------------------- rings


def test_shares() -> None:
    """A share is more than nothing and at most all."""
    assert [read_fraction(text) for text in ("1%", "0.5 %", "100%")] == [0.01, 0.005, 1.0]
    for bad in ("0%", "101%", "1", "x%", "-1%"):
        with pytest.raises(ValueError, match="is no share of the agents"):
            read_fraction(bad)


def test_rings_as_people_write_them() -> None:
    """All agents are the last one, said or not; `off` is none."""
    assert write_rings(read_rings("1%, 10%,100%")) == "1%,10%,100%"
    assert write_rings(read_rings("role=can*,0.5%")) == "role=can*,0.5%,100%"
    small = read_rings("0.00001%,7.00 %,33.33333333%")  # a rollout is kept as this text, and read from it again
    assert write_rings(small) == "0.00001%,7%,33.33333333%,100%"
    assert read_rings(write_rings(small)) == small
    assert (read_rings("off"), write_rings(())) == ((), "off")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "names no ring"), ("1", "is no share of the agents"), ("10%,1%", "greater than the one before"),
        ("1%,1%", "greater than the one before"), ("=x", "is no share"), (",".join(["a=b"] * 16), "16 are the most"),
    ],
)  # fmt: skip
def test_rings_that_are_none(text: str, sentence: str) -> None:
    """Each is a sentence for the one who wrote it."""
    with pytest.raises(ValueError, match=sentence):
        read_rings(text)


def fleet(count: int, **kinds: Any) -> list[Candidate]:
    return [Candidate(f"a-{n}", labels={key: of(n) for key, of in kinds.items()}) for n in range(count)]


def test_who_is_in_a_ring() -> None:
    """A ring has its share of agents, at least one, with those of the ring before, the same ones in any order."""
    agents, spec = fleet(200), read_rings("1%,10%")
    one = choose(agents, spec[0], frozenset(), 7, KEY)
    assert [len(choose(agents, read_rings(share)[0], frozenset(), 7, KEY)) for share in ("0.1%", "7%", "50%")] == [
        1,
        14,
        100,
    ]
    assert one == choose(reversed(agents), spec[0], frozenset(), 7, KEY)
    ten = choose(agents, spec[1], one, 7, KEY)
    assert (len(ten), one <= ten) == (20, True)
    assert choose([], spec[0], frozenset(), 7, KEY) == frozenset()


def test_not_always_the_same_victims() -> None:
    """Other versions choose other agents: the first rings of 50 pushes have more than 30 different ones."""
    agents, spec = fleet(100), read_rings("1%")[0]
    chosen = [choose(agents, spec, frozenset(), version, KEY) for version in range(50)]
    assert len(frozenset.union(*chosen)) > 30


def test_those_who_are_away_count_but_are_not_chosen() -> None:
    """Agents that are away count for a share, since a Helen that has just started sees few."""
    agents = [evolve(each, is_here=n < 3) for n, each in enumerate(fleet(100))]
    assert len(choose(agents, read_rings("2%")[0], frozenset(), 7, KEY)) == 2
    assert choose(agents, read_rings("50%")[0], frozenset(), 7, KEY) == {"a-0", "a-1", "a-2"}


def test_one_of_each_kind_comes_first() -> None:
    """A ring with room has one agent of each kind, so that a version that fails on a kind fails in the first ring."""
    kinds = ["web"] * 14 + ["db"] * 5 + ["mail"]
    agents = fleet(100, role=lambda n: kinds[n % 20], id=str)
    for version in range(20):
        members = choose(agents, read_rings("3%")[0], frozenset(), version, KEY)
        assert {each.labels["role"] for each in agents if each.name in members} == {"web", "db", "mail"}


def test_a_ring_by_its_label() -> None:
    """A label with a pattern makes a ring; an agent that is in another ring already stays."""
    agents = fleet(10, role=lambda n: "canary" if n < 2 else "web")
    assert choose(agents, read_rings("role=can*")[0], frozenset(), 7, KEY) == {"a-0", "a-1"}
    assert choose(agents, read_rings("role=canary")[0], frozenset({"a-9"}), 7, KEY) == {"a-0", "a-1", "a-9"}


def test_what_a_version_touches() -> None:
    """A version touches checks with another file, those that require a changed library, and all for another Equus."""
    before = {"cpu.lua": "1", "disk.lua": "1", "net.lua": "1", "lib/x.lua": "1"}
    changed = touched(before, {**before, "cpu.lua": "2", "new.lua": "1"}, {"net.lua"}, False)
    assert changed == Touched(("cpu.lua",), ("new.lua",), (), frozenset({"cpu", "new"}), {"cpu": "2", "new": "1"})
    assert touched(before, {**before, "lib/x.lua": "2"}, {"net.lua"}, False).checks == {"net"}
    assert touched(before, before, set(), True).checks == {"cpu", "disk", "net"}
    gone = touched(before, {"cpu.lua": "1"}, set(), False)
    assert gone.text == "removed: disk.lua, lib/x.lua, net.lua"


# ---------------------------------------------------------------------------------------------- gates


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ({"errors": "1.5%", "changed": "100%"}, Limits(errors=0.015, changed=1.0)),
        ({"run-time": "off", "memory": "3"}, Limits(run_time=None, memory=3.0)),
        ({"results": "1", "window": "500ms", "patience": "1h"}, Limits(results=1, window=0.5, patience=3600.0)),
    ],
)
def test_limits(said: dict[str, str], found: Limits) -> None:
    """Limits are set by name; the rest is as usual, also after JSON."""
    assert read_limits(said) == found
    assert Limits.from_json(json.loads(json.dumps(found.to_json()))) == found


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("speed", "1", "is no gate: errors, changed"), ("errors", "5", "write a share"), ("errors", "101%", "share"),
        ("memory", "0.5", "from 1 to 1000, or off"), ("results", "0", f"from 1 to {MOST_RUNS}"),
        ("results", str(MOST_RUNS + 1), "write a number"), ("window", "x", "is not a duration"),
        ("window", "0s", "of a day at most"), ("window", "20m", "patience is shorter than window"),
    ],
)  # fmt: skip
def test_limits_that_are_none(name: str, value: str, sentence: str) -> None:
    """A limit that is none is refused with a sentence."""
    with pytest.raises(ValueError, match=sentence):
        read_limits({name: value})


def runs(text: str, took: float = 10.0, peak: float = 3_000.0) -> list[Run]:
    """Return runs by letters: `ooc` is ok, ok, critical."""
    return [Run(WORDS[letter], took, peak, "" if letter == "o" else "no such mount") for letter in text]


def evidence(*members: str, limits: Limits = LIMITS) -> Evidence:
    """Return the evidence about check `disk`; each member is `OLD>NEW` in letters."""
    found = Evidence(limits)
    for number, member in enumerate(members):
        old, _, new = member.partition(">")
        found.expect((f"a-{number}", "disk"), "disk", runs(old))
        for run in runs(new):
            found.heard((f"a-{number}", "disk"), run)
    return found


GATES: dict[str, tuple[tuple[str, ...], str | None, bool]] = {  # members, what fails, all there
    "as before": (("ooo>ooo", "ccc>ccc"), None, True),
    "not all there": (("ooo>ooo", "ooo>oo"), None, False),
    "one of one has changed": (("ooo>cc",), "1 of 1 agents went from ok to bad or back (100.0 %", False),
    "not yet, with one result": (("ooo>c",), None, False),
    "one of three": (("ooo>cc", "ooo>", "ooo>"), "1 of 3 agents", False),
    "one of twenty is the limit": (("ooo>ccc", *["ooo>ooo"] * 19), None, True),
    "one of nineteen is beyond it": (("ooo>ccc", *["ooo>ooo"] * 18), "1 of 19 agents", False),
    "blind is as bad": (("ccc>ooo",), "1 of 1 agents", False),
    "warning to critical is no change": (("www>ccc",), None, True),
    "a repair": (("uuu>ooo",), None, True),
    "now so, now so before": (("oococ>ccc",), None, True),
    "mostly ok before": (("ooooc>ccc",), "1 of 1 agents", False),
    "nothing known before": ((">ccc",), None, True),
    "errors": (("ooo>uuu", *["ooo>ooo"] * 9), "3 of 30 runs failed (10.0 %, 0.0 % before; the limit is", False),
    "errors that were there": (("uuu>uuu", *["ooo>ooo"] * 9), None, True),
    "the first error of many": (("ooo>u", *["ooo>"] * 9), None, False),
    "errors of something new": ((">uuu",), "3 of 3 runs failed", False),
}  # fmt: skip


@pytest.mark.parametrize(("members", "failed", "is_complete"), GATES.values(), ids=GATES)
def test_what_a_gate_lets_through(members: tuple[str, ...], failed: str | None, is_complete: bool) -> None:
    """A gate passes what is at its limit, and fails what is beyond it."""
    weighed = evidence(*members).weigh()
    assert ((weighed.failed or "").startswith("disk: " if failed else ""), weighed.is_complete) == (True, is_complete)
    assert (weighed.failed is None) == (failed is None)
    assert (failed or "") in (weighed.failed or "")


def test_a_reason_names_some_who_failed() -> None:
    """A reason names some members that failed, and what they said."""
    weighed = evidence(*["ooo>ccc"] * 5).weigh()
    assert weighed.failed == (
        "disk: 5 of 5 agents went from ok to bad or back (100.0 %, the limit is 5.0 %); a-0: critical, no such mount;"
        " a-1: critical, no such mount; a-2: critical, no such mount and 2 more"
    )


@pytest.mark.parametrize(
    ("took", "peak", "said"),
    [
        (10.0, 3_000.0, None), (59.0, 3_000.0, None), (61.0, 3_000.0, "disk: a run takes 61 ms, 10 ms before"),
        (10.0, 7_000.0, None), (10.0, 7_200.0, "disk: a run needs 7200 KiB, 3000 KiB before"),
    ],
)  # fmt: skip
def test_time_and_memory(took: float, peak: float, said: str | None) -> None:
    """Time and memory fail beyond the factor and the slack; one odd run of three moves no median."""
    found = Evidence(LIMITS)
    for member in ("a", "b"):
        found.expect((member, "disk"), "disk", runs("ooo"))
        for run in (*runs("oo", took, peak), *runs("o", 9_000.0, 90_000.0)):
            found.heard((member, "disk"), run)
    weighed = found.weigh()
    assert weighed.is_complete
    assert (weighed.failed or "").startswith(said) if said else weighed.failed is None


def test_one_bad_check_among_good_ones() -> None:
    """Each check is compared by itself."""
    found = Evidence(LIMITS)
    for number in range(20):
        found.expect(("a", f"c{number}"), f"c{number}", runs("ooo"))
        for run in runs("ccc" if number == 7 else "ooo"):
            found.heard(("a", f"c{number}"), run)
    assert (found.weigh().failed or "").startswith("c7: 1 of 1 agents")


def test_figures() -> None:
    """Figures are shown as people see them; a member that is dropped counts no more."""
    found = evidence("ooo>ooo", "ooc>cou", ">o")
    assert found.figures("disk") == Figures(
        "disk", 3, 7, 9, 1 / 7, 0.0, 0, 1, 10.0, 10.0, 3_000.0, 3_000.0
    )  # fmt: skip
    found.drop(("a-1", "disk"))
    found.drop(("a-2", "disk"))
    assert found.figures("disk") == Figures("disk", 1, 3, 3, 0.0, 0.0, 0, 1, 10.0, 10.0, 3_000.0, 3_000.0)
    assert list(found.silent()) == []


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_the_order_in_which_results_arrive_changes_nothing(data: st.DataObject) -> None:
    """Members that fail always fail: any order comes to the same figures and to the same verdict in the end."""
    kinds = data.draw(st.lists(st.sampled_from(["o", "c", "u"]), min_size=1, max_size=8))
    took = data.draw(st.lists(st.floats(1, 500), min_size=len(kinds), max_size=len(kinds)))
    arriving = [(n, Run(WORDS[kind], took[n], 1_000.0)) for n, kind in enumerate(kinds) for _ in range(4)]
    order = data.draw(st.permutations(arriving))

    def outcome(arrived: Iterable[tuple[int, Run]]) -> tuple[str | None, bool, Figures]:
        found = Evidence(LIMITS)
        for n in range(len(kinds)):
            found.expect((f"a-{n}", "disk"), "disk", runs("ooo"))
        verdicts = set()
        for n, run in arrived:
            found.heard((f"a-{n}", "disk"), run)
            verdicts.add(found.weigh().failed is not None)
        weighed = found.weigh()
        assert (True in verdicts) == (weighed.failed is not None)  # it never went back for what was good in the end
        figures = found.figures("disk")
        return weighed.failed, weighed.is_complete, evolve(figures, run_ms=round(figures.run_ms or 0.0, 6))

    assert outcome(order) == outcome(arriving)


# ---------------------------------------------------------------------------------------------- a rollout

START = 1_000.0


class Course:
    """Plays a rollout of check `disk` on a fleet that does as the rows of a table say."""

    def __init__(self, rings: str = "20%,100%", agents: int = 5, limits: Limits = LIMITS) -> None:
        self.here = {f"a-{n}" for n in range(agents)}
        self.known = set(self.here)
        plan = Plan(read_rings(rings), limits)
        self.rollout = Rollout(7, "digest", 5, "eva", plan, START, Touched(("disk.lua",), checks=frozenset({"disk"})))
        assert self.rollout.advance(self.fleet(), START, 0.0)
        self.said: list[str] = []

    def fleet(self) -> list[Candidate]:
        return [Candidate(name, name in self.here) for name in sorted(self.known)]

    @property
    def ring(self) -> Any:
        return self.rollout.ring

    def act(self, time: float, word: str, *names: str) -> str:
        """Return the outcome: nothing, or the verdict with its reason."""
        for name in names or sorted(self.known if self.ring.members is None else self.ring.members):
            if word == "load" and self.ring.loaded(name, {}, time):
                self.ring.evidence.expect((name, "disk"), "disk", runs("ooo"))
            elif word == "broken":
                self.ring.loaded(name, {"disk.lua": "line 3: no"}, time)
            elif word in WORDS:
                self.ring.evidence.heard((name, "disk"), runs(word)[0])
            elif word == "gone":
                self.here.discard(name)
            elif word == "back":
                self.here.add(name)
        if word == "pause":
            self.rollout.paused = {"by": "eva", "at": time}
        elif word == "resume":
            self.rollout.resume(time)
        verdict = self.rollout.tick(frozenset(self.here), time)
        if verdict is None:
            return ""
        why = f"{verdict}: {self.ring.why}"
        if verdict == "passed":
            self.rollout.close_ring(START + time)
            why += "" if self.rollout.advance(self.fleet(), START + time, time) else "; finished"
        return why


def play(course: Course, table: str) -> None:
    """Play lines of `TIME WORD [NAME ...] | OUTCOME`; without names all members of the ring act."""
    for line in table.strip().splitlines():
        told, _, expected = line.partition("|")
        time, word, *names = told.split()
        assert f"{told.strip()} | {course.act(float(time), word, *names)}" == f"{told.strip()} | {expected.strip()}"


def test_from_ring_to_ring() -> None:
    """A ring loads, is watched for its window with three results of each, and passes to the new members of the next."""
    course = Course()
    (first,) = course.ring.members
    play(course, f"""
        1 load                  |
        2 o                     |
        3 o                     |
        4 o                     |
        10.9 tick               |
        11 tick                 | passed: 1 agent runs it, disk within its limits
        12 load {first}         |
        13 load                 |
        14 o                    |
        15 o                    |
        16 o                    |
        23 tick                 | passed: 4 agents run it, disk within its limits; finished
    """)  # fmt: skip
    assert [(each["ring"], each["state"], each["confirmed"]) for each in course.rollout.past] == [
        ("20%", "passed", 1), ("100%", "passed", 4),
    ]  # fmt: skip


def test_what_is_bad_goes_back_at_once() -> None:
    """A version goes back at the second of three bad results, and a file that two can't use goes back at once (F53)."""
    play(Course("100%"), """
        1 load                  |
        2 c a-1                 |
        3 c a-1                 | undo: disk: 1 of 5 agents went from ok to bad or back (20.0 %, the limit is 5.0 %);\
 a-1: critical, no such mount
    """)  # fmt: skip
    play(
        Course("100%"),
        """
        1 broken a-2            |
        2 load a-0              |
        3 broken a-0            | undo: a-0 and a-2 can't use disk.lua: line 3: no
    """,
    )


def test_a_member_is_blamed_for_results_that_most_others_do_not_have() -> None:
    """A member of five that alone finds a fault is blamed for it; a ring of one that finds a fault did
    its work (F53).
    """
    for rings, speakers in (("100%", {"a-1"}), ("20%,100%", frozenset[str]())):
        course = Course(rings)
        bad = "a-1" if rings == "100%" else min(course.ring.members)
        course.act(1, "load")
        course.act(2, "c", bad)
        assert course.act(3, "c", bad).startswith("undo: disk: 1 of")
        assert course.ring.speakers == speakers


def test_what_one_member_refuses_is_no_reason_by_itself() -> None:
    """The others can use it, so the ring passes and says so; a second one in a later ring takes it back (F53)."""
    course = Course("60%,100%")
    one, *others = sorted(course.ring.members)
    but = f"{one} alone can't use disk.lua: line 3: no"
    play(course, f"""
        1 broken {one}          |
        2 load {" ".join(others)} |
        3 o                     |
        4 o                     |
        5 o                     |
        12 tick                 | passed: 2 agents run it, disk within its limits; {but}
    """)  # fmt: skip
    assert course.rollout.past[0]["refused"] == {"disk.lua": {one: "line 3: no"}}
    restored = Rollout.from_json(7, "open", "eva", START, START, json.loads(json.dumps(course.rollout.to_json())), 0.0)
    assert restored.refused == restored.ring.refused == {"disk.lua": {one: "line 3: no"}}
    old = json.loads(json.dumps(course.rollout.to_json()))
    del old["refused"], old["ring"]["aside"]  # of a version that knew neither
    assert Rollout.from_json(7, "open", "eva", START, START, old, 0.0).ring.members is None
    (new, *_) = sorted(course.known - course.ring.before)
    both = " and ".join(sorted((one, new)))
    play(course, f"20 broken {new} | undo: {both} can't use disk.lua: line 3: no")
    assert course.ring.speakers == {one, new}


class Untouched(dict[str, Any]):
    """Raises when anybody looks at it."""

    def items(self) -> Any:
        raise AssertionError("a thread has looked at what the reactor changes")


def test_another_agent_is_asked_as_like_the_first_as_can_be() -> None:
    """The second agent is as like the first as can be; without any other the first one's word counts in the end."""
    course = Course("20%,100%")
    (first,) = course.ring.members
    course.act(1, "broken", first)
    assert (course.ring.needs_second, course.rollout.asks_second) == (True, True)
    agents = [
        Candidate(name, facts={"arch": "arm" if name == "a-4" or name == first else "x86"}) for name in course.known
    ]
    expected = "a-4" if first != "a-4" else course.rollout.second()(agents)
    assert course.rollout.second()(agents) == expected != first
    aside = [evolve(each, is_aside=each.name != first) for each in agents]
    assert course.rollout.second()(aside) is None
    search, members = course.rollout.second(), course.ring.members
    course.ring.refused, course.ring.members = Untouched(), None  # of the reactor, while a thread searches
    assert search(agents) == expected
    course.ring.refused, course.ring.members = {"disk.lua": {first: "line 3: no"}}, members
    course.ring.members |= {expected}
    course.act(2, "tick")
    assert not course.ring.needs_second
    assert course.ring.waits_for(frozenset(course.here), 2) == (
        f"{expected} to load it, since {first} can't use disk.lua: line 3: no"
    )
    said = course.act(100, "tick")
    assert said == f"undo: {first} can't use disk.lua: line 3: no; after 100 s not loaded: {expected}"
    assert course.ring.speakers == {first}


def test_an_agent_that_is_set_aside_is_in_no_early_ring_and_not_listened_to() -> None:
    """An agent that is set aside is in an early ring only without any other; its refusal in the last ring decides
    nothing.
    """
    agents = [Candidate(f"a-{n}", is_aside=n < 3) for n in range(5)]
    assert choose(agents, read_rings("80%")[0], frozenset(), 7, KEY) == {"a-3", "a-4"}
    alone = choose(agents[:3], read_rings("1%")[0], frozenset(), 7, KEY)
    assert len(alone) == 1 and alone < {"a-0", "a-1", "a-2"}
    rollout = Rollout(7, "digest", 5, "eva", Plan(read_rings("100%"), LIMITS), START)
    assert rollout.advance(agents, START, 0.0)
    for name in ("a-0", "a-1"):
        assert rollout.ring.loaded(name, {"disk.lua": "no"}, 1.0) is False
    here = frozenset(each.name for each in agents)
    assert (rollout.ring.verdict, rollout.ring.late(here)) == (None, {"a-3", "a-4"})


def test_no_agent_can_choose_a_name_for_the_first_ring() -> None:
    """With another key other names are first: a Helen of one's own says nothing about this one (F53)."""
    agents, spec = fleet(100), read_rings("1%")[0]
    chosen = {key: choose(agents, spec, frozenset(), 7, bytes([key]) * 32) for key in range(40)}
    assert len(set(chosen.values())) > 20
    assert chosen[3] == choose(agents, spec, frozenset(), 7, bytes([3]) * 32)


def test_two_versions_on_the_word_of_few_set_an_agent_aside() -> None:
    """One isn't enough, nor are versions that more members spoke against; readmitted it begins anew."""
    found = SetAside().count(3, ["a"]).count(5, ["a", "b", "c"]).count(7, [])
    assert (found.names, found.undone) == (frozenset(), {"a": (3,)})
    found = found.count(9, ["b", "a"])
    assert (found.names, found.shown()) == ({"a"}, {"a": [3, 9]})
    assert SetAside.from_json(found.to_json()) == found
    assert found.readmit("a").count(11, ["a"]).names == frozenset()
    with pytest.raises(NotSetAside):
        found.readmit("b")
    many = found
    for n in range(KEPT_MOST):
        many = many.count(n, [f"x{n}"])
    assert (len(many.undone), "a" in many.undone) == (KEPT_MOST, False)


def test_who_is_away_and_who_leaves() -> None:
    """A member that was away is not waited for; one that leaves after loading is, until patience is over."""
    play(
        Course("100%", 3),
        """
        0 gone a-0              |
        1 load a-1 a-2          |
        2 o                     |
        3 o                     |
        4 o                     |
        5 gone a-1              |
        50 tick                 |
        60 back a-1             | passed: 2 agents run it, disk within its limits; finished
    """,
    )
    play(
        Course("100%", 3),
        """
        1 load                  |
        2 gone a-1              |
        99.9 tick               |
        100 tick                | undo: after 100 s gone: a-1; without enough results: a-0, a-2
    """,
    )


def test_few_that_are_missing_are_let_go() -> None:
    """At most one in twenty is let go when patience is over; the rest has been judged."""
    course = Course("100%", 20)
    play(
        course,
        """
        1 load                  |
        2 o                     |
        3 o                     |
        4 o                     |
        5 gone a-3              |
        100 tick                | passed: 20 agents run it, disk within its limits; after 100 s gone: a-3; finished
    """,
    )


def test_silence() -> None:
    """A ring fails in which nobody has loaded the version, or that nobody is in."""
    play(Course("100%", 2), "100 tick | undo: after 100 s not loaded: a-0, a-1")
    play(
        Course("100%", 2),
        """
        1 gone                  |
        100 tick                | undo: after 100 s nobody of the ring is there
    """,
    )


def test_nothing_to_compare() -> None:
    """A check that nobody runs has its ring wait for the window, and the reason says so."""
    course = Course("100%", 2)
    course.ring.loaded("a-0", {}, 1.0)
    course.ring.loaded("a-1", {}, 2.0)
    play(
        course,
        """
        11 tick                 |
        12 tick                 | passed: 2 agents run it; none of them runs a changed check; finished
    """,
    )


def test_a_pause() -> None:
    """Nobody else gets a paused version; what is too bad goes back all the same; patience begins anew."""
    course = Course("100%", 1)
    play(
        course,
        """
        1 load                  |
        2 o                     |
        3 o                     |
        4 o                     |
        5 pause                 |
        500 tick                |
        501 resume              | passed: 1 agent runs it, disk within its limits; finished
    """,
    )
    play(
        Course("100%", 1),
        """
        1 load                  |
        2 pause                 |
        500 c                   |
        501 c                   | undo: disk: 1 of 1 agents went from ok to bad or back (100.0 %, the limit is 5.0 %);\
 a-0: critical, no such mount
    """,
    )
    play(
        Course("100%", 1),
        """
        1 pause                 |
        500 resume              |
        599 tick                |
        600 tick                | undo: after 100 s not loaded: a-0
    """,
    )


def test_rings_that_add_nobody_are_passed_over() -> None:
    """Rings that add nobody are skipped: with one agent all is done when the first ring has passed."""
    course = Course("1%,10%,100%", 1)
    play(
        course,
        """
        1 load                  |
        2 o                     |
        3 o                     |
        4 o                     |
        11 tick                 | passed: 1 agent runs it, disk within its limits; finished
    """,
    )
    assert [(each["ring"], each["state"]) for each in course.rollout.past] == [
        ("1%", "passed"), ("10%", "skipped"), ("100%", "skipped"),
    ]  # fmt: skip


def test_nothing_is_decided_before_the_history_is_read() -> None:
    """A ring decides nothing before the history is read, or the old version's errors would be the new one's."""
    course = Course("100%", 1)
    course.ring.is_compared = False
    play(
        course,
        """
        1 load                  |
        2 u                     |
        3 u                     |
        200 tick                |
    """,
    )


def test_a_rollout_survives_as_json() -> None:
    """A rollout comes back from JSON in its second ring and paused, with all but what members say anew."""
    course = Course()
    play(
        course,
        """
        1 load                  |
        2 o                     |
        3 o                     |
        4 o                     |
        11 pause                |
        12 resume               | passed: 1 agent runs it, disk within its limits
        13 load                 |
        14 pause                |
    """,
    )
    rollout = course.rollout
    said = json.loads(json.dumps(rollout.to_json()))
    again = Rollout.from_json(7, "open", "eva", START, rollout.changed, said, 14.0)
    again.ring.confirmed, again.ring.confirmed_at = dict(rollout.ring.confirmed), rollout.ring.confirmed_at
    again.ring.evidence, again.ring.began = rollout.ring.evidence, rollout.ring.began
    assert again == rollout
